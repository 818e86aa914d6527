"""Room on disks: one error for a full one, found out before or while something is written."""

from __future__ import annotations

import errno
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mlir_release.ground.console import format_bytes
from mlir_release.ground.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def check_room(folder: Path, needed: int, *, purpose: str, remedy: str) -> None:
    """Refuse to begin what won't fit.

    :param needed: bytes
    :param purpose: continues "there is not enough disk space …"
    :raises MachineError: ``disk-full``
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        why = f"{format_bytes(free)} are free, about {format_bytes(needed)} are needed"
        raise disk_full(folder, purpose=purpose, why=why, remedy=remedy)


@contextmanager
def room(folder: Path, *, purpose: str, remedy: str) -> Iterator[None]:
    """Turn the system's word for a full disk, within the block, into our error.

    :param purpose: as for :func:`check_room`
    :raises MachineError: ``disk-full``
    """
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise disk_full(folder, purpose=purpose, why=str(error), remedy=remedy) from error


def disk_full(folder: Path, *, purpose: str, why: str, remedy: str) -> MachineError:
    """The error for a disk that has not enough room, or had not when it was written to."""
    return MachineError(
        "disk-full", f"there is not enough disk space {purpose}", where=str(folder), why=why, remedy=remedy
    )
