"""A command whose exit code is an answer: run with a limit of time, with all of its output in a log."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import MachineError
from mlir_release.host.process import exit_code, running

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Bytes that must be free where a command works, logs and has its temporary files, if its failure is to count.
_ROOM = 64 << 10

#: Seconds between two looks whether an answer is still needed.
_LOOK_EVERY = 0.2


class TrialCancelled(Exception):
    """The command was stopped, because no answer is needed any more. No error: nothing is wrong with it."""


def run_trial(
    command: Sequence[str],
    *,
    what: str,
    remedy: str,
    log: Path,
    environment: Mapping[str, str],
    cwd: Path,
    lock: int,
    timeout: float | None = None,
    needed: Callable[[], bool] = lambda: True,
) -> int | None:
    """Run a command to its end, and return its exit code (below 0: a signal's); None after ``timeout`` seconds.

    :param what: it is, for errors: "the smoke command"
    :param remedy: for a command that can't be run
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
        trial = running(command, environment=environment, cwd=cwd, output=output, pass_fds=inherited)
        try:
            process = stack.enter_context(trial)
        except OSError as error:
            raise _not_run(command, what, str(error), remedy) from error
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
        raise _not_run(command, what, log.read_bytes()[-500:].decode(errors="replace").strip(), remedy)
    if code != 0:
        _refuse_full_disk(what, cwd, log)
    return code


def _refuse_full_disk(what: str, cwd: Path, log: Path) -> None:
    """A failure on a full disk is no answer. :raises MachineError:"""
    folders = (cwd, log.parent, Path(tempfile.gettempdir()))
    full = next((folder for folder in folders if shutil.disk_usage(folder).free < _ROOM), None)
    if full is None and os.strerror(errno.ENOSPC).encode() not in log.read_bytes():
        return
    raise MachineError(
        "disk-full",
        f"{what} failed on a full disk: no verdict",
        where=str(full or cwd),
        why=f"see {log}" if full is None else f"less than {_ROOM >> 10} KiB are free there",
        remedy="make room and run again; what was recorded before is kept",
    )


def _not_run(command: Sequence[str], what: str, why: str, remedy: str) -> MachineError:
    return MachineError(
        "tool-missing", f"{what} can't be run: {command[0]!r}", where=" ".join(command), why=why, remedy=remedy
    )
