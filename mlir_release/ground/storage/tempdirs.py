"""Folders for what a command needs only while it runs. A later command removes what a killed one leaves."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "mlir-release-"
_LOCK = "in-use.lock"

#: Seconds for which an unlocked folder is kept: its owner may be about to lock it, and what a killed command had
#: started (git, pip) may still work in it.
GRACE = 3600.0


@contextmanager
def scratch_folder(purpose: str) -> Iterator[Path]:
    """An empty folder among the system's temporary ones, removed at the end.

    :param purpose: part of its name, for people who find it
    """
    from filelock import FileLock, Timeout

    for abandoned in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, Timeout):
            status = abandoned.lstat()
            ours = sys.platform == "win32" or status.st_uid == os.getuid()
            if not (ours and (abandoned / _LOCK).is_file()) or time.time() - status.st_mtime < GRACE:
                continue
            with FileLock(abandoned / _LOCK, timeout=0):
                pass  # nobody holds it. It is released again, because Windows does not remove a file that is open.
            shutil.rmtree(abandoned, ignore_errors=True)
    holder = tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{purpose}-", ignore_cleanup_errors=True)
    with holder as outer, FileLock(Path(outer, _LOCK), thread_local=False):
        folder = Path(outer, "files")
        folder.mkdir()
        yield folder
