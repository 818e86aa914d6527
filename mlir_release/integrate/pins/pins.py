"""The places in a downstream that say the upstream's commit: a submodule, or values in text files.

Files are changed byte by byte where a pattern fits, and nowhere else: ends of lines, encodings and modes stay.
"""

from __future__ import annotations

import os
import re
import zlib
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import open_regular, sha256_of
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.foreign import visible
from mlir_release.ground.git.carriers import carried_at
from mlir_release.ground.git.trees import GitEntry, entry_at, is_ancestor, make_blob
from mlir_release.ground.storage.cache import cache_directory, locked
from mlir_release.ground.storage.download import download
from mlir_release.ground.storage.files import read_if_there, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.integrate.config import CONFIG_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.git.repository import Git
    from mlir_release.integrate.tables import AlsoTable, UpstreamTable
    from mlir_release.integrate.upstream import UpstreamRepository

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


# -- values that follow from the upstream's commit: its archive's digest, its date, the tag that names it --------------


#: Bytes of an archive of sources. That of llvm-project has about 250 million.
ARCHIVE_LIMIT = 1 << 30


def follows(upstream: UpstreamRepository, place: AlsoTable, old: str, commit: str) -> str:
    """What ``place`` says once ``commit`` is pinned.

    :param old: what it says now
    :raises UsageError: ``config-invalid``
    :raises MachineError: ``network-failed``
    :raises VerificationError: ``file-damaged``
    """
    if place.value == "sha256":
        url = upstream.config.archive(place, commit, carried=not is_ancestor(upstream, commit, upstream.ref))
        if not url:
            raise UsageError(
                "config-invalid",
                f"the archive of {upstream.config.title} with carried patches has no address",
                where=CONFIG_FILE,
                why="the export remote is not on GitHub",
                remedy="give [[upstream.also]] a url at which commits of the export branch can be had; nothing was "
                "changed",
            )
        return archive_digest(url, commit)
    if place.value == "date":
        seconds = int(upstream.text("show", "--no-patch", "--format=%ct", commit))
        return datetime.fromtimestamp(seconds, UTC).strftime(place.format)
    if place.value == "commit":
        return upstream.spelled(commit, old)
    return upstream.tag_of(commit, nearest=place.value == "nearest-tag") or commit


def archive_digest(url: str, commit: str) -> str:
    """The SHA-256 of the archive of a commit, as :func:`follows`. It is fetched once, and its digest kept in the cache.

    An archive that git made names its commit, which is compared.
    """
    kept = cache_directory() / "integrate" / "archives" / f"{commit}-{sha256_of(url)[:16]}"
    with locked(kept.with_suffix(".lock"), waiting=f"waiting for another process that fetches {url}"):
        digest = (read_if_there(kept) or b"").decode("ascii", "replace").strip()
        if len(digest) == 64 and not digest.strip("0123456789abcdef"):
            return digest
        console.say(f"    fetching {url} for its sha256")
        with scratch_folder("archive") as folder:
            archive = folder / "archive"
            download(url, archive, limit=ARCHIVE_LIMIT, secure=True)
            with open_regular(archive) as file:
                begin = file.read(1 << 16)
            with suppress(zlib.error):
                begin = zlib.decompressobj(wbits=31).decompress(begin, 2048)
            # The header that ``git archive`` writes first names the commit. Other archives have none.
            match = re.match(rb"[0-9]+ comment=([0-9a-f]{40})\n", begin[512:]) if begin[156:157] == b"g" else None
            if match and match[1].decode() != commit:
                raise VerificationError(
                    "file-damaged",
                    "an archive is not that of the commit that was asked for",
                    where=url,
                    why=f"it says that it has {match[1].decode()}, expected {commit}",
                    remedy="correct url of [[upstream.also]] in integrate.toml; nothing was changed",
                )
            digest = sha256_of(archive)
        write_atomically(kept, f"{digest}\n")
    return digest
