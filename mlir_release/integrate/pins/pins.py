"""The places in a downstream that say the upstream's commit: a submodule, or values in text files.

Files are changed byte by byte where a pattern fits, and nowhere else: ends of lines, encodings and modes stay.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlir_release.ground.errors import UsageError
from mlir_release.ground.foreign import visible
from mlir_release.ground.git.carriers import carried_at
from mlir_release.ground.git.trees import GitEntry, entry_at, make_blob
from mlir_release.integrate.config import CONFIG_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.git.repository import Git
    from mlir_release.integrate.tables import UpstreamTable

#: Bytes of a file that patterns are looked for in. Those who write patterns can also choose the smoke command, so that
#: an expression that takes for ever is a mistake and no attack.
LIMIT = 1 << 20

#: Git's empty tree.
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@dataclass(frozen=True)
class Fit:
    """A value in a file, and where it begins and ends in its decoded text."""

    value: str
    start: int
    end: int


def said(git: Git, commit: str, table: UpstreamTable) -> str:
    """The upstream's commit as the downstream's ``commit`` says it: an id, an abbreviated one, a tag, or a version.

    :raises UsageError: ``config-invalid``, ``pin-invalid``
    """
    if not table.pattern:
        return carried_at(git, commit, table.carrier, submodule=bool(table.submodule))
    return find(_text(git, commit, table.pin_file), table.pattern, f"{table.pin_file} at {commit}").value


def also_said(git: Git, commit: str, table: UpstreamTable) -> list[str]:
    """The values in the places that ``[[upstream.also]]`` names, in its order. :raises UsageError: ``pin-invalid``"""
    return [find(_text(git, commit, also.file), also.pattern, f"{also.file} at {commit}").value for also in table.also]


def written(git: Git, commit: str, table: UpstreamTable, pin: str, also: Sequence[str]) -> dict[str, GitEntry | None]:
    """The tree entries with which the downstream's ``commit`` says something else, by path.

    :param pin: as it is written: a full id but with a pattern
    :param also: the values of ``[[upstream.also]]``
    """
    patterns = [(place.file, place.pattern, value) for place, value in zip(table.also, also, strict=True)]
    entries: dict[str, GitEntry | None] = {}
    if table.submodule:
        entries[table.submodule] = GitEntry("160000", "commit", pin)
    elif table.pattern:
        patterns.append((table.pin_file, table.pattern, pin))
    else:
        entries[table.pin_file] = _blob(git, commit, table.pin_file, f"{pin}\n".encode())
    for path in dict.fromkeys(path for path, _, _ in patterns):
        text = _text(git, commit, path)
        where = f"{path} at {commit}"
        fits = [(find(text, pattern, where), value) for name, pattern, value in patterns if name == path]
        fits.sort(key=lambda fit: fit[0].start)
        parts, last = [], 0
        for fit, value in fits:
            if fit.start < last:
                raise _unfit(where, f"two patterns fit the same text in line {_line(text, fit.start)}")
            parts += [text[last : fit.start], value]
            last = fit.end
        content = "".join([*parts, text[last:]]).encode("utf-8", "surrogateescape")
        entries[path] = _blob(git, commit, path, content)
    return entries


def left_out(git: Git, commit: str, table: UpstreamTable) -> dict[str, GitEntry | None]:
    """The tree entries of the downstream's ``commit`` without what follows from the pin, by path."""
    entries = written(git, commit, table, "", [""] * len(table.also)) if table.pattern or table.also else {}
    if not table.pattern:
        entries[table.carrier] = None
    if table.refresh is not None:
        entries |= dict.fromkeys(changed_at(git, EMPTY, commit, table.refresh.pathspecs))
    return entries


def changed_at(git: Git, base: str, commit: str, pathspecs: Sequence[str]) -> list[str]:
    """The paths at which two commits or trees differ."""
    listed = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, commit, "--", *pathspecs).stdout
    return [os.fsdecode(name) for name in listed.split(b"\0")[:-1]]


def find(text: str, pattern: str, where: str) -> Fit:
    """The value of the pattern's group, without blanks around it. :raises UsageError: ``pin-invalid``"""
    fits = list(re.compile(pattern, re.MULTILINE).finditer(text))
    if len(fits) != 1:
        lines = ", ".join(str(_line(text, fit.start())) for fit in fits[:5])
        many = f"fits {len(fits)} times, in lines {lines}" + (", …" if len(fits) > 5 else "")
        raise _unfit(where, f"the pattern {pattern!r} {many if fits else 'fits nowhere'}")
    group = 1 if fits[0].re.groups else 0
    found = fits[0][group] or ""
    if not found.strip():
        raise _unfit(where, f"the pattern {pattern!r} fits line {_line(text, fits[0].start())}, but its value is empty")
    start = fits[0].start(group) + len(found) - len(found.lstrip())
    return Fit(found.strip(), start, start + len(found.strip()))


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _text(git: Git, commit: str, path: str) -> str:
    """A file's text, of which any bytes can be had back. :raises UsageError: ``pin-invalid``"""
    content = git.read(commit, path)
    if content is None:
        raise _unfit(f"{path} at {commit}", "there is no such file")
    if len(content) > LIMIT:
        raise _unfit(f"{path} at {commit}", f"it has {len(content):,} bytes; patterns are looked for in {LIMIT:,}")
    return content.decode("utf-8", "surrogateescape")


def _blob(git: Git, commit: str, path: str, content: bytes) -> GitEntry:
    old, new = entry_at(git, commit, path), make_blob(git, content)
    return replace(new, mode=old.mode) if old else new


def _unfit(where: str, why: str) -> UsageError:
    return UsageError(
        "pin-invalid",
        "a file does not say which upstream commit is pinned",
        where=where,
        why=visible(why),
        remedy=f"correct the file, or its pattern in {CONFIG_FILE}: it fits once, and its group is the value",
    )
