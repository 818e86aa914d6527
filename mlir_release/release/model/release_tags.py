"""Release tags and the wheel versions that belong to them: parse, order, allocate, map.

The rules are in docs/design.md, "Versions and tags". The clock and the existing tags come in as arguments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, total_ordering
from typing import TYPE_CHECKING, ClassVar, Literal

from packaging.version import Version

from mlir_release.ground.errors import NeedsPersonError, UsageError
from mlir_release.ground.llvm.llvm_version import base_version, canonical_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

#: Trailers of every tag that this toolkit makes; a tag without the first one is not ours and means nothing to us.
TRAILER_REVISION = "LLVM-Revision"
TRAILER_DATE = "LLVM-Revision-Date"
TRAILER_REQUEST = "Request-Id"
TRAILER_TOOLKIT = "Toolkit-Version"
TRAILER_WHEEL_VERSION = "Wheel-Version"

Kind = Literal["snapshot", "numbered"]

#: NN has two digits and starts at 01.
MAX_NUMBER = 99

#: The folder of the matrices of LLVM's release lines: ``matrices/22.1.toml`` is that of every numbered release of 22.1.
LINES_FOLDER = "matrices"

_LINE_FILE = re.compile(rf"{LINES_FOLDER}/((?:0|[1-9][0-9]*)\.(?:0|[1-9][0-9]*))\.toml")

_SNAPSHOT = re.compile(r"snapshot-(?P<date>[0-9]{8})\.(?P<number>[0-9]{2})")
_NUMBERED = re.compile(r"llvm-(?P<version>[^-]+)\.(?P<number>[0-9]{2})")


@total_ordering
class _Tag:
    """What both kinds have in common: a number, and an order by kind, version and number."""

    kind: ClassVar[Kind]
    number: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= MAX_NUMBER:
            raise ValueError(f"{self.kind} release's number {self.number} is not in 1..{MAX_NUMBER}")

    @cached_property
    def _order(self) -> tuple[str, Version, int]:
        return self.kind, Version(str(self.version)), self.number  # type: ignore[attr-defined]

    def __lt__(self, other: _Tag) -> bool:
        return self._order < other._order


@dataclass(frozen=True)
class SnapshotTag(_Tag):
    """``snapshot-YYYYMMDD.NN``."""

    kind = "snapshot"
    line: ClassVar[None] = None  #: snapshots have the newest LLVM, so no release line
    date: date
    number: int

    def __str__(self) -> str:
        # isoformat, because strftime's %Y is not padded before the year 1000 on every C library.
        return f"snapshot-{self.date.isoformat().replace('-', '')}.{self.number:02d}"

    @property
    def version(self) -> Version:
        """The PEP 440 version of this snapshot's wheels."""
        return Version(f"{int(self.date.strftime('%Y%m%d'))}.{self.number}")


@dataclass(frozen=True)
class NumberedTag(_Tag):
    """``llvm-<V>.NN``; ``version`` is V in its one spelling (see :func:`canonical_version`)."""

    kind = "numbered"
    version: str
    number: int

    def __str__(self) -> str:
        return f"llvm-{self.version}.{self.number:02d}"

    @property
    def line(self) -> str:
        """LLVM's release line: ``22.1`` of ``22.1.8`` and of ``22.1rc2``."""
        return line_of(self.version)


ReleaseTag = SnapshotTag | NumberedTag


def line_of(version: str) -> str:
    """The release line of an LLVM version: ``22.1``. :raises UsageError: as :func:`canonical_version`"""
    major, minor, _ = base_version(canonical_version(version))
    return f"{major}.{minor}"


def line_file(line: str) -> str:
    """The path of a release line's matrix. :raises UsageError: ``option-invalid``, for what is no line like 22.1"""
    path = f"{LINES_FOLDER}/{line}.toml"
    if not _LINE_FILE.fullmatch(path):
        raise UsageError(
            "option-invalid",
            f"{line!r} is no release line of LLVM",
            why="a line is X.Y of the versions X.Y.Z: that of LLVM 22.1.8 is 22.1",
            remedy="name one like 22.1",
        )
    return path


def line_of_file(path: str) -> str:
    """The release line whose matrix a file is. :raises UsageError: ``config-invalid``, for a file that nothing reads"""
    match = _LINE_FILE.fullmatch(path)
    if match is None:
        raise UsageError(
            "config-invalid",
            f"{path} is the matrix of no release",
            where=path,
            why=f"files of {LINES_FOLDER}/ are called after a release line of LLVM, X.Y.toml; nothing reads others",
            remedy=f"call it {LINES_FOLDER}/22.1.toml for the releases of LLVM 22.1, or remove it",
        )
    return match[1]


def parse_snapshot(name: str) -> SnapshotTag:
    """Parse ``snapshot-YYYYMMDD.NN``. :raises UsageError:"""
    match = _SNAPSHOT.fullmatch(name)
    if match is not None and match["number"] != "00":
        try:
            day = date(int(match["date"][:4]), int(match["date"][4:6]), int(match["date"][6:]))
        except ValueError:
            pass
        else:
            return SnapshotTag(day, int(match["number"]))
    raise UsageError(
        "option-invalid",
        f"{name!r} is not a snapshot tag",
        remedy="snapshot tags look like snapshot-20261120.02: a UTC date, then a number from 01 to 99",
    )


def parse_numbered(name: str) -> NumberedTag:
    """Parse ``llvm-<V>.NN``; a name that can be read in two ways is refused. :raises UsageError:"""
    match = _NUMBERED.fullmatch(name)
    if match is None or match["number"] == "00":
        raise _not_numbered(name, "NN, the two-digit number of the release, is missing or 00")
    version = match["version"]
    try:
        canonical = canonical_version(version)
    except UsageError as error:
        whole = name.removeprefix("llvm-")
        why = f"it reads as version {version} with NN={match['number']}, and as version {whole} with NN forgotten"
        try:
            canonical_version(whole)
        except UsageError:
            why = error.why
        raise _not_numbered(name, why) from None
    if canonical != version:
        raise _not_numbered(
            name, f"version {version} is spelled {canonical} in tags: llvm-{canonical}.{match['number']}"
        )
    return NumberedTag(version, int(match["number"]))


def _not_numbered(name: str, why: str) -> UsageError:
    return UsageError(
        "option-invalid",
        f"{name!r} is not a numbered release's tag",
        why=why,
        remedy="numbered tags look like llvm-22.1.8.01 or llvm-12.0rc1.02: an LLVM version, then NN from 01 to 99",
    )


#: Instead of a tag, the name of a channel: the newest published snapshot that nobody yanked; the newest that nothing
#: speaks against (mlir_release/release/latest/channels.py).
LATEST, LATEST_GOOD = CHANNELS = ("latest", "latest-good")


def parse_release_tag(name: str) -> ReleaseTag:
    """Parse a tag of either kind. :raises UsageError: ``option-invalid``"""
    if name in CHANNELS:
        raise UsageError(
            "option-invalid",
            f"{name} is not a tag, and this command takes only tags",
            remedy="`mlir-release release list` shows the newest tags; install, verify, downstream init, wheels "
            f"rebuild, conda recipe and conda package take {' and '.join(CHANNELS)}",
        )
    return parse_numbered(name) if name.startswith("llvm-") else parse_snapshot(name)


def parse_tag(name: str) -> ReleaseTag | None:
    """The release tag that ``name`` spells, or None for any other tag (``v1.2.3`` of the toolkit itself, say)."""
    try:
        return parse_release_tag(name)
    except UsageError:
        return None


def next_snapshot(ours: Iterable[SnapshotTag], now: datetime, *, taken: Collection[str] = ()) -> SnapshotTag:
    """The tag that the next snapshot gets.

    :param ours: existing snapshot tags with our trailers; the result is above all of them
    :param now: the forge's clock, timezone-aware
    :param taken: names of all tags; one that was made by hand is skipped
    :raises NeedsPersonError: if a tag of ours is dated more than a day ahead, or NN is exhausted
    """
    today = now.astimezone(UTC).date()
    newest = max(ours, default=None)
    day, number = today, 1
    if newest is not None and newest.date >= today:
        if newest.date - today > timedelta(days=1):
            raise NeedsPersonError(
                "numbers-exhausted",
                f"the newest snapshot tag, {newest}, is dated more than one day ahead of the forge's clock ({today})",
                where=str(newest),
                why="the next tag would have to carry a date at least as late, and every later one too",
                remedy=f"check the clocks; if {newest} was made by mistake and nothing uses it, delete that tag "
                "and its draft by hand, then run this again",
            )
        day, number = newest.date, newest.number + 1
    while number <= MAX_NUMBER:
        candidate = SnapshotTag(day, number)
        if str(candidate) not in taken:
            return candidate
        number += 1
    raise NeedsPersonError(
        "numbers-exhausted",
        f"all {MAX_NUMBER} snapshot numbers of {day} are used up",
        where=f"snapshot-{day:%Y%m%d}.*",
    )


def next_numbered(version: str, taken: Collection[str]) -> NumberedTag:
    """The next ``llvm-<version>.NN``: one above the highest NN in ``taken`` (names of all tags, whoever made them).

    :raises NeedsPersonError: if NN is exhausted
    """
    canonical = canonical_version(version)
    numbers = [
        tag.number for name in taken if isinstance(tag := parse_tag(name), NumberedTag) and tag.version == canonical
    ]
    number = max(numbers, default=0) + 1
    if number > MAX_NUMBER:
        raise NeedsPersonError(
            "numbers-exhausted",
            f"all {MAX_NUMBER} release numbers of LLVM {canonical} are used up",
            where=f"llvm-{canonical}.*",
            remedy="release the next LLVM version",
        )
    return NumberedTag(canonical, number)


def numbered_wheel_version(version: str, published: int) -> Version:
    """The wheel version of a numbered release whose tag is made now.

    :param published: how many releases of ``version`` are published: 0 gives V itself, n gives ``V.post<n>``.
        Two tags made before either is published get the same version: publishing must refuse the second
        (see :func:`mlir_release.release.transaction.publish.publish`), which keeps tag -> version injective among
        releases.
    """
    canonical = canonical_version(version)
    return Version(canonical if published == 0 else f"{canonical}.post{published}")
