from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import UsageError
from mlir_release.release.provenance.trust import TRUST_VARIABLE, load_trust, signing_config
from tests.refusals import refused
from tests.sigstore.instance import MadeSigstore

if TYPE_CHECKING:
    from pathlib import Path


def test_a_root_is_read_from_each_kind_of_file(tmp_path: Path) -> None:
    made = MadeSigstore()
    root, path = made.trusted_root(), tmp_path / "root.json"
    path.write_text(json.dumps(root, indent=1))
    assert len(load_trust(path).roots) == 1
    path.write_text(f"{json.dumps(root)}\n{json.dumps(root)}\n")
    assert len(load_trust(path).roots) == 2
    path.write_text(json.dumps(made.client_config("http://127.0.0.1:1")))
    assert len(load_trust(None, {TRUST_VARIABLE: str(path)}).roots) == 1
    assert signing_config({TRUST_VARIABLE: str(path)}).signing_config.get_fulcio().url == "http://127.0.0.1:1"


def test_githubs_own_root_is_passed_over_where_there_is_another(tmp_path: Path) -> None:
    root, path = MadeSigstore().trusted_root(), tmp_path / "root.jsonl"
    private = {**root, "tlogs": []}
    path.write_text(f"{json.dumps(root)}\n{json.dumps(private)}\n")
    assert len(load_trust(path).roots) == 1
    path.write_text(json.dumps(private))
    error = refused(lambda: load_trust(path), "input-invalid")
    assert "private" in error.why


@pytest.mark.parametrize("text", ["", "[]", "{", "1", '{"mediaType": "x", "tlogs": [{}]}', '{"tlogs": [1]}'])
def test_what_is_no_root_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "root.json"
    path.write_text(text)
    error = refused(lambda: load_trust(path), "input-invalid")
    assert error.where == str(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = refused(lambda: signing_config({TRUST_VARIABLE: str(tmp_path / "none.json")}), kind=UsageError)
    assert error.where.endswith("none.json")
