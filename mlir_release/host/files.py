"""Files that readers see whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def read_if_there(path: Path) -> bytes | None:
    """The content of a file; None if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def write_atomically(path: Path, content: bytes, *, scratch: Path) -> None:
    """Put ``content`` where readers see it: the old file until the rename, the new one after.

    :param scratch: a folder of the same file system, where the new file grows
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=scratch)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
