"""The folder under a local forge: one lock, a scratch folder, and files that appear whole or not at all.

A writer first writes into ``scratch/`` (same file system), and then renames the file to its place. It holds a lock on
the file, which the kernel drops when the writer dies. So leftovers of killed processes are recognised without guessing.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mlir_release.ground.documents.digests import open_regular
from mlir_release.ground.errors import ForgeError, MachineError
from mlir_release.ground.git import locks
from mlir_release.ground.git.repository import GitError
from mlir_release.ground.storage.files import read_if_there, sync_folder, write_atomically

if sys.platform == "win32":
    raise MachineError(
        "machine-unsuitable",
        "the local forge needs POSIX file locks, which this system does not have",
        remedy="use the GitHub forge here, or run this on Linux or macOS",
    )

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds to wait for the other processes that use the forge; each holds the lock for milliseconds.
LOCK_PATIENCE = 300.0


@contextmanager
def answering(root: Path, action: str) -> Iterator[None]:
    """Turn the system's error into the forge's own. ``action`` continues "the forge could not …"."""
    try:
        yield
    except (GitError, OSError) as error:
        where = getattr(error, "filename", None) or root
        why = getattr(error, "why", "") or str(error)
        raise ForgeError("local-forge-failed", f"the forge could not {action}", where=str(where), why=why) from error


def damaged(path: Path, *, why: str, remedy: str) -> ForgeError:
    """A record of the forge can't be read."""
    return ForgeError(
        "forge-damaged", "a record of the local forge can't be read", where=str(path), why=why, remedy=remedy
    )


class Store:
    """The files of one local forge under ``root``, which must exist. ``patience``: seconds to wait for its lock."""

    def __init__(self, root: Path, patience: float = LOCK_PATIENCE) -> None:
        self.root, self._patience = root, patience
        self.scratch = root / "scratch"

    @contextmanager
    def reading(self, action: str) -> Iterator[None]:
        """Keep writers out while several files are read; errors say that the forge could not do ``action``."""
        with answering(self.root, action), self._locked(shared=True):
            yield

    @contextmanager
    def writing(self, action: str) -> Iterator[None]:
        """Hold the forge alone; errors say that the forge could not do ``action``."""
        with answering(self.root, action), self.exclusive():
            yield

    # -- the lock -----------------------------------------------------------------------------------------------

    @contextmanager
    def exclusive(self) -> Iterator[int]:
        """Hold the forge alone; yields the lock's descriptor. Not re-entrant. Leftovers of dead writers are removed."""
        with self._locked(shared=False) as descriptor:
            self._sweep()
            yield descriptor

    @contextmanager
    def _locked(self, *, shared: bool) -> Iterator[int]:
        # The folder itself is locked: no lock file to create, and a read-only mirror can be read.
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            deadline = time.monotonic() + self._patience
            pause = 0.001
            while not locks.lock(descriptor, shared=shared, wait=False):
                if time.monotonic() > deadline:
                    raise ForgeError(
                        "forge-unreachable",
                        f"another process has held the forge for {self._patience:.0f} s",
                        where=str(self.root),
                        remedy="find it (fuser -v on that folder), let it end or end it, then run this again",
                    )
                time.sleep(pause)
                pause = min(pause * 1.5, 0.02)
            yield descriptor
        finally:
            # Closing drops our hold only: a git child that inherited the descriptor keeps the lock until it ends.
            os.close(descriptor)

    def _sweep(self) -> None:
        """Remove files from ``scratch/`` without a living writer. Called under the exclusive lock."""
        for entry in sorted(self.scratch.iterdir()):
            if entry.is_dir():
                shutil.rmtree(entry)
            elif not is_locked(entry):
                entry.unlink(missing_ok=True)  # its writer may have ended and removed it meanwhile

    # -- writing ------------------------------------------------------------------------------------------------

    def write(self, path: Path, content: bytes) -> None:
        """Replace ``path`` by ``content``, atomically and durably. Called under the exclusive lock."""
        write_atomically(path, content, scratch=self.scratch, durable=True)

    @contextmanager
    def incoming(self) -> Iterator[IO[bytes]]:
        """A scratch file to fill outside the lock, gone at the end unless it was renamed meanwhile."""
        with self.exclusive():  # so that nobody sweeps it between its creation and its lock
            file = tempfile.NamedTemporaryFile(dir=self.scratch, delete=False)  # noqa: SIM115 - closed below
            locks.lock(file.fileno())
        try:
            with file:
                yield file
        finally:
            Path(file.name).unlink(missing_ok=True)

    def remove_folder(self, folder: Path) -> None:
        """Make ``folder`` vanish at once, then delete its content. Called under the exclusive lock."""
        doomed = self.scratch / f"{folder.name}.deleted"
        folder.rename(doomed)
        sync_folder(folder.parent)
        shutil.rmtree(doomed)

    def next_number(self) -> int:
        """1, 2, 3, …: never the same twice in this forge. Called under the exclusive lock."""
        path = self.root / "last-number"
        known = read_if_there(path) or b"0"
        if re.fullmatch(rb"[0-9]{1,18}\s*", known) is None:
            raise damaged(path, why="it is not a number", remedy="write a number that no draft or run has had into it")
        number = int(known) + 1
        self.write(path, f"{number}\n".encode("ascii"))
        return number


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock of the file ``path``; False if it is gone."""
    try:
        with open_regular(path) as file:
            return not locks.lock(file.fileno(), shared=True, wait=False)
    except FileNotFoundError:
        return False


def lock_file(path: Path) -> int:
    """Lock the file ``path`` for as long as this process lives; returns the descriptor (close it to unlock)."""
    descriptor = os.open(path, os.O_RDONLY)
    locks.lock(descriptor)
    return descriptor
