"""What is going on: the newest releases, and what is building, what passed, and what fails since when, by platform.

A pure function of what was observed (:mod:`.status_facts`). The command line and the pages both show its result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from mlir_release.errors import NeedsPersonError
from mlir_release.forge.services import BAD_ENDS
from mlir_release.model.job_names import is_experimental, split_job_name
from mlir_release.model.manifest import format_time
from mlir_release.model.release_tags import parse_release_tag, parse_tag

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from mlir_release.forge.services import Issue, Run, RunJob
    from mlir_release.model.manifest import Manifest
    from mlir_release.model.matrix import Matrix
    from mlir_release.model.release_tags import Kind
    from mlir_release.model.wheel_target import WheelTarget
    from mlir_release.pinning.state import TagState

#: In which release a target failed first, as its issue says.
FIRST_FAILED = re.compile(r"^First failed in: `(?P<tag>[^`]+)`", re.MULTILINE)

#: What the title of an issue about a target that is not required ends in.
EXPERIMENTAL = " (experimental)"

#: A schedule that makes two snapshots a day has stopped if the newest is this old.
STALE = timedelta(days=2)

#: Failed jobs of a platform that are linked at most.
MAX_LINKS = 3

#: ``waiting``: its build is over and something required is missing: it can be run again, waived or abandoned.
#: ``not started``: no run of its build is listed.
ReleaseState = Literal["building", "waiting", "not started", "published", "abandoned"]

#: ``partial``: all that is required passed, but something experimental did not. ``waived``: published without something
#: that is required. ``missing``: something required is not there, and nothing works on it.
Verdict = Literal["passed", "partial", "waived", "failed", "building", "missing", "unknown"]

_SHOWN_STATES: Mapping[ReleaseState, str] = {"waiting": "waiting for waiver"}
_RED: frozenset[Verdict] = frozenset({"failed", "waived"})
_GREEN: frozenset[Verdict] = frozenset({"passed", "partial"})


@dataclass(frozen=True, kw_only=True)
class TagFacts:
    """What was observed of one release. What could not be seen is None, or empty."""

    state: TagState
    began: datetime | None  #: when it was tagged
    published_at: datetime | None = None
    manifest: Manifest | None = None  #: of a published release
    matrix: Matrix | None = None  #: of a pending one: what it is to have
    present: frozenset[str] | None = None  #: wheel targets that its draft has; None: the draft can't be seen
    failing: frozenset[str] = frozenset()  #: tests whose reports in the draft do not pass
    runs: tuple[Run, ...] = ()  #: of its build, newest first
    jobs: tuple[RunJob, ...] = ()  #: of the newest of them
    page: str = ""  #: of the published release


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that was observed. ``notes``: what could not be."""

    now: datetime  #: by the forge's clock
    source: str  #: the forge, for people
    releases: tuple[TagFacts, ...]  #: newest first, of both kinds
    matrix: Matrix  #: of the branch: names the platforms
    issues: tuple[Issue, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Link:
    """A page for people."""

    text: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Cell:
    """How one platform is doing in one release."""

    verdict: Verdict
    done: int  #: wheels that are there
    total: int  #: wheels that it is to have
    lacking: tuple[str, ...] = ()  #: targets that are waived or left out
    failed: tuple[Link, ...] = ()  #: jobs, or tests


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
        return _SHOWN_STATES.get(self.state, self.state)

    @property
    def red(self) -> tuple[str, ...]:
        """Platforms of which something that is required fails or is waived."""
        return tuple(name for name, cell in self.platforms.items() if cell.verdict in _RED)


@dataclass(frozen=True, kw_only=True)
class PlatformLine:
    """A platform, over the releases of one kind. Tags are empty where there is no such release."""

    name: str
    kind: Kind
    verdict: Verdict  #: in the newest release that says something about it, whether or not another is being built
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
            "releases": [_release_json(line) for line in self.releases],
            "platforms": [_platform_json(line) for line in self.platforms],
            "notes": list(self.notes),
        }


def format_age(age: timedelta) -> str:
    """How long ago, in one unit: ``5 min``, ``3 h``, ``2 d``."""
    minutes = max(0, int(age.total_seconds()) // 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // (24 * 60)} d"


def short_tag(tag: str) -> str:
    """A tag without what all tags of its kind begin with: ``20261120.02``, ``22.1.8.01``."""
    return tag.partition("-")[2]


def make_status(facts: Facts) -> Status:
    """The picture of what was observed."""
    names = [runtime.name for runtime in facts.matrix.runtimes]
    releases = tuple(_release(row, names, facts.matrix) for row in facts.releases)
    kinds: list[Kind] = ["snapshot", "numbered"]
    platforms = [
        _platform(name, kind, [line for line in releases if line.kind == kind], facts.issues, names)
        for kind in kinds
        if any(line.kind == kind for line in releases)
        for name in names
    ]
    return Status(
        now=facts.now,
        source=facts.source,
        releases=releases,
        platforms=tuple(platforms),
        notes=(*facts.notes, *stale(facts.now, (row.state for row in facts.releases))),
    )


def stale(now: datetime, states: Iterable[TagState]) -> Iterator[str]:
    """A note if no snapshot was made for :data:`STALE`, where any was made at all."""
    begun = [state.created_at for state in states if state.tag.kind == "snapshot" and state.created_at]
    if begun and (age := now - max(begun)) > STALE:
        yield f"the newest snapshot is {format_age(age)} old: no schedule makes new ones; mlir-release doctor looks why"


def platform_of(name: str, platforms: Iterable[str]) -> str:
    """The platform that a target or a job belongs to, by its name: the longest that fits; empty if none does."""
    found = [one for one in platforms if re.search(rf"(?<![a-z0-9_]){re.escape(one)}(?![a-z0-9_])", name)]
    return max(found, key=len, default="")


# -- one release ------------------------------------------------------------------------------------------------------


def _release(facts: TagFacts, names: Sequence[str], matrix: Matrix) -> ReleaseLine:
    state = facts.state
    if state.state == "published":
        excluded = _excluded(state, matrix)
        cells = {name: _published(facts.manifest, name, names, excluded) for name in names}
    elif state.state == "pending":
        cells = {name: _pending(facts, name, names) for name in names}
    else:
        cells = {name: Cell(verdict="unknown", done=0, total=0) for name in names}
    return ReleaseLine(
        tag=state.name,
        kind=state.tag.kind,
        state=_state(facts),
        since=facts.published_at or facts.began,
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


def _published(manifest: Manifest | None, name: str, names: Sequence[str], excluded: Container[str]) -> Cell:
    if manifest is None:
        return Cell(verdict="unknown", done=0, total=0)
    wheels = [wheel.target for wheel in manifest.wheels if platform_of(wheel.target, names) == name]
    waived = [row.target for row in manifest.waivers if platform_of(row.target, names) == name]
    left_out = [
        row.target for row in manifest.left_out if row.target not in excluded and platform_of(row.target, names) == name
    ]
    # A waived test of a wheel that is there takes no wheel away.
    tests = tuple(f"-{wheel}" for wheel in wheels)
    gone = [target for target in waived if not target.endswith(tests)] + left_out
    verdict: Verdict = "waived" if waived else "partial" if left_out else "passed"
    return Cell(
        verdict="missing" if not (wheels or gone) else "failed" if not wheels else verdict,
        done=len(wheels),
        total=len(wheels) + len(gone),
        lacking=(*waived, *left_out),
    )


def _pending(facts: TagFacts, name: str, names: Sequence[str]) -> Cell:
    if facts.matrix is None:
        return Cell(verdict="unknown", done=0, total=0)
    due = [wheel for wheel in facts.matrix.wheels if wheel.runtime.name == name]
    jobs = [job for job in _latest(facts.jobs) if platform_of(job.name, names) == name]
    there = {wheel.name for wheel in due if wheel.name in (facts.present or ())} | _built(name, due, jobs)
    failing = [test for test in facts.matrix.tests if test.name in facts.failing and test.runtime.name == name]
    bad = [job for job in jobs if job.conclusion in BAD_ENDS]
    links = [
        *(Link(text=job.name, url=job.url) for job in sorted(bad, key=lambda job: is_experimental(job.name))),
        *(Link(text=test.name, url="") for test in sorted(failing, key=lambda test: (not test.required, test.name))),
    ]
    serious = any(not is_experimental(job.name) for job in bad) or any(test.required for test in failing)
    lacking = [wheel.name for wheel in due if wheel.required and wheel.name not in there]
    active = any(job.status != "completed" for job in jobs) or (lacking and _is_live(facts))
    verdict: Verdict = "failed" if serious else "building" if active else "missing" if lacking or not due else "passed"
    if verdict == "passed" and (links or len(there) < len(due)):
        verdict = "partial"
    return Cell(verdict=verdict, done=len(there), total=len(due), failed=tuple(links[:MAX_LINKS]))


def _built(name: str, due: Iterable[WheelTarget], jobs: Iterable[RunJob]) -> set[str]:
    """The wheels that jobs say are made: required ones and experimental ones are built by jobs of their own."""
    ended: dict[bool, list[bool]] = {True: [], False: []}
    for job in jobs:
        if split_job_name(job.name) == ("wheels", name):
            ended[not is_experimental(job.name)].append(job.conclusion == "success")
    return {wheel.name for wheel in due if ended[wheel.required] and all(ended[wheel.required])}


def _is_live(facts: TagFacts) -> bool:
    return any(run.status != "completed" for run in facts.runs)


def _latest(jobs: Iterable[RunJob]) -> list[RunJob]:
    """The last attempt of each job."""
    latest = {job.name: job for job in sorted(jobs, key=lambda job: (job.started_at, len(job.id), job.id))}
    return list(latest.values())


# -- one platform -----------------------------------------------------------------------------------------------------


def _platform(
    name: str, kind: Kind, lines: Sequence[ReleaseLine], issues: Iterable[Issue], names: Sequence[str]
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
            serious = [issue for issue in mine if not issue.title.endswith(EXPERIMENTAL)]
            red_since = min([red_since, *_first_failed(serious, kind)], key=parse_release_tag)
    return PlatformLine(
        name=name,
        kind=kind,
        verdict=said[0][1].verdict if said else cells[0][1].verdict if cells else "unknown",
        building=next((tag for tag, cell in cells if cell.verdict == "building"), ""),
        passed=next((tag for tag, cell in cells if cell.verdict in _GREEN), ""),
        red_since=red_since,
        failed=failed,
        issues=tuple(Link(text=f"#{issue.number}", url=issue.url) for issue in mine),
    )


def _about(issue: Issue, kind: Kind, name: str, names: Sequence[str]) -> bool:
    of, slash, target = issue.key.partition("/")
    return bool(slash) and of == kind and platform_of(target, names) == name


def _first_failed(issues: Iterable[Issue], kind: Kind) -> list[str]:
    found = []
    for issue in issues:
        match = FIRST_FAILED.search(issue.body)
        parsed = parse_tag(match["tag"]) if match else None
        if parsed is not None and parsed.kind == kind:
            found.append(str(parsed))
    return found


# -- as data ----------------------------------------------------------------------------------------------------------


def _release_json(line: ReleaseLine) -> dict[str, object]:
    return {
        "tag": line.tag,
        "kind": line.kind,
        "state": line.state,
        "since": format_time(line.since) if line.since else None,
        "wheels": {"done": line.done, "total": line.total},
        "run": line.run,
        "page": line.page,
        "reason": line.reason,
        "platforms": {
            name: {
                "verdict": cell.verdict,
                "done": cell.done,
                "total": cell.total,
                "lacking": list(cell.lacking),
                "failed": _links_json(cell.failed),
            }
            for name, cell in line.platforms.items()
        },
    }


def _platform_json(line: PlatformLine) -> dict[str, object]:
    return {
        "name": line.name,
        "kind": line.kind,
        "verdict": line.verdict,
        "building": line.building,
        "passed": line.passed,
        "red_since": line.red_since,
        "failed": _links_json(line.failed),
        "issues": _links_json(line.issues),
    }


def _links_json(links: Iterable[Link]) -> list[dict[str, str]]:
    return [{"text": link.text, "url": link.url} for link in links]
