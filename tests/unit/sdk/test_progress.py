"""Long commands: what is said of them, and how they end."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.errors import MachineError
from mlir_release.sdk.progress import BudgetSpent, run_step

if TYPE_CHECKING:
    from pathlib import Path


def run(program: str, log: Path, *, budget: float | None = None) -> None:
    run_step([sys.executable, "-c", program], environment=os.environ, log=log, what="it failed", budget=budget)


def test_progress_is_said_once_a_twentieth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("for n in range(1, 201): print(f'[{n}/200] compiling')", tmp_path / "log")
    assert [line[0] for line in (tmp_path / "log").read_text().splitlines()] == ["+", *["["] * 200]
    assert capsys.readouterr().err.count("compiling") == 21


def test_a_failure_shows_the_lines_that_say_why(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="it failed") as caught:
        run("print('a.cpp:1: error: no'); [print('noise') for _ in range(50)]; raise SystemExit(1)", tmp_path / "log")
    assert caught.value.id == "sdk-build-failed"
    assert caught.value.why == "a.cpp:1: error: no"


def test_one_whose_time_is_up_stops(tmp_path: Path) -> None:
    with pytest.raises(BudgetSpent) as caught:
        run("import time; print('[1/2] compiling', flush=True); time.sleep(600)", tmp_path / "log", budget=2)
    assert caught.value.id == "sdk-budget-spent"
    assert "[1/2] compiling" in (tmp_path / "log").read_text()


def test_one_that_ends_in_time_is_not_stopped(tmp_path: Path) -> None:
    run("pass", tmp_path / "log", budget=600)
