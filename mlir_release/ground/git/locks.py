"""Locks on files that child processes inherit with the descriptor: they are held until the last of them ends.

On Windows a lock belongs to the process that took it and ends with that process; there are no shared locks there.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if sys.platform == "win32":
    import msvcrt
    import os

    #: A byte far behind any content: others can't read bytes that are locked.
    _OFFSET = 0x7FFF_FFFE

    def lock(descriptor: int, *, shared: bool = False, wait: bool = True) -> bool:
        """Lock the file. False: another process holds it, and not ``wait``."""
        while True:
            os.lseek(descriptor, _OFFSET, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            except OSError:  # LK_LOCK gives up after ten seconds
                if not wait:
                    return False
            else:
                return True

    def unlock(descriptor: int) -> None:
        """Unlock the file."""
        os.lseek(descriptor, _OFFSET, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def lock(descriptor: int, *, shared: bool = False, wait: bool = True) -> bool:
        """Lock the file for this process and the children that inherit the descriptor.

        :param shared: others may hold it shared at the same time
        :return: False: another process holds it, and not ``wait``
        """
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Unlock the file for every process that inherited the descriptor."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[int | None]:
    """Hold the lock file ``path``. Yields its descriptor; None if another process holds it and not ``wait``.

    A child process that inherits the descriptor (``pass_fds``) keeps the lock if this process is killed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        if not lock(file.fileno(), wait=wait):
            yield None
            return
        try:
            yield file.fileno()
        finally:
            # Closing the file is not enough: a daemon that a build started may keep the inherited descriptor open.
            unlock(file.fileno())
