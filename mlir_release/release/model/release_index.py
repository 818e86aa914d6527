"""``index.json``: all published releases in one small document, for programs that choose one of them.

The head has the releases of the newest months; each older month has a file of its own, ``index/2026-08.json``, which
the head names with its SHA-256. So a publication rewrites two files at most, however many releases there are.
``quality.json`` has what is learnt after publication, and changes more often: reverts, and the canaries' results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Struct, structs

from mlir_release.ground.documents.decode import (
    LINE_LIMIT,
    Count,
    Line,
    MalformedError,
    PlainName,
    ProjectName,
    Sha1,
    Sha256,
    doc,
    from_json,
    text,
)
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.documents.times import format_time, parse_time
from mlir_release.ground.foreign import visible
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.release.model.manifest import Manifest, PythonTag
from mlir_release.release.model.release_tags import LATEST, ReleaseTag, parse_release_tag, parse_tag
from mlir_release.release.model.stack import CarriedStack
from mlir_release.release.model.yanks import Yank, newest_tag, yank_reason

INDEX_NAME = "index.json"
QUALITY_NAME = "quality.json"

#: The folder of the older months, beside the head.
INDEX_FOLDER = "index"

#: Months that the head holds itself.
HEAD_MONTHS = 3

Month = Annotated[str, text(r"[0-9]{4}-(?:0[1-9]|1[0-2])", "a month, 2026-08")]


class WheelShape(Struct, frozen=True, kw_only=True):
    """A wheel without its version: its file is called ``<distribution>-<version>-<tags>.whl``."""

    distribution: ProjectName
    tags: Annotated[PlainName, doc("Of its file name, `cp312-cp312-manylinux_2_28_x86_64`")]
    pythons: Annotated[tuple[PythonTag, ...], doc("The CPythons that it is made for; none: every one")] = ()
    project: Annotated[
        PlainName | msgspec.UnsetType, doc("The project of llvm-project that it is of; absent: `mlir`")
    ] = msgspec.UNSET


class IndexRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A published release."""

    tag: str
    version: Annotated[Line, doc("Of its wheels, PEP 440")]
    revision: Annotated[Sha1, doc("llvm-project commit")]
    created_at: Annotated[str, doc("When its tag was made; UTC, `2026-11-20T12:00:00Z`")]
    revision_date: Annotated[Line, doc("When the llvm-project commit was made, UTC; or empty: not recorded")] = ""
    llvm_version: Line = ""
    main: Annotated[ProjectName, doc("The distribution that people get who name none; absent: `mlir`")] = (
        DEFAULT_PROJECT
    )
    stack: Annotated[CarriedStack | None, doc("What the commit has beyond upstream's; absent: nothing")] = None
    wheels: Annotated[Count, doc("Position in `shapes`: the wheels that it has")] = 0
    tests: Annotated[Mapping[str, Count], doc("Of all its test runs: `pass`, `expected_fail`, `unsupported`, …")] = {}

    def __post_init__(self) -> None:
        if parse_tag(self.tag) is None:
            raise MalformedError("tag", f"is {self.tag!r}, which is not a release tag")
        for name in ("created_at", "revision_date"):
            try:
                value = getattr(self, name) or self.created_at
                if format_time(parse_time(value)) != value:  # it is compared as text
                    raise ValueError
            except ValueError:
                raise MalformedError(name, f"is {getattr(self, name)!r}, not a UTC time") from None

    @property
    def order(self) -> ReleaseTag:
        """Its place among the releases of its kind."""
        return parse_release_tag(self.tag)

    @property
    def base(self) -> str:
        """Upstream's own commit: the revision, or that below what it carries."""
        return self.stack.base if self.stack else self.revision

    @property
    def dated(self) -> str:
        """When the LLVM commit was made, or else, when the tag was: UTC, text that sorts."""
        return self.revision_date or self.created_at


class OlderMonth(Struct, frozen=True, kw_only=True):
    """A month's releases, by the dates of their tags. Later releases leave its file alone, and so do yanks."""

    month: Month
    sha256: Annotated[Sha256, doc("Of the file `index/<month>.json`")]
    tags: Annotated[tuple[str, ...], doc("Of its releases, newest first")]
    since: Annotated[str, doc("The oldest date of its LLVM commits, UTC")]
    until: Annotated[str, doc("The newest")]


class MonthIndex(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """``index/<month>.json``."""

    month: Month
    releases: tuple[IndexRow, ...]
    shapes: tuple[tuple[WheelShape, ...], ...]

    def __post_init__(self) -> None:
        _check_rows(self.releases, self.shapes, (row.tag for row in self.releases))


class ReleaseIndex(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """``index.json``: what is published, newest first, snapshots and numbered releases.

    The schema's number is raised when the meaning of a field changes; a reader refuses what is newer than itself.
    """

    repository: Annotated[Line, doc("Address of the release repository; `local` for a folder")]
    upstream: Annotated[Line, doc("URL of llvm-project")] = ""
    releases: Annotated[tuple[IndexRow, ...], doc("Those of the newest months")]
    shapes: Annotated[tuple[tuple[WheelShape, ...], ...], doc("Sets of wheels that releases have alike")]
    months: Annotated[tuple[OlderMonth, ...], doc("The older months, newest first")] = ()
    yanked: Annotated[Mapping[str, Line], doc("Tags of releases that nobody should choose, with the reasons")] = {}
    channels: Annotated[Mapping[str, str], doc("`latest` and `latest-good`: the tags that they name now")] = {}

    def __post_init__(self) -> None:
        _check_rows(self.releases, self.shapes, self.tags)
        known = set(self.tags)
        named = {"yanked": self.yanked, "channels": self.channels.values()}
        for key, tag in ((key, tag) for key, tags in named.items() for tag in tags):
            if tag not in known:
                raise MalformedError(key, f"names {tag!r}, which is none of the releases")

    @property
    def tags(self) -> tuple[str, ...]:
        """All releases."""
        return (*(row.tag for row in self.releases), *chain.from_iterable(month.tags for month in self.months))


def _check_rows(rows: Sequence[IndexRow], shapes: Sequence[object], tags: Iterable[str]) -> None:
    for number, row in enumerate(rows):
        if row.wheels >= len(shapes):
            raise MalformedError(f"releases[{number}].wheels", f"is {row.wheels}; there are {len(shapes)} shapes")
    seen: set[str] = set()
    for tag in tags:
        if tag in seen:
            raise MalformedError("releases", f"name {tag!r} twice")
        seen.add(tag)


class Revert(Struct, frozen=True, kw_only=True):
    """A commit that a release has, and that upstream has reverted since."""

    commit: Annotated[Sha1, doc("The llvm-project commit that is reverted")]
    subject: Annotated[Line, doc("Its first line")]
    by: Annotated[Sha1, doc("The commit that reverts it")]
    date: Annotated[str, doc("Of the revert, UTC")]
    affects: Annotated[bool, doc("Whether it touches what is built: MLIR, or what MLIR links")] = True


class CanaryResult(Struct, frozen=True, kw_only=True):
    """Another project's tests, run with the wheels of a release."""

    name: PlainName
    status: Literal["passed", "failed", "broken"]
    """``broken``: the canary could not be tried: its repository, its requirements, or the machine failed."""
    commit: Annotated[Line, doc("Of the other project; or empty")] = ""
    seconds: Count = 0
    url: Annotated[Line, doc("Of the run; or empty")] = ""
    said: Annotated[Line, doc("The last line of its output that tells something; or empty")] = ""


class ReleaseQuality(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was learnt of a release since it was published."""

    reverted: tuple[Revert, ...] = ()
    canaries: tuple[CanaryResult, ...] = ()


class Quality(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """``quality.json``, of the releases of `linked-days`."""

    repository: Line
    upstream_head: Annotated[Line, doc("The llvm-project commit up to which reverts were looked for; or empty")] = ""
    releases: Mapping[str, ReleaseQuality] = {}


# -- making and reading ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """A release of an index. :attr:`IndexRow.wheels` counts only in the file that the row is of."""

    row: IndexRow
    wheels: tuple[WheelShape, ...]
    yanked: str | None = None  #: the reason; None: it is not yanked

    @property
    def tag(self) -> str:
        """The release's tag."""
        return self.row.tag


def list_release(manifest: Manifest) -> CatalogueEntry:
    """The entry of a release."""
    wheels = tuple(
        WheelShape(
            distribution=wheel.distribution,
            tags="-".join(wheel.filename.removesuffix(".whl").split("-")[-3:]),
            pythons=wheel.pythons,
            project=msgspec.UNSET if wheel.project == DEFAULT_PROJECT else wheel.project,
        )
        for wheel in sorted(manifest.wheels, key=lambda wheel: wheel.filename)
    )
    tests: dict[str, int] = {}
    for name, count in chain.from_iterable(test.counts.items() for test in manifest.tests):
        tests[name] = tests.get(name, 0) + count
    row = IndexRow(
        tag=manifest.tag,
        version=manifest.version,
        revision=manifest.revision,
        created_at=format_time(manifest.created),
        revision_date=format_time(parse_time(manifest.revision_date)) if manifest.revision_date else "",
        llvm_version=manifest.llvm_version,
        main=manifest.main,
        stack=manifest.stack,
        tests=dict(sorted(tests.items())),
    )
    return CatalogueEntry(row=row, wheels=wheels)


def listed(part: ReleaseIndex | MonthIndex, yanked: Mapping[str, str] = MappingProxyType({})) -> list[CatalogueEntry]:
    """The releases of the head, or of a month."""
    rows = ((row, part.shapes[row.wheels]) for row in part.releases)
    return [CatalogueEntry(row=row, wheels=wheels, yanked=yanked.get(row.tag)) for row, wheels in rows]


def month_file(month: str) -> str:
    """The path of an older month's file, beside the head."""
    return f"{INDEX_FOLDER}/{month}.json"


def make_index(manifests: Iterable[Manifest], *, repository: str, yanks: Sequence[Yank] = ()) -> dict[str, bytes]:
    """The files of the index by their paths, made from all manifests. The same releases give the same bytes.

    :param yanks: also of releases that are not there
    """
    known = {manifest.tag: manifest for manifest in manifests}
    newest = newest_tag(known, yanks)
    return write_index(
        map(list_release, known.values()),
        repository=repository,
        upstream=known[newest].upstream if newest else "",
        yanks=yanks,
        channels={LATEST: newest} if newest else {},
    )


def write_index(
    releases: Iterable[CatalogueEntry],
    *,
    repository: str,
    upstream: str,
    yanks: Sequence[Yank] = (),
    channels: Mapping[str, str] = MappingProxyType({}),
    older: Iterable[OlderMonth] = (),
) -> dict[str, bytes]:
    """The files of the index by their paths, without those of ``older``.

    :param older: months whose files are there already, with none of the releases
    """
    months: dict[str, list[CatalogueEntry]] = {}
    kept = {month.month: month for month in older}
    for each in sorted(releases, key=lambda each: (each.row.created_at, each.tag), reverse=True):
        months.setdefault(each.row.created_at[:7], []).append(each)
    newest = sorted({*months, *kept}, reverse=True)[:HEAD_MONTHS]
    files: dict[str, bytes] = {}
    for month in months.keys() - set(newest):
        part, shapes = _share(months[month])
        files[month_file(month)] = content = to_bytes(MonthIndex(month=month, releases=part, shapes=shapes))
        dates = sorted(row.dated for row in part)
        tags = tuple(row.tag for row in part)
        digest = sha256_of(content)
        kept[month] = OlderMonth(month=month, sha256=digest, tags=tags, since=dates[0], until=dates[-1])
    part, shapes = _share(list(chain.from_iterable(months.get(month, ()) for month in newest)))
    tags = (*(row.tag for row in part), *chain.from_iterable(month.tags for month in kept.values()))
    head = ReleaseIndex(
        repository=repository,
        upstream=upstream,
        releases=part,
        shapes=shapes,
        months=tuple(kept[month] for month in sorted(kept, reverse=True)),
        yanked=yanked_of(yanks, tags),
        channels=dict(sorted(channels.items())),
    )
    return {INDEX_NAME: to_bytes(head), **files}


def yanked_of(yanks: Sequence[Yank], tags: Iterable[str]) -> dict[str, str]:
    """The reasons of the releases that are yanked as a whole, by their tags; each on one line."""
    found = {tag: reason for tag in sorted(tags) if (reason := yank_reason(yanks, tag)) is not None}
    return {tag: " ".join(visible(reason).split())[:LINE_LIMIT] for tag, reason in found.items()}


def _share(entries: Sequence[CatalogueEntry]) -> tuple[tuple[IndexRow, ...], tuple[tuple[WheelShape, ...], ...]]:
    """Rows that name their wheels by a position, and the sets of wheels, each once."""
    shapes = {wheels: position for position, wheels in enumerate(dict.fromkeys(each.wheels for each in entries))}
    return tuple(structs.replace(each.row, wheels=shapes[each.wheels]) for each in entries), tuple(shapes)


def to_bytes(document: ReleaseIndex | MonthIndex | Quality) -> bytes:
    """The content of a document's file."""
    return msgspec.json.encode(document, order="sorted") + b"\n"


def parse_index(content: bytes) -> ReleaseIndex:
    """Read ``index.json``. :raises MalformedError:"""
    return from_json(content, ReleaseIndex)


def parse_month(content: bytes) -> MonthIndex:
    """Read ``index/<month>.json``. :raises MalformedError:"""
    return from_json(content, MonthIndex)


def parse_quality(content: bytes) -> Quality:
    """Read ``quality.json``. :raises MalformedError:"""
    return from_json(content, Quality)
