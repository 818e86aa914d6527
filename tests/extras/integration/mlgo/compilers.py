"""The compilers that run, as the system lists them."""

from __future__ import annotations

import os
from pathlib import Path


def compilers_of(path: Path) -> list[int]:
    """Processes of llc and clang that compile a module: ``path`` itself, or one below it."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith((b"llc", b"clang")) and any(word.startswith(os.fsencode(path)) for word in words):
            found.append(int(entry.name))
    return found
