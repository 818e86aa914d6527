"""What walks leave on a machine goes by itself: old logs, and slots that nobody uses any more."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground import strategy as st
from mlir_release.ground.git import locks
from mlir_release.integrate.walk.smoke import slots
from mlir_release.integrate.walk.tidy import DAY, LOG_BYTES, OWNER, tidy

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.walk.walk import Walk


def aged(path: Path, days: float, size: int = 5) -> Path:
    """A file without content that was written some days ago, and takes no room on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, size)
    os.utime(path, (time.time() - days * DAY,) * 2)
    return path


def test_a_walk_removes_old_logs_and_keeps_those_of_its_known_failures(walk: Walk) -> None:
    walk.observer.look()
    assert walk.run(st.Adaptive()).outcome == "culprit"
    failed = [record.key for record in walk.store.load().values() if record.verdict is st.Verdict.BAD]
    assert failed
    logs = [aged(walk.project.log(name), 31) for name in (*failed, "bisect-0123456789ab", "0" * 40)]
    young = aged(walk.project.log("1" * 40), 29)
    assert walk.run(st.Adaptive()).outcome == "culprit"
    assert [log.exists() for log in logs] == [True] * len(failed) + [False, False]
    assert young.exists()


def test_the_newest_logs_stay_up_to_a_size(walk: Walk) -> None:
    logs = [aged(walk.project.log(f"{days}"), days, LOG_BYTES * 2 // 5) for days in (2, 3, 4, 5)]
    begun = [aged(walk.project.log(f"begun{number}"), 0.5, 0) for number in range(2)]
    tidy(walk.project, kept=["5"])
    assert [log.exists() for log in logs] == [True, True, False, True]
    assert all(log.exists() for log in begun)
    written = aged(walk.project.log("written"), 0, LOG_BYTES)  # perhaps by another walk, at this moment
    tidy(walk.project)
    assert written.exists()
    assert not logs[0].exists()


@pytest.fixture
def slot(walk: Walk) -> Path:
    """A slot of the repository, which a smoke test has used."""
    walk.probe(walk.observer.look(), walk.observer.look().base)
    return slots(walk.project) / "slot-0"


def unused(slot: Path, days: float) -> None:
    os.utime(slot / "lock", (time.time() - days * DAY,) * 2)


def names(slot: Path) -> list[str]:
    return sorted(entry.name for entry in slot.iterdir())


def test_a_slot_that_was_not_used_for_long_is_emptied_and_can_be_used_again(walk: Walk, slot: Path) -> None:
    full = names(slot)
    assert len(full) > 1
    unused(slot, 59)
    tidy(walk.project)
    assert names(slot) == full
    unused(slot, 61)
    tidy(walk.project)
    assert names(slot) == ["lock"]
    walk.probe(walk.observer.look(), walk.observer.look().ahead[0].sha)
    assert names(slot) == full
    assert time.time() - (slot / "lock").stat().st_mtime < DAY


def test_slots_of_a_repository_that_is_gone_are_emptied_but_not_the_work_tree_for_fixes(
    walk: Walk, slot: Path, make_world: Any, tmp_path: Path
) -> None:
    home = slot.parent
    aged(home / "fix" / "downstream" / "app.c", 100)
    aged(home / "fix" / "lock", 100)
    other = tmp_path / "other"
    shutil.copytree(walk.project.outer.directory, other, symlinks=True)
    assert os.fsencode(walk.project.outer.common) == (home / OWNER).read_bytes()
    (home / OWNER).write_bytes(os.fsencode(other / ".git"))
    unused(slot, 2)
    full = names(slot)
    tidy(walk.project)
    assert names(slot) == full
    shutil.rmtree(other)
    unused(slot, 0.5)  # its disk may be away for a moment
    tidy(walk.project)
    assert names(slot) == full
    unused(slot, 2)
    tidy(walk.project)
    assert names(slot) == ["lock"]
    assert (home / "fix" / "downstream" / "app.c").read_bytes() == bytes(5)


def test_a_slot_in_which_something_works_is_left_alone(walk: Walk, slot: Path) -> None:
    unused(slot, 1000)
    full = names(slot)
    with locks.exclusive(slot / "lock", wait=False) as held:
        assert held is not None
        tidy(walk.project)
        assert names(slot) == full


def test_what_is_no_slot_and_no_log_is_left_alone(walk: Walk, slot: Path, tmp_path: Path) -> None:
    stray = [aged(slot.parent.parent / "file", 1000), aged(slot.parent.parent / "folder" / "file", 1000)]
    stray += [aged(walk.project.log("x").with_suffix(".txt"), 1000), aged(tmp_path / "elsewhere" / "file", 1000)]
    (slot / "link").symlink_to(tmp_path / "elsewhere")
    (slot.parent / OWNER).write_bytes(b"\xff\0 no path")
    unused(slot, 1000)
    tidy(walk.project)
    assert all(path.exists() for path in stray)
