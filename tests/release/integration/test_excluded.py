"""A release of a revision whose bindings do not support every CPython of the matrix."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.console import console
from mlir_release.ground.python.cpython import CPython
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests.refusals import refused
from tests.release_stage import find_release, make_stage
from tests.revision_factory import FACTS
from tests.wheel_factory import OTHER_PYTHON, PYTHON, TAG

if TYPE_CHECKING:
    from pathlib import Path

    from tests.release_stage import Stage

NEWER = "snapshot-20261120.03"
EXCLUDED, KEPT = f"mlir-linux-x86_64-{OTHER_PYTHON}", f"mlir-linux-x86_64-{PYTHON}"
DEMANDING = replace(FACTS, version="29.1.0", minimum_python=CPython.of_tag(PYTHON).version)
REASON = f"LLVM 29.1.0 needs CPython {DEMANDING.minimum_python} or newer"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = make_stage(tmp_path)
    made.add_tag(NEWER, "20261120.3", facts=DEMANDING)
    return made


def matrix(stage: Stage, monkeypatch: pytest.MonkeyPatch, *options: str) -> tuple[str, str]:
    """Standard output and standard error of the command."""
    console.json_mode = False
    command = ["matrix", *options, "--forge", f"local:{stage.forge.root}"]
    done = CliRunner().invoke(app, command, standalone_mode=False, catch_exceptions=False)
    return done.stdout, done.stderr


@pytest.mark.parametrize("option", ["--tag", "--missing"])
def test_the_matrix_of_a_tag_says_what_it_leaves_out(
    stage: Stage, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, said = matrix(stage, monkeypatch, option, NEWER)
    assert KEPT in table
    assert EXCLUDED not in table
    assert said.splitlines() == [f"left out: {EXCLUDED}: {REASON}"]
    shown = json.loads(matrix(stage, monkeypatch, option, NEWER, "--json")[0])
    assert KEPT in [row["name"] for row in shown["rows"]]
    assert shown["excluded"] == [{"target": EXCLUDED, "reason": REASON}]
    for kind, name in (("wheels", EXCLUDED), ("tests", f"smoke-{EXCLUDED}")):
        rows = json.loads(matrix(stage, monkeypatch, option, NEWER, "--github", "--kind", kind)[0])["include"]
        assert rows
        assert name not in [row["name"] for row in rows]
    shown = json.loads(matrix(stage, monkeypatch, option, NEWER, "--only", f"python={OTHER_PYTHON}", "--json")[0])
    assert (shown["rows"], len(shown["excluded"])) == ([], 1)


def test_the_tag_of_an_older_toolkit_leaves_nothing_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    for option in ("--tag", "--missing"):
        table, said = matrix(stage, monkeypatch, option, TAG)
        assert {EXCLUDED, KEPT} <= set(table.split())
        assert not said


def test_it_is_published_without_and_its_page_says_why(stage: Stage) -> None:
    draft = stage.draft(NEWER)
    upload(draft, stage.fill(tag=NEWER, version="20261120.3", pythons=(PYTHON,)))
    assert draft.card().lacking_wheels == (f"mlir-core-linux-x86_64-{PYTHON}",)
    outcome = publish(draft)
    assert [wheel.target for wheel in outcome.manifest.wheels] == [KEPT]
    assert {row.target: row.reason for row in outcome.manifest.left_out}[EXCLUDED] == REASON
    body = find_release(stage.again(), NEWER).body
    assert "### Left out" in body
    assert EXCLUDED in body
    assert not outcome.manifest.waivers


def test_an_excluded_wheel_cannot_come_in(stage: Stage) -> None:
    draft = stage.draft(NEWER)
    refused(lambda: draft.matrix.wheel(EXCLUDED), "option-invalid")


def test_a_tag_with_garbage_is_refused(stage: Stage) -> None:
    garbage = "snapshot-20261120.04"
    stage.add_tag(garbage, "20261120.4", facts=replace(DEMANDING, minimum_python="three"))
    error = refused(lambda: stage.draft(garbage), "tag-foreign")
    assert error.why == "Minimum-Python is 'three'"
