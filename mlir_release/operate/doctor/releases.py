"""The newest pin, snapshot and signed pointer on a forge of any kind; and upstream's checks."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mlir_release.ground.errors import ReleaseError
from mlir_release.operate.doctor.results import Finding, of_error, ok, problem, unknown, verdict
from mlir_release.release.forge.files import head_of, matrix_at, read_yanks
from mlir_release.release.forge.open import open_checks
from mlir_release.release.judging.signed import SignedBy, is_required
from mlir_release.release.judging.status import stale
from mlir_release.release.latest.latest_branch import show_pointer
from mlir_release.release.model.pin_commit import check_pin_commit
from mlir_release.release.model.release_tags import LINES_FOLDER, line_of_file
from mlir_release.release.model.targets import PROVEN_BY_TESTS
from mlir_release.release.pinning.green import names_seen, unseen
from mlir_release.release.pinning.state import matrix_of
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.release_assets import RemoteRelease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.forge.services import Checks
    from mlir_release.release.model.matrix import Matrix
    from mlir_release.release.model.release_settings import ReleaseConfig

#: How many of the newest upstream commits are looked at, unless every check has been seen before: two requests each.
LOOKED_AT = 20

#: What the release side needs; integrate needs 2.39 (docs/integrate.md).
OLDEST_GIT = (2, 34)


def newest_pin(forge: Forge, config: ReleaseConfig) -> Finding:
    """Whether the branch of snapshots' pins ends with a pin commit. One that does more is in no release."""
    head = forge.head(config.pins)
    facts = forge.pin_facts(head) if head is not None else None
    if facts is None:
        return ok(f"there is no branch {config.pins} yet: the first snapshot makes it", check="pins")
    pin = (facts.pin or b"").decode(errors="replace").strip()
    try:
        check_pin_commit(facts, pin, where=config.pins)
    except ReleaseError as error:
        remedy = f"find out who committed {facts.commit[:12]}; the next snapshot puts a pin commit on top of it"
        return problem(f"{error.what}: {error.why}", remedy, check="pins")
    shown = f"{config.pins} pins llvm-project {pin[:12]}, with the toolkit of {facts.branch} at {facts.base[:12]}"
    return ok(shown, check="pins")


def targets_of_newest(forge: Forge) -> Iterator[Finding]:
    """Whether snapshots are still made, and which targets the newest was not made for; its tag records the reasons."""
    try:
        every = Ledger(forge).newest(10)
        remedy = "docs/operating.md, 'No snapshot appeared', has the causes"
        for note in stale(forge.now(), every) if forge.services is not None else ():  # else there is no schedule
            yield problem(note, remedy, check="newest-snapshot")
        snapshots = [state for state in every if state.tag.kind == "snapshot" and state.state != "abandoned"]
        if not snapshots:
            return
        matrix = matrix_of(forge, snapshots[-1])
    except ReleaseError as error:
        yield of_error("excluded", error, level="unknown")
        return
    reasons: dict[str, list[str]] = {}
    for row in matrix.excluded:
        reasons.setdefault(row.reason, []).append(row.name)
    for reason, names in reasons.items():
        yield problem(
            f"{', '.join(names)}: no target of {snapshots[-1].name}: {reason}",
            "relax upstream's cap in [requires] of targets.toml, or remove that CPython from its runtime",
            check="excluded",
        )


def proven(forge: Forge, matrix: Matrix) -> Iterator[Finding]:
    """The platforms that nothing has proven until the newest published snapshot: their rows may become required.

    A row with other CPythons than the platform's own is an experiment, which proves nothing.
    """
    wanted: dict[str, dict[str, set[str]]] = {}  # platform -> configuration -> tests that must pass
    for wheel in matrix.wheels:
        runtime, own = wheel.runtime, wheel.python is None or wheel.python in wheel.runtime.pythons
        if own and not runtime.proven and runtime.platform != PROVEN_BY_TESTS:
            tests = wanted.setdefault(runtime.table, {}).setdefault(wheel.configuration.name, set())
            tests.update(test.name for test in wheel.tests if test.gates)
    tag = Ledger(forge).newest_published(read_yanks(forge, matrix.release.branch)) if wanted else ""
    if not tag or (release := forge.published(tag)) is None:
        return
    try:
        passed = {test.name for test in RemoteRelease(forge, release).manifest().tests}
    except ReleaseError as error:
        yield of_error("proven", error, level="unknown")
        return
    for name, tests_of in wanted.items():
        if shown := ", ".join(each for each, tests in tests_of.items() if tests and tests <= passed):
            yield ok(
                f'{tag} proves {name} (rows of {shown}): write proven = "{tag}" into [runtime.{name}] of '
                f"{matrix.file}, then required = true into these rows",
                check="proven",
            )


def lines(forge: Forge, branch: str) -> Iterator[Finding]:
    """Whether releases can be made by the matrix of each release line, and whether it names only releases that exist.

    Its CPythons are not compared with today's: that a line keeps them is what it is for.
    """
    check = "lines"
    commit = head_of(forge, branch)
    for path in forge.files(LINES_FOLDER, commit=commit):
        try:
            line = line_of_file(path)
            matrix = matrix_at(forge, commit, line)
            unseen = {each.proven for each in matrix.runtimes if each.proven and forge.published(each.proven) is None}
        except ReleaseError as error:
            yield of_error(check, error, about=path)
            continue
        shown = f"{path} makes {len(matrix.wheels)} wheels in each release of LLVM {line}"
        if unseen:
            shown = f"{path} names {', '.join(sorted(unseen))} as proven, and no such release is published"
        yield verdict(not unseen, shown, f"name a published release in {path}, or require none there", check=check)


def pointer(forge: Forge, config: ReleaseConfig) -> Iterator[Finding]:
    """Whether ``install latest`` believes the signed pointer to the newest snapshot.

    Nothing where releases are unsigned, or no snapshot is published that nobody has yanked.
    """
    if not is_required(forge, config.provenance):
        return
    try:
        if not Ledger(forge).newest_published(read_yanks(forge, config.branch)):
            return
        yield ok(show_pointer(forge, SignedBy(branch=config.branch)).text(), check="latest")
    except ReleaseError as error:
        yield of_error("latest", error)


def green_checks(config: ReleaseConfig, open: Callable[..., Checks] = open_checks) -> Iterator[Finding]:
    """Whether each check of ``[release.green]`` occurs on recent upstream commits: a misspelt one is never green."""
    green, check = config.green, "green-checks"
    if green is None:
        return
    try:
        checks = open(config.upstream, os.environ)
        seen = names_seen(checks, config.upstream_branch, green.checks, count=LOOKED_AT)
    except ReleaseError as error:
        yield of_error(check, error, about="[release.green]", level="unknown")
        return
    where = f"on the last {LOOKED_AT} commits of {config.upstream_branch} upstream"
    if not seen:
        yield unknown(f"there is no check at all {where}", "run this again when checks have run", check=check)
    elif never := unseen(green.checks, seen):
        remedy = "correct [release.green] in targets.toml: policy green waits for these checks for ever"
        yield problem(f"{', '.join(never)} did not occur {where}", remedy, check=check)
    else:
        yield ok(f"{', '.join(green.checks)}: seen {where}", check=check)


def check_git(shown: str) -> Finding:
    """Whether git is new enough; ``shown``: for example ``git version 2.47.1.windows.2``."""
    match = re.search(r"(\d+)\.(\d+)\S*", shown)
    known = match is not None and (int(match[1]), int(match[2])) >= OLDEST_GIT
    oldest = ".".join(map(str, OLDEST_GIT))
    text = f"{shown.strip()}; {oldest} or newer is needed"
    return verdict(known, text, f"install git {oldest} or newer", check="git")
