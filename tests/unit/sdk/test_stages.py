"""The log of a build's stages."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from mlir_release.errors import MachineError
from mlir_release.sdk.progress import BudgetSpent, BuildInterrupted, StageLog, disk_usage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def counting(*totals: tuple[int, int]) -> Callable[[], tuple[int, int]]:
    following = iter(totals)
    return lambda: next(following)


def test_a_stage_records_what_it_took(tmp_path: Path) -> None:
    stages = StageLog(tmp_path / "sdk")
    folder = tmp_path / "tree"
    folder.mkdir()
    log = tmp_path / "build.log"
    with stages.stage("build", folder, log=log, counts=counting((10, 5), (17, 6))):
        (folder / "object").write_bytes(b"x" * 100_000)
        log.write_text("[1/7] compiling\n[2/7] compiling\n[7/7] linking\n")
    (stage,) = StageLog(tmp_path / "sdk").stages
    assert (stage.name, stage.outcome, stage.steps, stage.hits, stage.misses) == ("build", "done", 7, 7, 1)
    assert stage.size >= 100_000
    assert stage.free > 0
    assert stage.started.endswith("Z")
    assert json.loads((tmp_path / "sdk.stages.json").read_text())[0]["name"] == "build"


def test_runs_are_added_to_those_before(tmp_path: Path) -> None:
    budget = BudgetSpent("interrupted", "time is up", remedy="again")
    interrupted = BuildInterrupted("interrupted", "interrupted", remedy="again")
    broken = MachineError("program-failed", "it failed", remedy="again")
    for error in (budget, interrupted, broken, KeyboardInterrupt()):
        with pytest.raises(type(error)), StageLog(tmp_path / "sdk").stage("build", tmp_path):
            raise error
    with StageLog(tmp_path / "sdk").stage("build", tmp_path):
        pass
    outcomes = [stage.outcome for stage in StageLog(tmp_path / "sdk").stages]
    assert outcomes == ["stopped", "stopped", "failed", "stopped", "done"]


def test_a_stage_whose_process_was_killed(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:  # pragma: no cover
        with StageLog(tmp_path / "sdk").stage("build", tmp_path):
            os._exit(9)
    os.waitpid(child, 0)
    assert [stage.outcome for stage in StageLog(tmp_path / "sdk").stages] == ["running"]
    with StageLog(tmp_path / "sdk").stage("build", tmp_path):
        pass
    assert [stage.outcome for stage in StageLog(tmp_path / "sdk").stages] == ["killed", "done"]


@pytest.mark.parametrize("text", ["", "{}", '[{"name": 1}]', "\x00"])
def test_a_log_that_cannot_be_read_stops_no_build(tmp_path: Path, text: str) -> None:
    (tmp_path / "sdk.stages.json").write_text(text)
    with StageLog(tmp_path / "sdk").stage("build", tmp_path):
        pass
    assert len(StageLog(tmp_path / "sdk").stages) == 1


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 50_000)
    once = disk_usage(tmp_path)
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    assert disk_usage(tmp_path) == once >= 50_000


def test_the_table_is_a_step_summary_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    stages = StageLog(tmp_path / "sdk")
    with stages.stage("configure", tmp_path):
        pass
    stages.show()
    assert "configure" in capsys.readouterr().out
    header, rule, row = (tmp_path / "summary.md").read_text().strip().splitlines()[2:]
    assert header.count("|") == rule.count("|") == row.count("|")
