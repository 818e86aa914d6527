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
from mlir_release.integrate.walk.roll import Orders
from mlir_release.integrate.walk.walk import WalkEnd

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = WalkEnd(outcome="head", branch="b", upstream="LLVM", base="0" * 40, remaining=0)
UNREACHABLE = UnreachableError("any-id", "the remote can't be read")


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> Callable[..., list[float]]:
    """Replace walks by their results, one after the other; returns the pauses between them."""

    def script(*results: WalkEnd | Exception) -> list[float]:
        pending = list(results)

        def run(*args: Any, **kwargs: Any) -> WalkEnd:
            result = pending.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        project = SimpleNamespace(config=SimpleNamespace(branch_pattern=lambda: "b-{date}"))
        walk = SimpleNamespace(
            run=run,
            strategy=lambda *_: (Adaptive(), 1),
            branch="b",
            project=project,
            set_publish=lambda _: None,
        )
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        monkeypatch.setattr(loop, "open_joint", lambda *_, **__: walk)
        monkeypatch.setattr(loop, "_watch", lambda _: None)
        return pauses

    return script


def run(arrivals: int, **options: Any) -> list[str]:
    return [end.outcome for end in islice(loop.run(Path(), **options), arrivals)]


def test_one_walk_to_head(walks: Callable[..., list[float]]) -> None:
    pauses = walks(HEAD)
    assert run(9) == ["head"]
    assert pauses == []


def test_an_unreachable_remote_is_retried_while_waiting(walks: Callable[..., list[float]]) -> None:
    pauses = walks(HEAD, UNREACHABLE, UNREACHABLE, HEAD)
    assert run(2, wait=True, every=7) == ["head", "head"]
    assert pauses == [7, 7, 7]


def test_an_unreachable_remote_ends_the_first_walk(walks: Callable[..., list[float]]) -> None:
    walks(UNREACHABLE)
    with pytest.raises(UnreachableError):
        run(1, wait=True)


def test_no_other_error_is_retried(walks: Callable[..., list[float]]) -> None:
    walks(HEAD, MachineError("network-failed", "the same id, but another type"))
    with pytest.raises(MachineError):
        run(2, wait=True)


def test_waiting_ends_where_probes_are_needed(walks: Callable[..., list[float]]) -> None:
    walks(WalkEnd(outcome="untested", branch="b", upstream="LLVM", base="0" * 40, remaining=3))
    assert run(9, wait=True, probing=False) == ["untested"]


def test_a_stopped_roller_is_asked_again_while_waiting(
    walks: Callable[..., list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = walks(HEAD, HEAD)
    modes = ["running", "stopped", "running"]
    stopped = WalkEnd(outcome="stopped", branch="b", upstream="LLVM", base="0" * 40, remaining=7)
    monkeypatch.setattr(loop, "read_orders", lambda _: Orders(mode=modes.pop(0)))
    monkeypatch.setattr(loop, "_stopped", lambda *_: stopped)
    assert run(3, roll=True, wait=True, every=7) == ["head", "stopped", "head"]
    assert pauses == [7, 7]
