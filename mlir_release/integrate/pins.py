"""The places in a downstream that say the upstream's commit: a submodule, or a value in a text file."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from mlir_release.errors import UsageError
from mlir_release.git.carriers import carried_at
from mlir_release.git.trees import Entry, entry_at, make_blob
from mlir_release.integrate.config import CONFIG_FILE

if TYPE_CHECKING:
    from mlir_release.git.repository import Git
    from mlir_release.integrate.config import UpstreamTable


def said(git: Git, commit: str, table: UpstreamTable) -> str:
    """The upstream's commit as the downstream's ``commit`` says it: a full id, an abbreviated one, or a tag.

    :raises UsageError: ``config-invalid``, ``pin-invalid``
    """
    if not table.pattern:
        return carried_at(git, commit, table.carrier, submodule=bool(table.submodule))
    content = git.read(commit, table.pin_file)
    if content is None:
        raise _unfit(table.pin_file, "there is no such file", commit)
    return _found(content, table.pin_file, table.pattern, commit)[0]


def written(git: Git, commit: str, table: UpstreamTable, pin: str) -> dict[str, Entry | None]:
    """The tree entries with which the downstream's ``commit`` says ``pin``, by path."""
    if table.submodule:
        return {table.submodule: Entry("160000", "commit", pin)}
    old = entry_at(git, commit, table.pin_file)
    content = f"{pin}\n".encode()
    if table.pattern:
        before = git.read(commit, table.pin_file) or b""
        value, start, end = _found(before, table.pin_file, table.pattern, commit)
        shown = pin[: len(value)] if re.fullmatch(r"[0-9a-f]{7,39}", value) else pin
        content = before[:start] + shown.encode() + before[end:]
    new = make_blob(git, content)
    return {table.pin_file: replace(new, mode=old.mode) if old else new}


def left_out(git: Git, commit: str, table: UpstreamTable) -> dict[str, Entry | None]:
    """The tree entries of the downstream's ``commit`` without what follows from the pin, by path."""
    if not table.pattern:
        return {table.carrier: None}
    before = git.read(commit, table.pin_file) or b""
    _, start, end = _found(before, table.pin_file, table.pattern, commit)
    return {table.pin_file: make_blob(git, before[:start] + before[end:])}


def _found(content: bytes, path: str, pattern: str, commit: str) -> tuple[str, int, int]:
    """The value of the pattern's group in a file, and where it begins and ends, in bytes."""
    fits = list(re.compile(pattern.encode(), re.MULTILINE).finditer(content))
    if len(fits) != 1:
        raise _unfit(path, f"the pattern {pattern!r} fits {len(fits)} times", commit)
    group = 1 if fits[0].re.groups else 0
    return fits[0][group].decode(errors="replace"), fits[0].start(group), fits[0].end(group)


def _unfit(path: str, why: str, commit: str) -> UsageError:
    return UsageError(
        "pin-invalid",
        f"{path!r} does not say the upstream's commit at {commit}",
        where=CONFIG_FILE,
        why=why,
        remedy="correct pin-file or pattern in integrate.toml: the pattern fits once, and its group is the commit",
    )
