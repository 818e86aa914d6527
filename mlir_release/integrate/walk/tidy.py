"""What walks leave on this machine, and when it goes: logs of smoke tests, and slots that nobody uses any more.

Every walk begins with it. All of it can be made again. What is in use stays, and so does the work tree for fixes, where
a person's changes may be.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.git import locks
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.storage.files import read_if_there, remove_folder

if TYPE_CHECKING:
    from collections.abc import Collection

    from mlir_release.integrate.project import Integration

DAY = 86_400.0

#: The age at which a log goes; the size of the newest logs that stay; and the age that a log reaches in any case,
#: because another walk may still write it.
LOG_AGE, LOG_BYTES, LOG_YOUNG = 30 * DAY, 1 << 30, DAY

#: Since when a slot is not used any more; and that of a repository that does not exist any more.
SLOT_AGE, SLOT_GONE = 60 * DAY, DAY

#: Beside the slots of a repository, the path of its folder.
OWNER = "repository"


def tidy(project: Integration, *, kept: Collection[str] = ()) -> None:
    """Remove old logs of this repository, and the builds in old slots of all repositories on this machine.

    What can't be removed now is left to a later walk.

    :param kept: names of logs (see :meth:`Integration.log`) that stay, whatever their age
    """
    now, size = time.time(), 0
    found: list[tuple[float, int, Path]] = []
    for log in project.log("any").parent.glob("*.log"):
        with suppress(FileNotFoundError):  # another walk does the same
            status = log.stat()
            found.append((now - status.st_mtime, status.st_size, log))
    for age, bytes_, log in sorted(found):  # the newest first
        size += bytes_
        if (age > LOG_AGE or size > LOG_BYTES) and age > LOG_YOUNG and log.stem not in kept:
            with suppress(OSError):
                log.unlink()
    with suppress(OSError):
        for home in (cache_directory() / "integrate").iterdir():
            with suppress(OSError):
                _empty_slots(home, now)


def _empty_slots(home: Path, now: float) -> None:
    owner = read_if_there(home / OWNER)
    gone = owner is not None and not Path(os.fsdecode(owner)).exists()
    for lock in home.glob("slot-*/lock"):
        if now - lock.stat().st_mtime <= (SLOT_GONE if gone else SLOT_AGE):
            continue
        with locks.exclusive(lock, wait=False) as held:
            if held is None:  # a smoke test works there
                continue
            for entry in lock.parent.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    remove_folder(entry)
                elif entry.name != lock.name:  # others may be waiting for it
                    entry.unlink()
