"""``index.json``: all published releases in one small document, for programs that choose one of them.

The head has the releases of the newest months; each older month has a file of its own, ``index/2026-08.json``, which
the head names with its SHA-256. So a publication rewrites two files at most, however many releases there are.
``quality.json`` has what is learnt after publication, and changes more often: reverts, and the canaries' results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Literal

import msgspec
from msgspec import Struct

from mlir_release.model.decode import (
    Count,
    Line,
    MalformedError,
    PlainName,
    ProjectName,
    Sha1,
    Sha256,
    doc,
    from_large_json,
    text,
)
from mlir_release.model.digests import sha256_of
from mlir_release.model.manifest import Manifest, PythonTag, parse_time
from mlir_release.model.release_tags import ReleaseTag, parse_release_tag, parse_tag

INDEX_NAME = "index.json"
QUALITY_NAME = "quality.json"

#: Months that the head holds itself.
HEAD_MONTHS = 3

Month = Annotated[str, text(r"[0-9]{4}-(?:0[1-9]|1[0-2])", "a month, 2026-08")]


class WheelShape(Struct, frozen=True, kw_only=True):
    """A wheel without its version: its file is called ``<distribution>-<version>-<tags>.whl``."""

    distribution: ProjectName
    tags: Annotated[PlainName, doc("Of its file name, `cp312-cp312-manylinux_2_28_x86_64`")]
    pythons: Annotated[tuple[PythonTag, ...], doc("The CPythons that it is made for; none: every one")] = ()


class IndexRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A published release."""

    tag: str
    version: Annotated[Line, doc("Of its wheels, PEP 440")]
    revision: Annotated[Sha1, doc("llvm-project commit")]
    created_at: Annotated[str, doc("When its tag was made; UTC, `2026-11-20T12:00:00Z`")]
    revision_date: Annotated[Line, doc("When the llvm-project commit was made, UTC; or empty: not recorded")] = ""
    llvm_version: Line = ""
    wheels: Annotated[Count, doc("Position in `shapes`: the wheels that it has")] = 0
    tests: Annotated[Mapping[str, Count], doc("Of all its test runs: `pass`, `expected_fail`, `unsupported`, …")] = {}

    def __post_init__(self) -> None:
        if parse_tag(self.tag) is None:
            raise MalformedError("tag", f"is {self.tag!r}, which is not a release tag")
        for name in ("created_at", "revision_date"):
            try:
                parse_time(getattr(self, name) or self.created_at)
            except ValueError:
                raise MalformedError(name, f"is {getattr(self, name)!r}, not a UTC time") from None

    @property
    def order(self) -> ReleaseTag:
        """Its place among the releases of its kind."""
        return parse_release_tag(self.tag)

    @property
    def dated(self) -> str:
        """When the LLVM commit was made, or else, when the tag was: UTC, text that sorts."""
        return self.revision_date or self.created_at


class OlderMonth(Struct, frozen=True, kw_only=True):
    """A month's releases, by the dates of their tags. Their file never changes, as the head has the yanks."""

    month: Month
    sha256: Annotated[Sha256, doc("Of the file `index/<month>.json`")]
    releases: Count
    since: Annotated[str, doc("The oldest date of its LLVM commits, UTC")]
    until: Annotated[str, doc("The newest")]


class MonthIndex(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """``index/<month>.json``."""

    month: Month
    releases: tuple[IndexRow, ...]
    shapes: tuple[tuple[WheelShape, ...], ...]

    def __post_init__(self) -> None:
        _check_rows(self.releases, self.shapes)


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
        _check_rows(self.releases, self.shapes)


def _check_rows(rows: Sequence[IndexRow], shapes: Sequence[object]) -> None:
    for number, row in enumerate(rows):
        if row.wheels >= len(shapes):
            raise MalformedError(f"releases[{number}].wheels", f"is {row.wheels}; there are {len(shapes)} shapes")


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


def row_of(manifest: Manifest, shapes: list[tuple[WheelShape, ...]]) -> IndexRow:
    """The row of a release.

    :param shapes: gets the release's set of wheels, unless it is there
    """
    shape = tuple(
        WheelShape(
            distribution=wheel.distribution,
            tags="-".join(wheel.filename.removesuffix(".whl").split("-")[-3:]),
            pythons=wheel.pythons,
        )
        for wheel in manifest.sorted().wheels
    )
    if shape not in shapes:
        shapes.append(shape)
    tests: dict[str, int] = {}
    for name, count in chain.from_iterable(test.counts.items() for test in manifest.tests):
        tests[name] = tests.get(name, 0) + count
    return IndexRow(
        tag=manifest.tag,
        version=manifest.version,
        revision=manifest.revision,
        created_at=manifest.created_at,
        revision_date=manifest.revision_date,
        llvm_version=manifest.llvm_version,
        wheels=shapes.index(shape),
        tests=dict(sorted(tests.items())),
    )


def month_file(month: str) -> str:
    """The path of an older month's file, beside the head."""
    return f"index/{month}.json"


def make_index(
    manifests: Iterable[Manifest],
    *,
    repository: str,
    upstream: str = "",
    yanked: Mapping[str, str] | None = None,
    channels: Mapping[str, str] | None = None,
) -> dict[str, bytes]:
    """The files of the index by their paths. The same releases give the same bytes."""
    ordered = sorted(manifests, key=lambda each: (each.created_at, each.tag), reverse=True)
    months: dict[str, list[Manifest]] = {}
    for manifest in ordered:
        months.setdefault(manifest.created_at[:7], []).append(manifest)
    files, older = {}, []
    for month in sorted(months, reverse=True)[HEAD_MONTHS:]:
        shapes: list[tuple[WheelShape, ...]] = []
        rows = tuple(row_of(manifest, shapes) for manifest in months[month])
        content = _to_bytes(MonthIndex(month=month, releases=rows, shapes=tuple(shapes)))
        files[month_file(month)] = content
        dates = sorted(row.dated for row in rows)
        older.append(
            OlderMonth(month=month, sha256=sha256_of(content), releases=len(rows), since=dates[0], until=dates[-1])
        )
    shapes = []
    head = ReleaseIndex(
        repository=repository,
        upstream=upstream,
        releases=tuple(
            row_of(manifest, shapes)
            for month in sorted(months, reverse=True)[:HEAD_MONTHS]
            for manifest in months[month]
        ),
        shapes=tuple(shapes),
        months=tuple(older),
        yanked=dict(sorted((yanked or {}).items())),
        channels=dict(sorted((channels or {}).items())),
    )
    return {INDEX_NAME: _to_bytes(head), **files}


def _to_bytes(document: Struct) -> bytes:
    return msgspec.json.encode(document, order="sorted") + b"\n"


def parse_index(content: bytes) -> ReleaseIndex:
    """Read ``index.json``. :raises MalformedError:"""
    return from_large_json(content, ReleaseIndex)


def parse_month(content: bytes) -> MonthIndex:
    """Read ``index/<month>.json``. :raises MalformedError:"""
    return from_large_json(content, MonthIndex)


def parse_quality(content: bytes) -> Quality:
    """Read ``quality.json``. :raises MalformedError:"""
    return from_large_json(content, Quality)
