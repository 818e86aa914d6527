from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest

from mlir_release.ground.programs import needs
from mlir_release.ground.programs.needs import Needs, total_memory
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

GB = 1_000_000_000
BUILD = Needs(purpose="to build LLVM", disk=12 * GB, memory=3 * GB, seconds=7200, remedy="free some space")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine with just enough."""
    found = SimpleNamespace(free=12 * GB, memory=3 * GB)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=found.free))
    monkeypatch.setattr(needs, "total_memory", lambda: found.memory)
    return found


def test_enough(machine: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    BUILD.check(tmp_path)
    said = capsys.readouterr().err
    assert "12.0 GB of disk are needed (12.0 GB are free)" in said
    assert "3.0 GB of memory" in said
    assert "2 h" in said


def test_too_little_disk(machine: SimpleNamespace, tmp_path: Path) -> None:
    machine.free -= 1
    refused(lambda: BUILD.check(tmp_path), "disk-full", "to build LLVM")


def test_too_little_memory(machine: SimpleNamespace, tmp_path: Path) -> None:
    machine.memory -= 1
    error = refused(lambda: BUILD.check(tmp_path), "machine-unsuitable")
    assert "one step takes 3.0 GB" in error.why


def test_this_machine_has_memory() -> None:
    assert total_memory() > GB / 4


def test_a_windows_without_performance_counters_has_no_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("PdhAddEnglishCounterW failed. Performance counters may be disabled.")

    monkeypatch.setattr(psutil, "swap_memory", refuse)
    assert total_memory() == psutil.virtual_memory().total
