"""Several targets in one job, one after another: what becomes of one is nothing to the next.

Each is carried out by a process of its own, within a limit of its own. So one that hangs, is killed, or takes the
machine's memory ends alone. What is done is handed over at once: a job that ends early, however, loses one target.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import click
import msgspec

from mlir_release.ground.console import console, format_seconds
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ExitCode, MachineError
from mlir_release.ground.foreign import markdown
from mlir_release.ground.job_names import heading
from mlir_release.ground.programs.process import exit_code, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from mlir_release.builder.model.orders import TestOrder, WheelOrder

#: The toolkit's own command line, never with modules of the folder that it is called in.
TOOLKIT: Sequence[str] = (sys.executable, "-P", "-m", "mlir_release")

#: Seconds for which a target that reached its limit may still clean up.
LAST_WORDS = 60.0

#: How a target ends that has said itself whatever there is to say.
_ENDS = frozenset(map(int, ExitCode))

_REMEDY = (
    "mlir-release release dispatch release.yml --ref TAG makes what the draft lacks; if it ends so again, publish "
    "without it: mlir-release release waive TAG TARGET --reason …"
)


def each(
    command: Sequence[object],
    orders: Mapping[str, WheelOrder | TestOrder],
    files_of: Callable[[str], Iterable[Path]],
    *,
    budget: float | None,
) -> None:
    """Carry out each order, hand the files over that came of them, and fail at the end if one failed.

    attest.yml signs no other file for these targets. An output is one line, so that nothing else gets into it.

    :param command: words of a command that carries out the one order of its option ``--orders``
    :param orders: by the target's name
    :param files_of: the files that there are of a target; those of earlier runs are removed
    :param budget: minutes for all of them; a target that it does not last for is not begun
    """
    made: list[Path] = []
    failed: list[str] = []
    deadline = time.monotonic() + 60 * budget if budget is not None else float("inf")
    for name, order in orders.items():
        console.say(heading(name))
        _remove(files_of(name))
        limit = min(60.0 * order.minutes, deadline - time.monotonic())
        code = _carry_out([*command, "--orders", msgspec.json.encode([order]).decode()], limit)
        if code != ExitCode.OK:
            failed.append(name)
        if code not in _ENDS:
            error = _error(name, code, limit)
            console.error(error)
            console.summary(f"- error[{error.id}]: {markdown(str(error))}")
            _remove(files_of(name))  # they may be incomplete
        made += files_of(name)
        console.output("files", " ".join(f"{sha256_of(path)} {path.name}" for path in made))
    console.result("", [{"file": str(path), "size": path.stat().st_size} for path in made])
    if failed:
        console.say(f"{len(failed)} of {len(orders)} failed: {', '.join(failed)}")
        click.get_current_context().exit(int(ExitCode.VERIFICATION))


def _remove(files: Iterable[Path]) -> None:
    for path in list(files):
        with suppress(OSError):  # a program that outlives its group may hold one, on Windows
            path.unlink()


def _carry_out(words: Sequence[object], limit: float) -> int | None:
    """Run the toolkit in a process group of its own; its exit code, or None if it was not done after ``limit`` seconds.

    All that it prints goes to standard error.
    """
    environment = {name: value for name, value in os.environ.items() if name != "GITHUB_OUTPUT"}
    deadline, code = time.monotonic() + limit, None
    command = [*TOOLKIT, *map(str, words)]
    with os.fdopen(os.dup(2), "wb") as output, running(command, environment=environment, output=output) as process:
        while code is None and time.monotonic() < deadline:
            code = exit_code(process, min(1.0, deadline - time.monotonic()))  # Windows notices Ctrl+C between two
        if code is None and sys.platform != "win32":  # as by Ctrl+C, so that it keeps its log and ends containers
            os.killpg(process.pid, signal.SIGINT)
            exit_code(process, LAST_WORDS)
    return code


def _error(name: str, code: int | None, limit: float) -> MachineError:
    """What a person is told of a target that could not say itself how it ended."""
    what, why = f"was killed (exit code {code})", "the machine may be short of memory"
    if code is None:
        what, why = f"was not done after {format_seconds(limit)}", "it was ended; what it printed last is above"
    if limit <= 0:
        what, why = "was not begun", "the job's time is over"
    return MachineError("interrupted", f"{name} {what}", why=why, remedy=_REMEDY)
