"""A command whose exit code is an answer: run with a limit of time, with all of its output in a log."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.ground.errors import ExitCode, MachineError
from mlir_release.ground.programs.process import exit_code, running
from mlir_release.ground.storage.files import mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


COMMIT_VARIABLE = "MLIR_RELEASE_UPSTREAM_COMMIT"


#: Bytes that must be free where a command works, logs and has its temporary files, if its failure is to count.
_ROOM = 64 << 10

#: What ends programs without their fault: a person, a runner's time limit, the system where memory is short.
_KILLERS = ("SIGINT", "SIGKILL", "SIGTERM")

#: How GCC's and Clang's drivers report that the compiler proper was killed.
_KILLED_COMPILER = re.compile(
    rb"^.*(?:Killed signal terminated program \S+|error: unable to execute command: Killed|"
    rb"internal compiler error: Killed \(program \S+\)).*$",
    re.MULTILINE,
)

#: Seconds between two looks whether an answer is still needed.
_LOOK_EVERY = 0.2


@dataclass(frozen=True)
class Trial:
    """How a command ended.

    :param code: its exit code; below 0: a signal's; None: it took too long
    :param killed: what was killed, so that the failure says nothing; empty: nothing was
    :param why: what a compiler's driver says of that, or a guess
    """

    code: int | None
    killed: str = ""
    why: str = ""


class TrialCancelled(Exception):
    """The command was stopped, because no answer is needed any more. No error: nothing is wrong with it."""


@dataclass(frozen=True)
class TriedCommand:
    """A command, what errors call it ("the smoke command"), and what helps if it can't be run."""

    words: Sequence[str]
    what: str
    remedy: str


def run_trial(
    command: TriedCommand,
    *,
    log: Path,
    environment: Mapping[str, str],
    cwd: Path,
    lock: int,
    timeout: float | None = None,
    needed: Callable[[], bool] = lambda: True,
) -> Trial:
    """Run a command to its end, or for ``timeout`` seconds.

    :param log: receives the output, bytes as they come; what was there is replaced
    :param lock: descriptor of a locked file, which the command inherits: if this process is killed, the command keeps
        the lock until it ends
    :param needed: asked all the time; once it says no, all processes of the command are ended
    :raises TrialCancelled: then
    :raises MachineError: ``tool-missing``: it can't be run at all; ``disk-full``: it failed, and the disk is full
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    inherited = (lock,) if sys.platform != "win32" else ()
    with log.open("wb") as output, ExitStack() as stack:
        trial = running(command.words, environment=environment, cwd=cwd, output=output, pass_fds=inherited)
        try:
            process = stack.enter_context(trial)
        except OSError as error:
            raise _not_run(command, str(error)) from error
        code, deadline = None, time.monotonic() + timeout if timeout is not None else float("inf")
        while code is None:
            if not needed():
                raise TrialCancelled
            left = deadline - time.monotonic()
            code = exit_code(process, max(0.0, min(_LOOK_EVERY, left)))
            if code is None and left <= _LOOK_EVERY:
                output.write(f"\nmlir-release: no result after {timeout:g} seconds; stopped\n".encode())
                break
    if code in (126, 127):
        with mapped(log) as content:
            said = content[-500:].decode(errors="replace").strip()
        raise _not_run(command, said)
    if code in (0, ExitCode.UNTESTABLE):
        return Trial(code)
    # A shell reports a program that a signal ended as 128 and the signal's number.
    numbers = {name: getattr(signal, name) for name in _KILLERS if hasattr(signal, name)}
    by = next((name for name, number in numbers.items() if code in (-number, 128 + number)), "")
    if by:
        return Trial(
            code, f"{command.what} was ended by {by}", "the machine may be out of memory, or a person ended it"
        )
    folders = (cwd, log.parent, Path(tempfile.gettempdir()))
    full = next((folder for folder in folders if shutil.disk_usage(folder).free < _ROOM), None)
    with mapped(log) as content:
        if code is not None and (found := _KILLED_COMPILER.search(content)) is not None:
            return Trial(code, f"a compiler was killed in {command.what}", found[0].decode(errors="replace").strip())
        if full is None and content.find(os.strerror(errno.ENOSPC).encode()) < 0:
            return Trial(code)
    raise MachineError(
        "disk-full",
        f"{command.what} failed on a full disk: no verdict",
        where=str(full or cwd),
        why=f"see {log}" if full is None else f"less than {_ROOM >> 10} KiB are free there",
    )


def _not_run(command: TriedCommand, why: str) -> MachineError:
    what, where = f"{command.what} can't be run: {command.words[0]!r}", " ".join(command.words)
    return MachineError("tool-missing", what, where=where, why=why, remedy=command.remedy)
