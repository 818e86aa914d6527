"""``integrate run``'s loop: what is retried while it waits, and what is not."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.errors import MachineError
from mlir_release.ground.git.remotes import UnreachableError
from mlir_release.ground.strategy import Adaptive
from mlir_release.integrate import loop
from mlir_release.integrate.config import ROLL_VARIABLE, RollTable
from mlir_release.integrate.report import WalkEnd

if TYPE_CHECKING:
    from tests.conftest import Pauses

HEAD = WalkEnd(outcome="head", branch="b", upstream="LLVM", base="0" * 40, remaining=0)
UNREACHABLE = UnreachableError("any-id", "the remote can't be read")


@pytest.fixture(autouse=True)
def no_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def run(arrivals: int, *results: WalkEnd | Exception, **options: Any) -> list[str]:
    """The first arrivals of a loop whose walks have these results, one after the other."""
    pending = list(results)

    def walked(*_: Any, **__: Any) -> WalkEnd:
        result = pending.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    project = SimpleNamespace(
        config=SimpleNamespace(branch_pattern=lambda: "b-{date}", roll=RollTable()),
        upstream=SimpleNamespace(
            config=SimpleNamespace(title="LLVM", url="", carriers=()), objects=lambda names: names
        ),
        main_ref=lambda: "main",
        outer=SimpleNamespace(read=lambda *_: None, run=lambda *_: SimpleNamespace(stdout=b"")),
    )
    seen = SimpleNamespace(branch="b", base="0" * 40, until="", patches=[], ahead=[])
    observer = SimpleNamespace(look=lambda **_: seen, project=project)
    walk: Any = SimpleNamespace(
        run=walked,
        strategy=lambda *_: (Adaptive(), 1),
        branch="b",
        project=project,
        walks=[SimpleNamespace(observer=observer, project=project, branch="b")],
    )
    ends = loop.run(Path(), "", loop.RunRequest(**options), opened=lambda *_, **__: walk)
    return [end.outcome for end in islice(ends, arrivals)]


def test_one_walk_to_head(pauses: Pauses) -> None:
    assert run(9, HEAD) == ["head"]
    assert pauses == []


def test_an_unreachable_remote_is_retried_while_waiting(pauses: Pauses) -> None:
    assert run(2, HEAD, UNREACHABLE, UNREACHABLE, HEAD, wait=True, every=7) == ["head", "head"]
    assert pauses == [7, 7, 7]


def test_an_unreachable_remote_ends_the_first_walk(pauses: Pauses) -> None:
    with pytest.raises(UnreachableError):
        run(1, UNREACHABLE, wait=True)


def test_no_other_error_is_retried(pauses: Pauses) -> None:
    with pytest.raises(MachineError):
        run(2, HEAD, MachineError("network-failed", "the same id, but another type"), wait=True)


def test_waiting_ends_where_probes_are_needed(pauses: Pauses) -> None:
    end = WalkEnd(outcome="untested", branch="b", upstream="LLVM", base="0" * 40, remaining=3)
    assert run(9, end, wait=True, probing=False) == ["untested"]


def test_a_stopped_roller_is_asked_again_while_waiting(monkeypatch: pytest.MonkeyPatch, pauses: Pauses) -> None:
    modes = ["stopped", "running"]
    pauses.meanwhile = lambda: monkeypatch.setenv(ROLL_VARIABLE, modes.pop(0))
    assert run(3, HEAD, HEAD, roll=True, wait=True, every=7) == ["head", "stopped", "head"]
    assert pauses == [7, 7]
