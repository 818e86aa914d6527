"""Long commands: what is said of them, and how they end."""

from __future__ import annotations

import json
import os
import sys
from inspect import signature
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.progress import (
    BudgetSpent,
    BuildInterrupted,
    StageLog,
    disk_usage,
    explain,
    failing_step,
    run_step,
    steps_done,
)
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import LONGEST
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def run(program: str, log: Path, *, budget: float | None = None) -> None:
    run_step([sys.executable, "-c", program], environment=os.environ, log=log, what="it failed", budget=budget)


def test_only_what_compiles_llvm_may_take_longer_than_an_hour() -> None:
    assert signature(run_step).parameters["budget"].default == LONGEST  # CMake's configuration, a model of MLGO


def test_progress_is_said_once_a_twentieth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("for n in range(1, 201): print(f'[{n}/200] compiling')", tmp_path / "log")
    assert [line[0] for line in (tmp_path / "log").read_text().splitlines()] == ["+", *["["] * 200]
    assert capsys.readouterr().err.count("compiling") == 21


def test_a_failure_shows_the_lines_that_say_why(tmp_path: Path) -> None:
    program = "noise = ['noise'] * 50; print(*noise, 'a.cpp:1: error: no', *noise, sep=chr(10)); raise SystemExit(1)"
    error = refused(lambda: run(program, tmp_path / "log"), "program-failed", "it failed")
    assert error.why.splitlines() == ["a.cpp:1: error: no", *["noise"] * 14]


def test_one_whose_time_is_up_stops(tmp_path: Path) -> None:
    program, log = "import time; print('[1/2] compiling', flush=True); time.sleep(600)", tmp_path / "log"
    refused(lambda: run(program, log, budget=2), "interrupted", "the build was stopped after", BudgetSpent)
    assert "[1/2] compiling" in log.read_text()


def test_one_that_another_interrupts_is_no_failure(tmp_path: Path) -> None:
    program = "print('[1/2] compiling\\nerror: x\\nninja: build stopped: interrupted by user.'); raise SystemExit(130)"
    refused(lambda: run(program, tmp_path / "log"), "interrupted", "the build was interrupted", BuildInterrupted)


NINJA = """+ ninja -j 2 distribution
[1/9] Building CXX object a.cpp.o
FAILED: [code=1] lib/b.cpp.o
/tools/sccache /usr/bin/c++ -Werror=date-time -o lib/b.cpp.o -c /llvm/b.cpp
/llvm/b.h:3: note: \x1b[01min a macro\x1b[0m
/llvm/b.cpp:7:3: \x1b[31merror: \x1b[0mno matching function
    7 |   call();
      |   ^~~~
[3/9] Building CXX object c.cpp.o
FAILED: [code=1] lib/d.cpp.o
/tools/sccache /usr/bin/c++ -o lib/d.cpp.o -c /llvm/d.cpp
/llvm/d.cpp:1:1: error: another one
ninja: build stopped: subcommand failed.
"""


def test_of_a_failing_step_the_compilers_lines_are_shown(tmp_path: Path) -> None:
    error = refused(lambda: run(f"print({NINJA!r}); raise SystemExit(1)", tmp_path / "log"))
    assert error.why.splitlines() == [
        "FAILED: [code=1] lib/b.cpp.o",
        "/llvm/b.cpp:7:3: error: no matching function",
        "    7 |   call();",
        "      |   ^~~~",
    ]


def test_of_a_failing_configuration_the_message_is_shown() -> None:
    log = "-- Looking for a\nCMake Error at x.cmake:3 (message):\n  no compiler\n\n-- Configuring incomplete\n"
    assert explain(failing_step(log))[:2] == ["CMake Error at x.cmake:3 (message):", "  no compiler"]


def test_without_an_error_message_the_end_is_shown() -> None:
    lines = [f"line {number}" for number in range(50)]
    assert explain(failing_step("\n".join(lines))) == lines[-15:]


@pytest.mark.parametrize(
    "message",
    [
        "/tmp/cc1.s: Fatal error: can't write 12 bytes to section .text of a.o: No space left on device",
        "ninja: fatal: write: No space left on device",
        "LINK : fatal error: There is not enough space on the disk.",
    ],
)
def test_a_full_disk_is_named(tmp_path: Path, message: str) -> None:
    program = f"print('FAILED: a.o'); print('c++ a'); print({message!r}); raise SystemExit(1)"
    error = refused(lambda: run(program, tmp_path / "log"), "disk-full")
    assert message in error.why
    assert "used again" in error.remedy


def test_steps_are_counted(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(NINJA)
    assert steps_done(tmp_path / "log") == 3 - 2
    assert steps_done(tmp_path / "none") == 0


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
