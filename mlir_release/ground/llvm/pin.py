"""``llvm-project.version``: the pin, one line with the full llvm-project commit."""

from __future__ import annotations

import re

from mlir_release.ground.errors import UsageError

#: A full commit, as git prints it.
SHA_PATTERN = re.compile("[0-9a-f]{40}")

#: The pin's path in a release repository, and in a downstream that uses a pin file.
PIN_FILE = "llvm-project.version"


def parse_pin(content: bytes | None, *, where: str) -> str:
    """The 40-hex commit in a pin file's content. :raises UsageError: naming what is wrong with it."""
    remedy = "put the full 40-digit llvm-project commit there, alone on one line (mlir-release pin set REVISION)"
    if content is None:
        raise UsageError("pin-invalid", f"there is no {PIN_FILE}", where=where, remedy=remedy)
    text = content.decode("utf-8", errors="replace").strip()
    if SHA_PATTERN.fullmatch(text):
        return text
    if not text:
        raise UsageError("pin-invalid", f"{PIN_FILE} is empty", where=where, remedy=remedy)
    shown = text if len(text) <= 60 else text[:57] + "..."
    if len(text) < 40 and SHA_PATTERN.fullmatch(text.ljust(40, "0")):
        raise UsageError(
            "pin-invalid",
            f"{PIN_FILE} holds an abbreviated commit, {shown!r} ({len(text)} of 40 digits)",
            where=where,
            why="an abbreviation can become ambiguous as llvm-project grows; a pin must not",
            remedy=remedy,
        )
    raise UsageError("pin-invalid", f"{PIN_FILE} does not hold a commit but {shown!r}", where=where, remedy=remedy)


def format_pin(sha: str) -> bytes:
    """A pin file's content. :raises ValueError: if ``sha`` is not 40 lower-case hex digits."""
    if not SHA_PATTERN.fullmatch(sha):
        raise ValueError(f"not a full commit: {sha!r}")
    return f"{sha}\n".encode()
