"""The one SHA-256 of the toolkit."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def sha256_of(content: bytes | str | Path | Iterable[bytes]) -> str:
    """SHA-256, in hex, of bytes, of a text as UTF-8, of a file of any size, or of pieces one after the other.

    :raises OSError: for a file that can't be read
    """
    import hashlib  # here, because most commands take less time than this import

    if isinstance(content, Path):
        with content.open("rb") as file:
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
