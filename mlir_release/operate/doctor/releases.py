"""The newest pin, snapshot and signed pointer on a forge of any kind; upstream's checks; what the matrix names."""

from __future__ import annotations

import os
import re
from datetime import date, timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from mlir_release.ground.documents.decode import parse_toml
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.projects import Room, find_project
from mlir_release.ground.plugins import PROJECTS, plugins
from mlir_release.ground.python.cpython import CPython
from mlir_release.operate.doctor.results import Answer, of_error, ok, problem, unknown, verdict
from mlir_release.release.forge.files import head_of, matrix_at
from mlir_release.release.forge.open import open_checks
from mlir_release.release.judging.signed import SignedBy, is_required
from mlir_release.release.judging.status import stale
from mlir_release.release.latest.latest_branch import show_pointer
from mlir_release.release.model.pin_commit import check_pin_commit
from mlir_release.release.model.release_tags import LINES_FOLDER, line_of_file
from mlir_release.release.model.targets import PROVEN_BY_TESTS
from mlir_release.release.pinning.green import names_seen, unseen
from mlir_release.release.pinning.state import matrix_of
from mlir_release.release.transaction.release_assets import RemoteRelease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.operate.doctor.files import Examined

#: How many of the newest upstream commits are looked at, unless every check has been seen before: two requests each.
LOOKED_AT = 20

#: What the release side needs; integrate needs 2.39 (docs/integrate.md).
OLDEST_GIT = (2, 34)


def git(known: Examined) -> Iterator[Answer]:
    """Whether git is new enough."""
    shown = Git(Path()).text("--version")  # for example git version 2.47.1.windows.2
    match = re.search(r"(\d+)\.(\d+)\S*", shown)
    well = match is not None and (int(match[1]), int(match[2])) >= OLDEST_GIT
    oldest = ".".join(map(str, OLDEST_GIT))
    yield verdict(well, f"{shown.strip()}; {oldest} or newer is needed", f"install git {oldest} or newer")


def pins(known: Examined) -> Iterator[Answer]:
    """Whether the branch of snapshots' pins ends with a pin commit. One that does more is in no release."""
    branch = known.matrix.release.pins
    head = known.place.head(branch)
    facts = known.place.pin_facts(head) if head is not None else None
    if facts is None:
        yield ok(f"there is no branch {branch} yet: the first snapshot makes it")
        return
    pin = (facts.pin or b"").decode(errors="replace").strip()
    try:
        check_pin_commit(facts, pin, where=branch)
    except ReleaseError as error:
        remedy = f"find out who committed {facts.commit[:12]}; the next snapshot puts a pin commit on top of it"
        yield problem(f"{error.what}: {error.why}", remedy)
        return
    yield ok(f"{branch} pins llvm-project {pin[:12]}, with the toolkit of {facts.branch} at {facts.base[:12]}")


def newest(known: Examined) -> Iterator[Answer]:
    """Whether snapshots are still made."""
    for note in stale(known.place.now(), known.newest):
        yield problem(note, "docs/operating.md, 'No snapshot appeared', has the causes")


def excluded(known: Examined) -> Iterator[Answer]:
    """The targets that the newest snapshot was not made for; its tag records the reasons."""
    snapshots = [state for state in known.newest if state.tag.kind == "snapshot" and state.state != "abandoned"]
    reasons: dict[str, list[str]] = {}
    for state in snapshots[-1:]:
        for row in matrix_of(known.place, state).excluded:
            reasons.setdefault(row.reason, []).append(row.name)
    for reason, names in reasons.items():
        yield problem(
            f"{', '.join(names)}: no target of {snapshots[-1].name}: {reason}",
            "relax upstream's cap in [requires] of targets.toml, or remove that CPython from its runtime",
        )


def proven(known: Examined) -> Iterator[Answer]:
    """The platforms that nothing has proven until the newest published snapshot: their rows may become required.

    A row with other CPythons than the platform's own is an experiment, which proves nothing.
    """
    wanted: dict[str, dict[str, set[str]]] = {}  # platform -> configuration -> tests that must pass
    for wheel in known.matrix.wheels:
        runtime, own = wheel.runtime, wheel.python is None or wheel.python in wheel.runtime.pythons
        if own and not runtime.proven and runtime.platform != PROVEN_BY_TESTS:
            tests = wanted.setdefault(runtime.table, {}).setdefault(wheel.configuration.name, set())
            tests.update(test.name for test in wheel.tests if test.gates)
    tag = known.newest_published if wanted else ""
    if not tag or (release := known.place.published(tag)) is None:
        return
    passed = {test.name for test in RemoteRelease(known.place, release).manifest().tests}
    for name, tests_of in wanted.items():
        if shown := ", ".join(each for each, tests in tests_of.items() if tests and tests <= passed):
            yield ok(
                f'{tag} proves {name} (rows of {shown}): write proven = "{tag}" into [runtime.{name}] of '
                f"{known.matrix.file}, then required = true into these rows"
            )


def lines(known: Examined) -> Iterator[Answer]:
    """Whether releases can be made by the matrix of each release line, and whether it names only releases that exist.

    Its CPythons are not compared with today's: that a line keeps them is what it is for.
    """
    forge = known.place
    commit = head_of(forge, known.seen.branch)
    for path in forge.files(LINES_FOLDER, commit=commit):
        try:
            line = line_of_file(path)
            matrix = matrix_at(forge, commit, line)
            unseen = {each.proven for each in matrix.runtimes if each.proven and forge.published(each.proven) is None}
        except ReleaseError as error:
            yield of_error("", error, about=path)
            continue
        shown = f"{path} makes {len(matrix.wheels)} wheels in each release of LLVM {line}"
        if unseen:
            shown = f"{path} names {', '.join(sorted(unseen))} as proven, and no such release is published"
        yield verdict(not unseen, shown, f"name a published release in {path}, or require none there")


def pointer(known: Examined) -> Iterator[Answer]:
    """Whether ``install latest`` believes the signed pointer to the newest snapshot.

    Nothing where releases are unsigned, or no snapshot is published that nobody has yanked.
    """
    config = known.matrix.release
    if is_required(known.place, config.provenance) and known.newest_published:
        yield ok(show_pointer(known.place, SignedBy(branch=config.branch)).text())


def green_checks(known: Examined) -> Iterator[Answer]:
    """Whether each check of ``[release.green]`` occurs on recent upstream commits: a misspelt one is never green."""
    config, green = known.matrix.release, known.matrix.release.green
    if green is None:
        return
    seen = names_seen(open_checks(config.upstream, os.environ), config.upstream_branch, green.checks, count=LOOKED_AT)
    where = f"on the last {LOOKED_AT} commits of {config.upstream_branch} upstream"
    if not seen:
        yield unknown(f"there is no check at all {where}", "run this again when checks have run")
    elif never := unseen(green.checks, seen):
        remedy = "correct [release.green] in targets.toml: policy green waits for these checks for ever"
        yield problem(f"{', '.join(never)} did not occur {where}", remedy)
    else:
        yield ok(f"{', '.join(green.checks)}: seen {where}")


#: How long a new CPython may be missing: NumPy and the like need some weeks for their wheels.
_GRACE = timedelta(days=90)

#: A new CPython comes every year (PEP 602).
_CADENCE = timedelta(days=366)


class Life(msgspec.Struct, frozen=True, rename="kebab"):
    """From the first release of a CPython to the end of its support."""

    pep: int  #: its release schedule
    first_release: date
    end_of_life: date  #: the last day with support


class End(msgspec.Struct, frozen=True):
    """When the image of a runner goes."""

    ends: date
    source: str


class Dates(msgspec.Struct, frozen=True):
    """``cpython.toml``."""

    python: dict[str, Life]
    runner: dict[str, End]

    def lives(self) -> dict[CPython, Life]:
        """The CPythons, the oldest first."""
        return dict(sorted((CPython.parse(version), life) for version, life in self.python.items()))


def read_dates() -> Dates:
    """What comes with the toolkit."""
    text = resources.files(__package__).joinpath("cpython.toml").read_text(encoding="utf-8")
    return msgspec.convert(parse_toml(text), Dates)


def runners(known: Examined) -> Iterator[Answer]:
    """Whether GitHub has taken away the image of a runner, or will within :data:`_GRACE`."""
    ends = read_dates().runner
    labels = sorted({runtime.runner for runtime in known.matrix.runtimes})
    going = [label for label in labels if label in ends and ends[label].ends - _GRACE <= known.today]
    for label in going:
        end = ends[label]
        took = "took" if end.ends < known.today else "takes"
        text = f"GitHub {took} the runner {label} away on {end.ends} ({end.source})"
        yield problem(text, "name a newer runner in targets.toml and in the workflows")
    if not going:
        yield ok("GitHub takes none of the matrix's runners away within 90 days")


def pythons(known: Examined) -> Iterator[Answer]:
    """Whether a CPython of the matrix has reached the end of its life, and whether a new one is missing."""
    lives, well, matrix, today = read_dates().lives(), True, known.matrix, known.today
    wheels = (*matrix.wheels, *(row.wheel for row in matrix.excluded))
    used = sorted({python.release for wheel in wheels for python in wheel.pythons})
    for python, life in lives.items():
        if python.release in used and life.end_of_life < today:
            well = False
            yield problem(
                f"CPython {python.version} reached the end of its life on {life.end_of_life} (PEP {life.pep})",
                f"remove {python} from the pythons in targets.toml",
            )
        is_newer = python.release > max(used, default=(0, 0))
        if is_newer and life.first_release + _GRACE <= today <= life.end_of_life:
            well = False
            yield problem(
                f"CPython {python.version} is out since {life.first_release} (PEP {life.pep}), and no target is for it",
                f"add {python} to the pythons in targets.toml, at first in a row with required = false",
            )
    last = max(lives)
    beyond = ", ".join(f"{major}.{minor}" for major, minor in used if (major, minor) > last.release)
    if beyond or today > lives[last].first_release + _CADENCE:
        yield unknown(
            f"this version of mlir-release knows no dates of CPython {beyond or f'after {last.version}'}",
            "update mlir-release, and compare targets.toml with https://devguide.python.org/versions/",
        )
    elif well:
        yield ok(f"the matrix's CPythons are today's: {', '.join(f'{major}.{minor}' for major, minor in used)}")


def projects(known: Examined) -> Iterator[Answer]:
    """Whether the modules of each project can be imported; with its distributions.

    Its smoke test and its list of known failures are there, or the matrix could not have been read.
    """
    names: dict[str, dict[str, bool]] = {}
    for wheel in (*known.matrix.wheels, *(row.wheel for row in known.matrix.excluded)):
        row = names.setdefault(wheel.configuration.project, {})
        row[wheel.distribution] = row.get(wheel.distribution, False) or wheel.required
    for name, distributions in names.items():
        try:
            for room in get_args(Room):
                find_project(name).room(room)
        except ReleaseError as error:
            yield of_error("", error)
            continue
        owner = plugins(PROJECTS)[name][0]
        text = f"{name} makes {', '.join(distributions)}"
        if not any(distributions.values()):
            text += "; no release waits for it"
        if not owner.is_ours:
            text += f"; it comes from {owner.distribution}, which jobs have if requirements/toolkit.txt names it"
        yield ok(text)
