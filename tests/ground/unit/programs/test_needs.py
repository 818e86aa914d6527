from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from mlir_release.ground.programs.needs import Needs, total_memory
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GB = 1_000_000_000
BUILD = Needs(purpose="to build LLVM", disk=GB // 10, memory=GB // 10, seconds=7200, remedy="free some space")


def test_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    BUILD.check(tmp_path)
    said = capsys.readouterr().err
    assert "0.1 GB of disk are needed (" in said
    assert f"0.1 GB of memory for one step (the machine has {total_memory() / GB:.1f} GB)" in said
    assert "2 h" in said


def test_too_little_disk(tmp_path: Path) -> None:
    much = replace(BUILD, disk=2 * shutil.disk_usage(tmp_path).total)
    refused(lambda: much.check(tmp_path), "disk-full", "to build LLVM")


def test_too_little_memory(tmp_path: Path) -> None:
    much = replace(BUILD, memory=total_memory() + GB)
    error = refused(lambda: much.check(tmp_path), "machine-unsuitable")
    assert f"one step takes {much.memory / GB:.1f} GB" in error.why


def test_a_windows_without_performance_counters_has_no_swap() -> None:
    def refuse() -> None:
        raise RuntimeError("PdhAddEnglishCounterW failed. Performance counters may be disabled.")

    assert total_memory(refuse) == psutil.virtual_memory().total
