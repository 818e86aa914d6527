"""Run the smoke test at one upstream commit: in a slot of its own, so that several run side by side.

Slots (folders of work trees) are reused by later probes, so that builds in ignored folders are incremental.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import ExitCode, MachineError
from mlir_release.git import locks
from mlir_release.git.shared import STATE
from mlir_release.git.worktrees import place_slot
from mlir_release.host.cache import cache_directory
from mlir_release.host.process import exit_code, running
from mlir_release.host.surroundings import foreign_environment
from mlir_release.integrate.strategy import Verdict
from mlir_release.integrate.submodules import populate
from mlir_release.model.digests import sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mlir_release.integrate.project import Project

#: Bytes that must be free where a test builds, logs and has its temporary files, if its failure is to count.
_ROOM = 64 << 10

#: Seconds between two looks whether a test is still needed.
_LOOK_EVERY = 0.2

#: What ends programs without their fault: a person, a runner's time limit, the system where memory is short.
_KILLERS = (signal.SIGINT, signal.SIGKILL, signal.SIGTERM)

#: How GCC's and Clang's drivers report that the compiler proper was killed.
_KILLED_COMPILER = re.compile(
    rb"^.*(?:Killed signal terminated program \S+|error: unable to execute command: Killed|"
    rb"internal compiler error: Killed \(program \S+\)).*$",
    re.MULTILINE,
)

#: A smoke command finds the upstream's sources and its pristine commit here.
SOURCE_VARIABLE = "MLIR_RELEASE_UPSTREAM_SOURCE"
COMMIT_VARIABLE = "MLIR_RELEASE_UPSTREAM_COMMIT"

#: By exit code; every other one is bad, and so is a timeout (None).
_VERDICTS: dict[int | None, Verdict] = {0: Verdict.GOOD, ExitCode.UNTESTABLE: Verdict.UNTESTABLE}


class SmokeCancelled(Exception):
    """The test was stopped, because no answer is needed any more. No error: nothing is wrong with it."""


@dataclass(frozen=True)
class ProbeSlot:
    """A prepared work tree of the downstream with the upstream in it.

    Programs in it inherit ``lock``. If this process is killed, they keep the slot until they end, so that no other
    process builds in there.
    """

    outer: Path
    sources: Path
    lock: int


@contextmanager
def prepared(project: Project, outer_commit: str, llvm: str) -> Iterator[ProbeSlot]:
    """A slot with the downstream at ``outer_commit`` and its upstream at ``llvm`` (patches included), held for us."""
    with ExitStack() as stack:
        folder, lock = _free_slot(project, stack)
        if project.pin(outer_commit) != llvm:  # a commit on no branch
            message = f"Try {project.config.upstream.title} at {llvm}\n"
            outer_commit = project.pin_commit(outer_commit, llvm, message)
        yield place(slot_in(project, folder, lock), project, outer_commit, llvm)


def slots(project: Project) -> Path:
    """The folder that a downstream's slots are in."""
    name = sha256_of(os.fsencode(project.outer.common / STATE))[:16]
    return cache_directory() / "integrate" / name


def slot_in(project: Project, folder: Path, lock: int) -> ProbeSlot:
    """Where a slot's work trees are in ``folder``."""
    outer = folder / project.outer.directory.name
    inside = project.config.downstream.submodule or project.config.downstream.checkout
    return ProbeSlot(outer, outer / inside if inside else folder / "llvm-project", lock)


def place(slot: ProbeSlot, project: Project, outer_commit: str, llvm: str) -> ProbeSlot:
    """Check out both work trees of ``slot``, whatever was there."""
    place_slot(project.outer, slot.outer, outer_commit, lock=slot.lock)
    place_slot(project.upstream, slot.sources, llvm, lock=slot.lock)
    populate(project, slot.outer, outer_commit, slot.lock)
    return slot


def _free_slot(project: Project, stack: ExitStack) -> tuple[Path, int]:
    root = slots(project)
    for number in range(1024):
        folder = root / f"slot-{number}"
        lock = stack.enter_context(locks.exclusive(folder / "lock", wait=False))
        if lock is not None:
            return folder, lock
    raise MachineError("machine-unsuitable", "1024 smoke tests run already", where=str(root), remedy="wait for them")


def smoke_test(
    project: Project,
    slot: ProbeSlot,
    upstream: str,
    log: Path,
    *,
    command: Sequence[str] = (),
    needed: Callable[[], bool] = lambda: True,
) -> tuple[Verdict, tuple[int | None, ...], float]:
    """Run the smoke command (or another) in a slot until it passes or has failed as often as is configured.

    Exit code 0 is good, 125 untestable, a timeout and everything else bad, unless the machine was to blame.
    Returns the verdict, the exit code of each attempt (None for a timeout), and the seconds that it took.

    :param log: file that receives the output of the last attempt, bytes as they come
    :param needed: asked all the time; once it says no, all processes of the test are ended
    :raises SmokeCancelled: then
    :raises MachineError: if the command can't be run at all, or failed on a full disk, or because it or a compiler was
        killed: that is no verdict on any commit
    """
    config = project.config
    environment = foreign_environment(named=config.smoke.environment)
    environment |= {SOURCE_VARIABLE: str(slot.sources), COMMIT_VARIABLE: upstream}
    exits: list[int | None] = []
    verdict = Verdict.BAD
    start = time.monotonic()
    while verdict is Verdict.BAD and len(exits) < config.smoke.attempts:
        code = _run(command or config.smoke.argv, slot, environment, config.smoke.timeout, log, needed)
        if code not in (0, ExitCode.UNTESTABLE):
            _refuse_killed(command or config.smoke.argv, code, log)
            _refuse_full_disk(slot, log)
        exits.append(code)
        verdict = _VERDICTS.get(code, Verdict.BAD)
    return verdict, tuple(exits), time.monotonic() - start


def _run(
    command: Sequence[str],
    slot: ProbeSlot,
    environment: Mapping[str, str],
    timeout: float,
    log: Path,
    needed: Callable[[], bool],
) -> int | None:
    """Exit code; None after ``timeout`` seconds."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output, ExitStack() as stack:
        test = running(command, environment=environment, cwd=slot.outer, output=output, pass_fds=(slot.lock,))
        try:
            process = stack.enter_context(test)
        except OSError as error:
            raise _no_command(command, str(error)) from error
        code, deadline = None, time.monotonic() + timeout
        while code is None:
            if not needed():
                raise SmokeCancelled
            left = deadline - time.monotonic()
            code = exit_code(process, min(_LOOK_EVERY, left))
            if code is None and left <= _LOOK_EVERY:
                output.write(f"\nmlir-release: no result after {timeout:g} seconds; stopped\n".encode())
                return None
    if code in (126, 127):
        raise _no_command(command, log.read_bytes()[-500:].decode(errors="replace").strip())
    return code


def _refuse_killed(command: Sequence[str], code: int | None, log: Path) -> None:
    """A failure because something was killed is no verdict on a commit. :raises MachineError:

    :param code: a shell reports a program that a signal ended as 128 and the signal's number; None: a timeout
    """
    by = next((number.name for number in _KILLERS if code in (-number, 128 + number)), "")
    compiler = None if by or code is None else _KILLED_COMPILER.search(log.read_bytes())
    if compiler is not None:
        what, why = "a compiler was killed in the smoke test", compiler[0].decode(errors="replace").strip()
    elif by:
        what, why = f"the smoke test was ended by {by}", "the machine may be out of memory, or a person ended it"
    else:
        return
    raise MachineError(
        "interrupted",
        f"{what}: no verdict",
        where=" ".join(command),
        why=why,
        remedy="run again, with fewer compilers side by side if memory is short; what was recorded before is kept",
    )


def _refuse_full_disk(slot: ProbeSlot, log: Path) -> None:
    """A failure on a full disk is no verdict on a commit. :raises MachineError:"""
    folders = (slot.outer, log.parent, Path(tempfile.gettempdir()))
    full = next((folder for folder in folders if shutil.disk_usage(folder).free < _ROOM), None)
    if full is None and os.strerror(errno.ENOSPC).encode() not in log.read_bytes():
        return
    raise MachineError(
        "disk-full",
        "the smoke test failed on a full disk: no verdict",
        where=str(full or slot.outer),
        why=f"see {log}" if full is None else f"less than {_ROOM >> 10} KiB are free there",
        remedy="make room and run again; what was recorded before is kept",
    )


def _no_command(command: Sequence[str], why: str) -> MachineError:
    return MachineError(
        "tool-missing",
        f"the smoke command can't be run: {command[0]!r}",
        where=" ".join(command),
        why=why,
        remedy="correct smoke.command in integrate.toml (it runs in the top folder of the downstream); no verdict was "
        "recorded",
    )
