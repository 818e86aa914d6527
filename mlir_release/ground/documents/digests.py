"""The one SHA-256 of the toolkit, and the one way to open a file that may be anybody's."""

from __future__ import annotations

import base64
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from io import BufferedReader


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open a file to read. :raises OSError: also for a pipe or a device, which a reader could wait for without end

    :param follow: a link, too, which may lead out of its folder
    """

    def at_once(name: str, flags: int) -> int:  # else a pipe is opened when it has a writer
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0) | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))

    file = open(path, "rb", opener=at_once)  # noqa: SIM115 - the caller closes it
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def sha256_of(content: bytes | str | Path | Iterable[bytes]) -> str:
    """SHA-256, in hex, of bytes, of a text as UTF-8, of a file of any size, or of pieces one after the other.

    :raises OSError: for a file that can't be read, also a pipe or a device
    """
    import hashlib  # here, because most commands take less time than this import

    if isinstance(content, Path):
        with open_regular(content) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if isinstance(content, str):
        content = content.encode()
    digest = hashlib.sha256()
    for piece in (content,) if isinstance(content, bytes) else content:
        digest.update(piece)
    return digest.hexdigest()


def record_digest(content: bytes | Iterable[bytes]) -> str:
    """The same as a wheel's ``RECORD`` writes it. Source: packaging.python.org, "Recording installed projects"."""
    return base64.urlsafe_b64encode(bytes.fromhex(sha256_of(content))).rstrip(b"=").decode()
