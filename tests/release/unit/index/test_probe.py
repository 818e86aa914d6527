"""What is probed, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.release.index.site import PROBED, to_probe
from mlir_release.release.probe.probe import Patience, find_tools
from tests.refusals import refused

if TYPE_CHECKING:
    import pytest


def test_patience_ends() -> None:
    now, pauses = 100.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)

    patience = Patience(seconds=70, pause=30, clock=lambda: now, sleep=sleep)
    patience.begin()
    while patience.again():
        pass
    assert pauses == [30, 30, 10]
    patience = Patience(clock=lambda: now, sleep=sleep)
    patience.begin()
    assert not patience.again()


def test_the_newest_few_of_each_kind_are_probed() -> None:
    snapshots = [f"snapshot-202611{day:02d}.01" for day in range(1, 10)]
    assert to_probe([]) == []
    assert to_probe(["llvm-22.1.8.01"]) == ["llvm-22.1.8.01"]
    found = to_probe([*snapshots, "llvm-9.0.0.01", "llvm-10.0.0.01"])
    assert found == [*snapshots[::-1][:PROBED], "llvm-10.0.0.01", "llvm-9.0.0.01"]


def test_installers_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert find_tools([]) == {}
    refused(lambda: find_tools(["uv", "poetry"]), "tool-missing", "uv, poetry")
