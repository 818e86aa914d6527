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
    text = (content or b"").decode("utf-8", errors="replace").strip()
    if SHA_PATTERN.fullmatch(text):
        return text
    shown, why = text if len(text) <= 60 else text[:57] + "...", ""
    if content is None:
        what = f"there is no {PIN_FILE}"
    elif not text:
        what = f"{PIN_FILE} is empty"
    elif len(text) < 40 and SHA_PATTERN.fullmatch(text.ljust(40, "0")):
        what = f"{PIN_FILE} holds an abbreviated commit, {shown!r} ({len(text)} of 40 digits)"
        why = "an abbreviation can become ambiguous as llvm-project grows; a pin must not"
    else:
        what = f"{PIN_FILE} does not hold a commit but {shown!r}"
    remedy = "put the full 40-digit llvm-project commit there, alone on one line (mlir-release pin set REVISION)"
    raise UsageError("pin-invalid", what, where=where, why=why, remedy=remedy)


def format_pin(sha: str) -> bytes:
    """A pin file's content. :raises ValueError: if ``sha`` is not 40 lower-case hex digits."""
    if not SHA_PATTERN.fullmatch(sha):
        raise ValueError(f"not a full commit: {sha!r}")
    return f"{sha}\n".encode()
