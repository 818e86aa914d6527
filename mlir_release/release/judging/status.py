"""The state of the newest releases, and for each platform what is building, what passed, and since when it fails.

A pure function of what was observed (:mod:`.status_facts`). The command line and the pages both show its result.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import msgspec

from mlir_release.ground.documents.times import format_time
from mlir_release.ground.errors import NeedsPersonError
from mlir_release.release.judging.health import Cell, Link, TargetNames, draft_health, published_health
from mlir_release.release.judging.issue_records import read_record
from mlir_release.release.model.measures import make_series
from mlir_release.release.model.release_tags import LATEST_GOOD, parse_release_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from mlir_release.ground.hosting import Issue
    from mlir_release.release.forge.services import Run
    from mlir_release.release.judging.health import PlatformHealth
    from mlir_release.release.judging.scorecard import Scorecard
    from mlir_release.release.model.manifest import Manifest
    from mlir_release.release.model.matrix import Matrix
    from mlir_release.release.model.measures import Series
    from mlir_release.release.model.release_tags import Kind
    from mlir_release.release.pinning.state import TagState

#: A schedule that makes two snapshots a day has stopped if the newest is this old.
STALE = timedelta(days=2)

#: ``waiting``: its build is over and something required is missing: it can be run again, waived or abandoned.
#: ``not started``: no run of its build is listed.
ReleaseState = Literal["building", "waiting", "not started", "published", "abandoned"]

_RED: frozenset[PlatformHealth] = frozenset({"failed", "waived"})
_GREEN: frozenset[PlatformHealth] = frozenset({"passed", "partial"})


@dataclass(frozen=True, kw_only=True)
class TagFacts:
    """The facts about one release. A fact that could not be seen is None, or empty."""

    state: TagState
    published_at: datetime | None = None
    manifest: Manifest | None = None  #: of a published release
    card: Scorecard | None = None  #: of a pending one: by its jobs, and by its draft if that can be seen
    seen: bool = True  #: whether it can
    runs: tuple[Run, ...] = ()  #: of its build, newest first
    page: str = ""  #: of the published release


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that was observed. ``notes``: what could not be."""

    now: datetime  #: by the forge's clock
    source: str  #: the forge, for people
    releases: tuple[TagFacts, ...]  #: newest first, of both kinds
    matrix: Matrix  #: of the branch: names the platforms
    lines: Mapping[str, Matrix] = field(default_factory=dict)  #: of the branch, by release line
    manifests: tuple[Manifest, ...] = ()  #: of published releases, whose measures are compared
    issues: tuple[Issue, ...] = ()
    good: str = ""  #: the tag of the channel latest-good; empty: no snapshot is
    notes: tuple[str, ...] = ()

    def matrix_of(self, state: TagState) -> Matrix:
        """The branch's matrix for a release like this."""
        return self.lines.get(state.tag.line or "", self.matrix)


@dataclass(frozen=True, kw_only=True)
class ReleaseLine:
    """A release."""

    tag: str
    kind: Kind
    state: ReleaseState
    since: datetime | None  #: when it was published; else when it was tagged
    platforms: Mapping[str, Cell]
    run: str = ""  #: the newest run's page
    page: str = ""
    reason: str = ""  #: why it was abandoned
    good: bool = False  #: the channel latest-good names it

    @property
    def done(self) -> int:
        """Wheels that are there."""
        return sum(cell.done for cell in self.platforms.values())

    @property
    def total(self) -> int:
        """Wheels that it is to have."""
        return sum(cell.total for cell in self.platforms.values())

    @property
    def shown_state(self) -> str:
        """The state for people."""
        state = "waiting for waiver" if self.state == "waiting" else self.state
        return f"{state}, {LATEST_GOOD}" if self.good else state

    @property
    def red(self) -> tuple[str, ...]:
        """Platforms of which something that is required fails or is waived."""
        return tuple(name for name, cell in self.platforms.items() if cell.verdict in _RED)


@dataclass(frozen=True, kw_only=True)
class PlatformLine:
    """A platform, over the releases of one kind. Tags are empty where there is no such release."""

    name: str
    kind: Kind
    verdict: PlatformHealth  #: in the newest release that tells of it, whether or not another is being built
    building: str  #: the newest release in which it is being built
    passed: str  #: the newest in which it passed
    red_since: str  #: if it fails: the first of the unbroken row of releases in which it does
    failed: tuple[Link, ...] = ()  #: of the newest release in which it fails
    issues: tuple[Link, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Status:
    """The picture."""

    now: datetime
    source: str
    releases: tuple[ReleaseLine, ...]
    platforms: tuple[PlatformLine, ...]
    measures: Mapping[Kind, tuple[Series, ...]]
    notes: tuple[str, ...]

    def of_kind(self, kind: Kind) -> tuple[tuple[ReleaseLine, ...], tuple[PlatformLine, ...]]:
        """The releases and the platforms of one kind."""
        releases = tuple(line for line in self.releases if line.kind == kind)
        return releases, tuple(line for line in self.platforms if line.kind == kind)

    def to_json(self) -> dict[str, object]:
        """For ``--json``, and ``status.json`` of the pages."""
        return {
            "now": format_time(self.now),
            "source": self.source,
            "releases": [
                {
                    **msgspec.to_builtins(line),
                    "since": format_time(line.since) if line.since else None,
                    "wheels": {"done": line.done, "total": line.total},
                }
                for line in self.releases
            ],
            "platforms": msgspec.to_builtins(self.platforms),
            "measures": msgspec.to_builtins(self.measures),
            "notes": list(self.notes),
        }


def format_age(age: timedelta) -> str:
    """An age in one unit: ``5 min``, ``3 h``, ``2 d``."""
    minutes = max(0, int(age.total_seconds()) // 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} d"


def short_tag(tag: str) -> str:
    """A tag without what all tags of its kind begin with: ``20261120.02``, ``22.1.8.01``."""
    return tag.partition("-")[2]


def make_status(facts: Facts) -> Status:
    """The picture of what was observed."""
    kinds: list[Kind] = ["snapshot", "numbered"]
    names = {
        kind: TargetNames(*(facts.matrix_of(row.state) for row in facts.releases if row.state.tag.kind == kind))
        for kind in kinds
    }
    columns = dict.fromkeys(name for kind in kinds for name in names[kind].platforms)
    releases = tuple(
        replace(_release(row, columns, facts.matrix_of(row.state)), good=row.state.name == facts.good)
        for row in facts.releases
    )
    platforms = [
        _platform(name, kind, [line for line in releases if line.kind == kind], facts.issues, names[kind])
        for kind in kinds
        for name in names[kind].platforms
    ]
    return Status(
        now=facts.now,
        source=facts.source,
        releases=releases,
        platforms=tuple(platforms),
        measures={kind: make_series(row for row in facts.manifests if row.kind == kind) for kind in kinds},
        notes=(*facts.notes, *stale(facts.now, (row.state for row in facts.releases))),
    )


def stale(now: datetime, states: Iterable[TagState]) -> Iterator[str]:
    """A note if no snapshot was made for :data:`STALE`, where any was made at all."""
    begun = [state.created_at for state in states if state.tag.kind == "snapshot" and state.created_at]
    if begun and (age := now - max(begun)) > STALE:
        yield f"the newest snapshot is {format_age(age)} old: no schedule makes new ones; mlir-release doctor looks why"


# -- one release ------------------------------------------------------------------------------------------------------


def _release(facts: TagFacts, columns: Iterable[str], matrix: Matrix) -> ReleaseLine:
    """``columns``: all platforms; ``matrix``: of the branch for such a release, which may have fewer."""
    state, card, names = facts.state, facts.card, TargetNames(matrix)
    cells: dict[str, Cell] = dict.fromkeys(columns, Cell(verdict="unknown"))
    if facts.manifest is not None:
        cells |= published_health(facts.manifest, names, _excluded(state, matrix))
    elif card is not None:
        cells |= {name: draft_health(card, name, live=_is_live(facts), seen=facts.seen) for name in names.platforms}
    return ReleaseLine(
        tag=state.name,
        kind=state.tag.kind,
        state=_state(facts),
        since=facts.published_at or state.created_at,
        platforms=cells,
        run=facts.runs[0].url if facts.runs else "",
        page=facts.page,
        reason=state.reason,
    )


def _excluded(state: TagState, matrix: Matrix) -> set[str]:
    """Targets that its revision can't be made into: that they are not there says nothing about their platforms."""
    try:
        return {row.name for row in matrix.of_revision(state.facts).drop_unresolvable(state.excluded).excluded}
    except NeedsPersonError:  # someone made that tag by hand
        return set()


def _state(facts: TagFacts) -> ReleaseState:
    if facts.state.state != "pending":
        return facts.state.state
    if not facts.runs:
        return "not started"
    return "building" if _is_live(facts) else "waiting"


def _is_live(facts: TagFacts) -> bool:
    return any(run.status != "completed" for run in facts.runs)


# -- one platform -----------------------------------------------------------------------------------------------------


def _platform(
    name: str, kind: Kind, lines: Sequence[ReleaseLine], issues: Iterable[Issue], names: TargetNames
) -> PlatformLine:
    cells = [(line.tag, line.platforms[name]) for line in lines]
    said = [(tag, cell) for tag, cell in cells if cell.verdict in _RED | _GREEN]
    mine = [issue for issue in issues if _about(issue, kind, name, names)]
    red_since, failed = "", tuple[Link, ...]()
    if said and said[0][1].verdict in _RED:
        red_since, failed = said[0][0], said[0][1].failed
        for tag, cell in said:
            if cell.verdict not in _RED:
                break
            red_since = tag
        else:  # all that is shown fails: an issue may know of an older one
            records = [record for issue in mine if (record := read_record(issue)) is not None]
            first = [record.first for record in records if record.required]
            red_since = min([red_since, *first], key=parse_release_tag)
    return PlatformLine(
        name=name,
        kind=kind,
        verdict=said[0][1].verdict if said else cells[0][1].verdict if cells else "unknown",
        building=next((tag for tag, cell in cells if cell.verdict == "building"), ""),
        passed=next((tag for tag, cell in cells if cell.verdict in _GREEN and cell.done), ""),
        red_since=red_since,
        failed=failed,
        issues=tuple(Link(text=f"#{issue.number}", url=issue.url) for issue in mine),
    )


def _about(issue: Issue, kind: Kind, name: str, names: TargetNames) -> bool:
    of, slash, target = issue.key.partition("/")
    return bool(slash) and of == kind and names.platform_of(target) == name
