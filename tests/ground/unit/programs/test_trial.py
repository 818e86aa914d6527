"""Commands whose exit codes are answers: how they end, and what is no answer."""

from __future__ import annotations

import os
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.git import locks
from mlir_release.ground.programs.trial import Trial, TrialCancelled, TriedCommand, run_trial
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the commands are shell scripts")


def run(folder: Path, script: str, **options: Any) -> Trial:
    with locks.exclusive(folder / "lock") as lock:
        assert lock is not None
        return run_trial(
            TriedCommand(["sh", "-c", script], "the command", "correct it"),
            log=folder / "logs" / "log",
            environment=dict(os.environ),
            cwd=folder,
            lock=lock,
            **options,
        )


@pytest.mark.parametrize("code", [0, 1, 125, 128, 200])
def test_an_exit_code_comes_back_with_the_output_in_the_log(tmp_path: Path, code: int) -> None:
    assert run(tmp_path, f"echo said; exit {code}") == Trial(code)
    assert (tmp_path / "logs" / "log").read_text() == "said\n"


@pytest.mark.parametrize("script", ["kill -9 $$", "exit 137", "exit 143", "kill -TERM $$"])
def test_a_command_that_was_killed_says_nothing(tmp_path: Path, script: str) -> None:
    found = run(tmp_path, script)
    assert "was ended by SIG" in found.killed
    assert found.code is not None


def test_a_crash_is_a_failure(tmp_path: Path) -> None:
    assert run(tmp_path, "kill -SEGV $$") == Trial(-11)


def test_a_killed_compiler_says_nothing(tmp_path: Path) -> None:
    found = run(tmp_path, "echo 'g++: fatal error: Killed signal terminated program cc1plus'; exit 1")
    assert found.killed == "a compiler was killed in the command"
    assert "cc1plus" in found.why


def test_a_log_of_any_size_is_judged_without_reading_it_into_memory(tmp_path: Path) -> None:
    lines = "yes 'some line of a log' | head -c 8000000"
    tracemalloc.start()
    try:
        found = run(tmp_path, f"{lines}; echo 'error: unable to execute command: Killed'; exit 1")
        assert run(tmp_path, f"{lines}; exit 1") == Trial(1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.why.endswith("error: unable to execute command: Killed")
    assert peak < 1 << 20


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    assert run(tmp_path, "echo begun; sleep 1000", timeout=0.5) == Trial(None)
    assert "no result after 0.5 seconds" in (tmp_path / "logs" / "log").read_text()


def test_a_command_that_is_not_needed_any_more_is_ended(tmp_path: Path) -> None:
    with pytest.raises(TrialCancelled):
        run(tmp_path, "sleep 1000", needed=lambda: False)


@pytest.mark.parametrize("script", ["exit 127", "exit 126", "nothing-of-that-name"])
def test_a_command_that_can_t_be_run_is_an_error(tmp_path: Path, script: str) -> None:
    error = refused(lambda: run(tmp_path, script), "tool-missing", "the command can't be run")
    assert error.remedy == "correct it"


def test_a_failure_on_a_full_disk_is_an_error(tmp_path: Path) -> None:
    refused(lambda: run(tmp_path, "echo 'write: No space left on device'; exit 1"), "disk-full", "the command failed")
