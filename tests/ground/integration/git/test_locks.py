"""Locks on files, between two descriptors as between two processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground.git import locks

if TYPE_CHECKING:
    from pathlib import Path


def test_one_holds_a_lock_alone(tmp_path: Path) -> None:
    path = tmp_path / "made" / "lock"
    with locks.exclusive(path) as held:
        assert held is not None
        with locks.exclusive(path, wait=False) as second:
            assert second is None
    with locks.exclusive(path, wait=False) as again:
        assert again is not None


def test_several_hold_it_shared(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open() as first, path.open() as second, path.open() as third:
        assert locks.lock(first.fileno(), shared=True)
        assert locks.lock(second.fileno(), shared=True, wait=False)
        assert not locks.lock(third.fileno(), wait=False)
        locks.unlock(first.fileno())
        locks.unlock(second.fileno())
        assert locks.lock(third.fileno(), wait=False)
