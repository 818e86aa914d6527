"""What a rehearsal is told to use."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.release.rehearsal.report import RehearsalReport
from mlir_release.release.rehearsal.run import Options, expected, rehearse
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_one_llvm_is_given_and_not_two(tmp_path: Path) -> None:
    options = Options(workspace=tmp_path / "workspace", prefix=tmp_path, from_source=True)
    refused(lambda: rehearse(options), "option-invalid", "--prefix and --from-source exclude each other")
    assert not (tmp_path / "workspace").exists()


def test_a_toolkit_without_its_extra_says_so_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "elftools", None)
    error = refused(lambda: rehearse(Options(workspace=tmp_path / "workspace")), "tool-missing")
    assert "'.[wheels]'" in error.remedy
    assert not (tmp_path / "workspace").exists()


def test_a_rehearsal_says_what_it_takes_before_it_begins(tmp_path: Path) -> None:
    first = expected(tmp_path / "cache", cores=2)
    assert first.startswith("about 25 minutes on 2 idle cores, for a first run; 6 GB of disk, of ")
    (tmp_path / "cache" / "sdks" / "one").mkdir(parents=True)
    assert expected(tmp_path / "cache", cores=4).startswith("about 5 minutes on 4 idle cores, for a later run; 2 GB")


def test_a_rehearsal_that_succeeds_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    report = RehearsalReport(tag="snapshot-20261120.01", index="/site/index.html", commands=["pip install mlir"])
    with report.step("build"):
        pass
    console.outcome(report)
    out, err = capsys.readouterr()
    assert "The rehearsal succeeded in 0.0 s. It published snapshot-20261120.01" in out
    assert "pip install mlir" in out
    assert "failed" not in out + err
