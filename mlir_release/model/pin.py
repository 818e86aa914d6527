"""``llvm-project.version``: the pin, one line with the full llvm-project commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, UsageError
from mlir_release.git.repository import SHA_PATTERN, Git

if TYPE_CHECKING:
    from pathlib import Path

#: The pin's path in a release repository, and in a downstream that uses a pin file.
PIN_FILE = "llvm-project.version"


def parse_pin(content: bytes | None, *, where: str) -> str:
    """The 40-hex commit in a pin file's content. :raises UsageError: naming what is wrong with it."""
    remedy = "put the full 40-digit llvm-project commit there, alone on one line (mlir-release pin set REVISION)"
    if content is None:
        raise UsageError("pin-missing", f"there is no {PIN_FILE}", where=where, remedy=remedy)
    text = content.decode("utf-8", errors="replace").strip()
    if SHA_PATTERN.fullmatch(text):
        return text
    if not text:
        raise UsageError("pin-empty", f"{PIN_FILE} is empty", where=where, remedy=remedy)
    shown = text if len(text) <= 60 else text[:57] + "..."
    if len(text) < 40 and SHA_PATTERN.fullmatch(text.ljust(40, "0")):
        raise UsageError(
            "pin-short",
            f"{PIN_FILE} holds an abbreviated commit, {shown!r} ({len(text)} of 40 digits)",
            where=where,
            why="an abbreviation can become ambiguous as llvm-project grows; a pin must not",
            remedy=remedy,
        )
    raise UsageError("pin-junk", f"{PIN_FILE} does not hold a commit but {shown!r}", where=where, remedy=remedy)


def format_pin(sha: str) -> bytes:
    """A pin file's content. :raises ValueError: if ``sha`` is not 40 lower-case hex digits."""
    if not SHA_PATTERN.fullmatch(sha):
        raise ValueError(f"not a full commit: {sha!r}")
    return f"{sha}\n".encode()


def read_pin(directory: Path) -> str:
    """The pin of a checkout. :raises UsageError: if it is missing or malformed."""
    path = directory / PIN_FILE
    try:
        content: bytes | None = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        content = None
    return parse_pin(content, where=str(path))


def write_pin(directory: Path, sha: str) -> None:
    """Set the pin of a checkout, atomically.

    :raises ConflictError: if the checkout's HEAD is detached or the pin file has uncommitted changes: both would lose
        somebody's work silently later.
    """
    git = Git(directory)
    path = directory / PIN_FILE
    if git.is_repository():
        if git.run("symbolic-ref", "--quiet", "HEAD", check=False).returncode != 0 and git.resolve("HEAD"):
            raise ConflictError(
                "checkout-detached",
                "the release repository's HEAD is detached: a pin committed there would belong to no branch",
                where=str(directory),
                remedy="git switch to the pin branch first",
            )
        if git.text("status", "--porcelain", "-z", "--", PIN_FILE) and path.exists() and git.read("HEAD", PIN_FILE):
            raise ConflictError(
                "checkout-dirty",
                f"{PIN_FILE} has changes that are not committed",
                where=str(path),
                remedy="commit or discard them first (git checkout -- llvm-project.version)",
            )
    temporary = path.with_name(f".{PIN_FILE}.tmp")
    temporary.write_bytes(format_pin(sha))
    temporary.replace(path)
