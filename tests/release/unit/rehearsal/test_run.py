"""What a rehearsal is told to use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import UsageError
from mlir_release.release.rehearsal.run import Options, rehearse
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path


def test_one_llvm_is_given_and_not_two(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--prefix and --from-source exclude each other") as caught:
        rehearse(Options(workspace=tmp_path / "workspace", prefix=tmp_path, from_source=True))
    assert caught.value.id == "option-invalid"
    assert not (tmp_path / "workspace").exists()


def test_a_toolkit_without_its_extra_says_so_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "elftools", None)
    error = refused(lambda: rehearse(Options(workspace=tmp_path / "workspace")), "tool-missing")
    assert "'.[wheels]'" in error.remedy
    assert not (tmp_path / "workspace").exists()


def test_an_sdk_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        rehearse(Options(workspace=tmp_path / "workspace", sdk=tmp_path / "none"))
