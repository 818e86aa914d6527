"""Locks on open files that a child process inherits with the descriptor, so that they last as long as it works.

On Windows a lock belongs to the process that took it: there it ends with that process.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import msvcrt
    import os

    #: A byte far behind any content: what is locked, others can't read.
    _PLACE = 0x7FFF_FFFE

    def lock(descriptor: int, *, wait: bool = True) -> bool:
        """Lock the file for this process and the children that inherit it. False: it is taken, and not ``wait``."""
        while True:
            os.lseek(descriptor, _PLACE, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            except OSError:  # LK_LOCK gives up after ten seconds
                if not wait:
                    return False
            else:
                return True

    def unlock(descriptor: int) -> None:
        """Give it up, whoever inherited the descriptor."""
        os.lseek(descriptor, _PLACE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def lock(descriptor: int, *, wait: bool = True) -> bool:
        """Lock the file for this process and the children that inherit it. False: it is taken, and not ``wait``."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Give it up, whoever inherited the descriptor."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)
