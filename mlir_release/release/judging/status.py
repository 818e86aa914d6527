"""The state of the newest releases, and for each platform what is building, what passed, and since when it fails.

A pure function of what was observed (:mod:`.status_facts`). The command line and the pages both show its result.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import msgspec

from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.documents.times import format_age, format_time
from mlir_release.ground.errors import NeedsPersonError
from mlir_release.ground.job_names import is_about, is_experimental
from mlir_release.ground.python.cpython import STABLE_ABI
from mlir_release.release.forge.services import BAD_ENDS, Run
from mlir_release.release.model.measures import Series, make_series
from mlir_release.release.model.release_tags import LATEST_GOOD, Kind, parse_release_tag, parse_tag

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from mlir_release.ground.hosting import Issue
    from mlir_release.release.judging.scorecard import Scorecard
    from mlir_release.release.model.manifest import Manifest
    from mlir_release.release.model.matrix import Matrix
    from mlir_release.release.pinning.state import TagState


# -- a platform in one release -----------------------------------------------------------------------------------------

# By its scorecard, or by its manifest once it is published. A published release is not judged again: the build matrix
# may have changed since.

#: Failed jobs of a platform that are linked at most.
MAX_LINKS = 3

#: ``partial``: all that is required passed, but something experimental did not. ``waived``: something required is
#: waived; ``failed`` if that leaves no wheel. ``missing``: something required is not there, and nothing works on it.
PlatformHealth = Literal["passed", "partial", "waived", "failed", "building", "missing", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Link:
    """A page for people."""

    text: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The health of one platform in one release."""

    verdict: PlatformHealth
    done: int = 0  #: wheels that are there
    total: int = 0  #: wheels that it is to have
    lacking: tuple[str, ...] = ()  #: targets that are waived or left out
    failed: tuple[Link, ...] = ()  #: jobs, or tests


class TargetNames:
    """The platforms of targets by their names, also of an older matrix whose rows had other CPythons.

    :param matrices: of the branch
    """

    def __init__(self, *matrices: Matrix) -> None:
        wheels = [wheel for matrix in matrices for wheel in (*matrix.wheels, *(row.wheel for row in matrix.excluded))]
        self.platforms = tuple(dict.fromkeys(runtime.name for matrix in matrices for runtime in matrix.runtimes))
        self._wheels = {_without_python(wheel.name): wheel.runtime.name for wheel in wheels}
        self._tests = {
            _without_python(test.name) if test.needs_wheel else test.name: test.runtime.name
            for wheel in wheels
            for test in wheel.tests
        }

    def is_wheel(self, name: str) -> bool:
        """Whether it is the name of a wheel's target."""
        return name not in self._tests and _without_python(name) in self._wheels

    def platform_of(self, name: str) -> str:
        """The platform of a wheel, a test or an SDK; empty if the matrix has no such configuration there."""
        if name.startswith("sdk-") and name.removeprefix("sdk-") in self.platforms:
            return name.removeprefix("sdk-")
        stem = _without_python(name)
        return self._tests.get(name) or self._wheels.get(stem) or self._tests.get(stem, "")


def _without_python(name: str) -> str:
    return name.removesuffix(f"-{STABLE_ABI}").rpartition("-")[0]


def published_health(manifest: Manifest, names: TargetNames, excluded: Collection[str]) -> Mapping[str, Cell]:
    """By platform, as the manifest of a published release records it.

    :param excluded: targets that its revision can't be made into: that they lack says nothing about their platforms
    """

    def of(platform: str) -> Cell:
        def mine(targets: Collection[str]) -> list[str]:
            return [target for target in targets if names.platform_of(target) == platform]

        there = mine([file.target for file in manifest.files])
        waived = mine([waiver.target for waiver in manifest.waivers])
        left_out = mine([row.target for row in manifest.left_out if row.target not in excluded])
        # A wheel for several CPythons is there for each of them, and a test takes no wheel away.
        served = {f"{_without_python(wheel.target)}-{python}" for wheel in manifest.wheels for python in wheel.serves}
        gone = [target for target in (*waived, *left_out) if names.is_wheel(target) and target not in served]
        return Cell(
            verdict=_outcome(len(there), waived, left_out) if there or gone else "missing",
            done=len(there),
            total=len(there) + len(gone),
            lacking=(*waived, *left_out),
        )

    return {platform: of(platform) for platform in names.platforms}


def draft_health(card: Scorecard, platform: str, *, live: bool, seen: bool) -> Cell:
    """The health of one platform in a release that is not published yet.

    :param live: whether a run of its build is not over: then it may build what no job is listed for
    :param seen: whether the draft could be seen; else its jobs tell alone
    """
    rows = [row for row in (*card.members.values(), *card.tests.values()) if row.platform == platform]
    wheels = [wheel for wheel in card.matrix.wheels if wheel.runtime.name == platform]
    jobs = [job for job in card.jobs.values() if is_about(job.name, platform)]
    bad = sorted((job for job in jobs if job.conclusion in BAD_ENDS), key=lambda job: is_experimental(job.name))
    # What a job has made is in the draft soon. If the build is over and it is not there, it was lost.
    short = [row for row in rows if not (row.ok or (row.state == "made" and (live or not seen)))]
    failed = sorted((row for row in short if row.state == "failed"), key=lambda row: (not row.required, row.name))
    lacking = any(row.required for row in short)
    unproven = any(row.required and not row.ok for row in rows)
    absent = {row.name for row in rows if row in short or row.state == "waived"}
    done = sum(
        wheel.name in card.files or any(member.name not in absent for member in wheel.members) for wheel in wheels
    )
    waived = dict.fromkeys(
        name for row in (*rows, *card.excluded_targets.values()) if row.platform == platform for name in row.waivers
    )
    verdict: PlatformHealth
    if any(row.required for row in failed) or (unproven and any(not is_experimental(job.name) for job in bad)):
        verdict = "failed"
    elif any(job.status != "completed" for job in jobs) or (lacking and live):
        verdict = "building"
    elif lacking or not wheels:
        verdict = "missing"
    else:
        verdict = _outcome(done, waived, short)
    links = [
        *(Link(text=job.name, url=job.url) for job in bad),
        *(Link(text=row.name, url="") for row in failed if row.kind == "test"),
    ]
    return Cell(
        verdict=verdict,
        done=done,
        total=len(wheels),
        lacking=tuple(waived),
        failed=() if all(row.ok for row in rows) else tuple(links[:MAX_LINKS]),
    )


def _outcome(done: int, waived: Collection[str], left_out: Collection[object]) -> PlatformHealth:
    """The health of a platform for which nobody waits any more."""
    if waived:
        return "waived" if done else "failed"
    return "partial" if left_out else "passed"


# -- what was observed, and the picture of it --------------------------------------------------------------------------

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
    live = any(run.status != "completed" for run in facts.runs)
    pending: ReleaseState = "building" if live else "waiting" if facts.runs else "not started"
    if facts.manifest is not None:
        excluded: set[str] = set()
        with suppress(NeedsPersonError):  # someone made that tag by hand
            rows = matrix.of_revision(state.facts).drop_unresolvable(state.excluded).excluded
            excluded = {row.name for row in rows}
        cells |= published_health(facts.manifest, names, excluded)
    elif card is not None:
        cells |= {name: draft_health(card, name, live=live, seen=facts.seen) for name in names.platforms}
    return ReleaseLine(
        tag=state.name,
        kind=state.tag.kind,
        state=pending if state.state == "pending" else state.state,
        since=facts.published_at or state.created_at,
        platforms=cells,
        run=facts.runs[0].url if facts.runs else "",
        page=facts.page,
        reason=state.reason,
    )


# -- one platform -----------------------------------------------------------------------------------------------------


def _platform(
    name: str, kind: Kind, lines: Sequence[ReleaseLine], issues: Iterable[Issue], names: TargetNames
) -> PlatformLine:
    cells = [(line.tag, line.platforms[name]) for line in lines]
    said = [(tag, cell) for tag, cell in cells if cell.verdict in _RED | _GREEN]
    keys = [(issue, issue.key.partition("/")) for issue in issues]
    mine = [issue for issue, (of, slash, key) in keys if slash and of == kind and names.platform_of(key) == name]
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


# -- what an issue about a target that fails tells the next command: a marker in its body ------------------------------

#: What the title of an issue about a target that is not required ends in.
EXPERIMENTAL = " (experimental)"

_MARKER = re.compile(r"^<!-- mlir-release-track: (?P<json>\{.*\}) -->\s*$", re.MULTILINE)

#: What bodies say that have no marker: those of older toolkits.
_FIRST, _LAST = (re.compile(rf"^{word} failed in: `(?P<tag>[^`]+)`", re.MULTILINE) for word in ("First", "Last"))


class IssueRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an issue's marker."""

    first: str  #: the release in which it failed first
    last: str  #: and last
    required: bool  #: whether publication waits for it

    def is_of(self, kind: str) -> bool:
        """Whether both are tags of releases of a kind."""
        return all((tag := parse_tag(name)) is not None and tag.kind == kind for name in (self.first, self.last))

    def marker(self) -> str:
        """The marker, which people don't see."""
        return f"<!-- mlir-release-track: {msgspec.json.encode(self).decode()} -->"


def read_record(issue: Issue) -> IssueRecord | None:
    """Read the marker of an issue. None if there is no proper one: a person may edit the body.

    The text after the beginning of the first block of code is not ours: logs are quoted there.
    """
    head = f"\n{issue.body}".partition("\n```")[0]
    marker, first, last = (pattern.search(head) for pattern in (_MARKER, _FIRST, _LAST))
    found: list[IssueRecord] = []
    if marker is not None:
        with suppress(MalformedError):
            found.append(from_json(marker["json"], IssueRecord))
    if first is not None and last is not None:
        required = not issue.title.endswith(EXPERIMENTAL)
        found.append(IssueRecord(first=first["tag"], last=last["tag"], required=required))
    return next((record for record in found if record.is_of(issue.key.partition("/")[0])), None)
