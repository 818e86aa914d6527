"""Releases that a downstream can pin: those of a release repository's ``index.json``, or of a page of wheels.

A list only chooses among commits of the upstream's own history, so it needs no signature: whoever installs the release
checks that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote, urljoin, urlsplit

from msgspec import Struct

from mlir_release.ground.documents.decode import MalformedError, Sha1, Sha256, from_json, text
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import MachineError, UsageError
from mlir_release.ground.foreign import visible
from mlir_release.ground.storage.download import download
from mlir_release.ground.storage.files import read_document
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from packaging.version import Version

#: Bytes of a list. An index of three months has about 60,000, a page of a year's wheels about 2 million.
LIMIT = 20 << 20

#: Months of an index that are read at most.
MONTHS = 36

_COMMIT = re.compile("[0-9a-f]{7,40}")

#: A version that means nothing to a file's own language.
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.!_+]{0,100}")


class _PinnableRow(Struct, frozen=True):
    tag: str
    version: str
    revision: Sha1


class _Month(Struct, frozen=True):
    month: Annotated[str, text(r"[0-9]{4}-[0-9]{2}", "a month, 2026-08")]
    sha256: Sha256


class _PinnableIndex(Struct, frozen=True, tag_field="schema", tag=1):
    """What a walk needs of ``index.json``, or of a month's file, whose schemas the release repository's pages have."""

    releases: tuple[_PinnableRow, ...]
    months: tuple[_Month, ...] = ()
    yanked: Mapping[str, str] = {}


@dataclass(frozen=True)
class Releases:
    """The releases by their versions, as they are written, newest first.

    :param listed: version -> commit, whole or abbreviated
    :param yanked: those of them that nobody is to move to; a pin may still be one
    """

    where: str
    listed: dict[str, str]
    yanked: frozenset[str] = frozenset()

    def commits_of(self, version: str, beginning: Callable[[str], list[str]]) -> list[str]:
        """The commits that a version can mean. One that is not listed any more may name its commit itself.

        :param beginning: gives the upstream's commits whose ids begin so
        """
        commit = self.listed.get(version) or version.partition("+")[2]
        if len(commit) == 40:
            return [commit]
        return beginning(commit) if _COMMIT.fullmatch(commit) else []

    @cached_property
    def _by_digits(self) -> dict[int, dict[str, str]]:
        """Version by commit, by the number of its digits. The first of several is the newest."""
        found: dict[int, dict[str, str]] = {}
        for version, commit in ((each, self.listed[each]) for each in self.listed if each not in self.yanked):
            found.setdefault(len(commit), {}).setdefault(commit, version)
        return found

    def version(self, commit: str) -> str:
        """The newest release that was made of ``commit``; empty if there is none."""
        named = (known.get(commit[:digits], "") for digits, known in self._by_digits.items())
        return next(filter(None, named), "")

    def version_of(self, commit: str) -> str:
        """The same. :raises UsageError: ``revision-unsuitable``: there is none"""
        if version := self.version(commit):
            return version
        raise UsageError(
            "revision-unsuitable",
            f"no release was made of {commit}",
            where=self.where,
            why="the pin is a release, so only commits with one can be tested or advanced to",
            remedy="mlir-release integrate status lists the commits ahead that have a release",
        )


def read_releases(url: str, distribution: str) -> Releases:
    """Read a list of releases: of a release repository if ``url`` ends in ``.json``, else of a page of wheels.

    :raises MachineError: ``network-failed``; ``input-unusable``: it is no such list
    :raises VerificationError: ``file-damaged``: it is too large
    """
    yanked = frozenset[str]()
    try:
        if url.endswith(".json"):
            parts = [head := from_json(_fetched(url), _PinnableIndex)]
            for month in head.months[:MONTHS]:
                name = f"index/{month.month}.json"
                content = _fetched(urljoin(url, name))
                if sha256_of(content) != month.sha256:
                    raise MalformedError("", f"names another digest than {name} has; try again in a minute")
                parts.append(from_json(content, _PinnableIndex))
            rows = [row for part in parts for row in part.releases if _VERSION.fullmatch(row.version)]
            left = {row.version for row in rows if row.tag not in head.yanked}
            listed, yanked = {row.version: row.revision for row in rows}, frozenset(row.version for row in rows) - left
        else:
            listed = versions_on(_fetched(url), distribution)
    except MalformedError as error:
        raise _unusable(url, str(error)) from None
    if not listed:
        what = f"wheel of {distribution} whose version names a commit" if distribution else "release"
        raise _unusable(url, f"it lists no {what}")
    return Releases(url, listed, yanked)


def _unusable(url: str, why: str) -> MachineError:
    remedy = "correct releases or distribution in integrate.toml"
    return MachineError("input-unusable", "the list of releases can't be used", where=url, why=why, remedy=remedy)


def _fetched(url: str) -> bytes:
    with scratch_folder("releases") as folder:
        download(url, folder / "list", limit=LIMIT, secure=True)
        return read_document(folder / "list", limit=LIMIT)


def versions_on(page: bytes, distribution: str) -> dict[str, str]:
    """Version -> commit of the wheels of ``distribution`` that an HTML page links to, newest first."""
    from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

    found: dict[str, tuple[Version, str]] = {}
    for name in _links(page.decode("utf-8", "replace")):
        try:
            project, version, _, _ = parse_wheel_filename(name)
        except InvalidWheelFilename:
            continue
        written = name.split("-")[1]  # packaging would read a commit of digits only as a number
        commit = written.partition("+")[2]
        sound = _VERSION.fullmatch(written)
        if sound and project == canonicalize_name(distribution) and _COMMIT.fullmatch(commit):
            found[written] = (version, commit)
    newest = sorted(found, key=lambda written: found[written][0], reverse=True)
    return {written: found[written][1] for written in newest}


def _links(page: str) -> Iterator[str]:
    """The file names that a page links to, but those of yanked files. Source: PEP 503, PEP 592."""
    hrefs: list[str] = []

    class LinkParser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            given = dict(attrs)
            if tag == "a" and given.get("href") and "data-yanked" not in given:
                hrefs.append(given["href"] or "")

    LinkParser().feed(page)
    for href in hrefs:
        try:
            path = urlsplit(href).path
        except ValueError:
            continue
        yield visible(unquote(path).rpartition("/")[2])
