"""Run the smoke test at one upstream commit: in a slot of its own, so that several run side by side.

Slots (folders of work trees) are reused by later probes, so that builds in ignored folders are incremental.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import structs

from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ExitCode, MachineError
from mlir_release.ground.git import locks
from mlir_release.ground.git.shared import STATE
from mlir_release.ground.git.worktrees import head_of, place_slot
from mlir_release.ground.programs.surroundings import foreign_environment
from mlir_release.ground.programs.trial import COMMIT_VARIABLE, TrialCancelled, TriedCommand, run_trial
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.storage.files import write_atomically
from mlir_release.ground.strategy import Verdict
from mlir_release.integrate.patches.files import applied
from mlir_release.integrate.pins.submodules import populate
from mlir_release.integrate.report import findings_in
from mlir_release.integrate.walk.tidy import OWNER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from mlir_release.integrate.pins.generated import Generated
    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.state import Record

#: A smoke command finds the upstream's sources and its pristine commit here.
SOURCE_VARIABLE = "MLIR_RELEASE_UPSTREAM_SOURCE"

#: And here, in place of the sources, the version of the release, where the pin is one.
VERSION_VARIABLE = "MLIR_RELEASE_UPSTREAM_VERSION"

#: Seconds between two looks whether another process has come to a verdict.
_LOOK_EVERY = 0.2

#: What to do about a command that can't be run: the configured one, or one from a command line.
_CORRECT = (
    "correct smoke.command in integrate.toml (it runs in the top folder of the downstream); no verdict was recorded"
)
_CORRECT_GIVEN = (
    "correct the command after -- (it runs in the top folder of the downstream at each commit, without a shell); where "
    "it can't run at some commits, let it exit with 125 there: -- sh -c '… || exit 125'. No verdict was recorded"
)

#: By exit code; every other one is bad, and so is a timeout (None).
_VERDICTS: dict[int | None, Verdict] = {0: Verdict.GOOD, ExitCode.UNTESTABLE: Verdict.UNTESTABLE}


@dataclass(frozen=True)
class ProbeSlot:
    """A prepared work tree of the downstream with the upstream in it.

    Programs in it inherit ``lock``. If this process is killed, they keep the slot until they end, so that no other
    process builds in there.
    """

    outer: Path
    sources: Path
    lock: int
    generated: Generated = field(default_factory=dict)  #: what the refresh command made for what is there


def always() -> bool:
    """What is ``needed`` where nothing makes a test useless."""
    return True


@contextmanager
def alone(log: Path, upstream: str, needed: Callable[[], bool]) -> Iterator[None]:
    """Hold the ``log`` of a question, once no other process or thread here tests the same.

    :raises TrialCancelled: once ``needed`` says that the answer is not
    """
    said = False
    while True:
        with locks.exclusive(log, wait=False) as held:
            if held is not None:
                yield
                return
        if not said:
            console.say(f"    waiting for the verdict on {upstream[:12]}, which is being tested already")
            said = True
        if not needed():
            raise TrialCancelled
        time.sleep(_LOOK_EVERY)


def slots(project: Integration) -> Path:
    """The folder that a downstream's slots are in."""
    name = sha256_of(os.fsencode(project.outer.common / STATE))[:16]
    return cache_directory() / "integrate" / name


def slot_in(project: Integration, folder: Path, lock: int) -> ProbeSlot:
    """Where a slot's work trees are in ``folder``: the downstream's, and the upstream's."""
    outer = folder / project.outer.directory.name
    return ProbeSlot(outer, sources_in(project, outer), lock)


def sources_in(project: Integration, outer: Path) -> Path:
    """Where the upstream's sources are for the downstream's work tree in ``outer``."""
    inside = project.upstream.config.submodule or project.upstream.config.checkout
    return outer / inside if inside else outer.parent / (project.slug or "llvm-project")


def variables(project: Integration, slot: ProbeSlot, upstream: str) -> dict[str, str]:
    """What a smoke command finds in its environment about the sources, with the upstream at ``upstream``.

    Of several upstreams each has variables with its name at their end; those without are the first one's, whichever is
    walked: one state of all sources has one environment.
    """
    found: dict[str, str] = {}
    there = head_of(slot.outer)
    for each in project.everyone:
        commit = upstream
        if each is not project:
            commit = each.upstream.base_of(each.pin(there), each.upstream.head()) if there else ""
        values = {COMMIT_VARIABLE: commit}
        if not each.upstream.config.releases:
            values[SOURCE_VARIABLE] = str(sources_in(each, slot.outer))
        elif commit:
            values[VERSION_VARIABLE] = each.version(there or "HEAD", commit)
        for suffix in ("", f"_{re.sub('[^A-Z0-9]', '_', each.slug.upper())}") if project.slug else ("",):
            for name, value in values.items():
                found.setdefault(f"{name}{suffix}", value)
    return found


def place(slot: ProbeSlot, project: Integration, outer_commit: str, llvm: str) -> ProbeSlot:
    """Check out the work trees of ``slot``, whatever was there. A pin that is a release needs no sources."""
    place_slot(project.outer, slot.outer, outer_commit, lock=slot.lock)
    for each in project.everyone:
        if each.upstream.config.releases:
            continue
        pin = llvm if each is project else each.pin(outer_commit)
        if each is not project:
            each.upstream.require(pin)
        pin = applied(each, outer_commit, pin)
        place_slot(each.upstream, sources_in(each, slot.outer), pin, lock=slot.lock)
    populate(project, slot.outer, outer_commit, slot.lock)
    return slot


def free_slot(project: Integration, stack: ExitStack) -> tuple[Path, int]:
    """A slot that no other process has, and its lock, for as long as ``stack`` lasts. :raises MachineError:"""
    root = slots(project)
    for number in range(1024):
        folder = root / f"slot-{number}"
        lock = stack.enter_context(locks.exclusive(folder / "lock", wait=False))
        if lock is not None:
            os.utime(folder / "lock")  # the time of its last use
            if not (root / OWNER).exists():
                write_atomically(root / OWNER, os.fsencode(project.outer.common))
            return folder, lock
    raise MachineError("machine-unsuitable", "1024 smoke tests run already", where=str(root), remedy="wait for them")


def smoke_test(
    project: Integration,
    slot: ProbeSlot,
    question: Record,
    log: Path,
    *,
    command: Sequence[str] = (),
    attempts: int | None = None,
    needed: Callable[[], bool] = always,
) -> Record:
    """Run the smoke command (or another) in a slot until it passes or has failed ``attempts`` times.

    Exit code 0 is good, 125 untestable, a timeout and everything else bad, unless the machine was to blame.
    Returns ``question`` with this answer, and these attempts and seconds beside those that it had.

    :param log: file that receives the output of the last attempt, bytes as they come
    :param attempts: default: as configured
    :param needed: asked all the time; once it says no, all processes of the test are ended
    :raises TrialCancelled: then
    :raises MachineError: if the command can't be run at all, or failed on a full disk, or because it or a compiler was
        killed: that is no verdict on any commit
    """
    smoke, start = project.config.smoke, time.monotonic()
    environment = foreign_environment(named=smoke.environment) | variables(project, slot, question.upstream)
    exits: list[int | None] = []
    verdict = Verdict.BAD
    argv = command or smoke.argv
    while verdict is Verdict.BAD and len(exits) < (attempts or smoke.attempts):
        trial = run_trial(
            TriedCommand(argv, "the command on the command line", _CORRECT_GIVEN)
            if command
            else TriedCommand(argv, "the smoke command", _CORRECT),
            log=log,
            environment=environment,
            cwd=slot.outer,
            lock=slot.lock,
            timeout=smoke.timeout,
            needed=needed,
        )
        if trial.killed:
            raise MachineError(
                "interrupted",
                f"{trial.killed}: no verdict",
                where=" ".join(argv),
                why=trial.why,
                remedy="run again, with fewer compilers side by side if memory is short; what was recorded before is "
                "kept",
            )
        exits.append(trial.code)
        verdict = _VERDICTS.get(trial.code, Verdict.BAD)
    return structs.replace(
        question,
        verdict=verdict,
        exits=(*question.exits, *exits),
        seconds=round(question.seconds + time.monotonic() - start, 1),
        findings=tuple(findings_in(log)) if verdict is Verdict.BAD else (),
    )
