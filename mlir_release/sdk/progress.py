"""Long commands of an LLVM build: output in a log, progress on the screen, an end when their time is up."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from mlir_release.console import console, format_seconds
from mlir_release.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# How to interrupt Ninja. On Windows only a process group of its own can be, and only by Ctrl+Break.
if sys.platform == "win32":
    _INTERRUPT, _GROUP = signal.CTRL_BREAK_EVENT, subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _INTERRUPT, _GROUP = signal.SIGINT, 0


class BudgetSpent(MachineError):
    """A build was stopped because its time is up; running it again goes on."""


def run_step(
    command: Sequence[str], *, variables: Mapping[str, str], log: Path, what: str, budget: float | None = None
) -> None:
    """Run a command with its output in ``log``; say every twentieth part how far Ninja is (``[12/3456] …``).

    :param what: the message if it fails
    :param budget: seconds after which it is interrupted
    :raises BudgetSpent: when it was
    :raises MachineError: ``sdk-build-failed``
    """
    start = time.monotonic()
    last = -1
    with (
        log.open("w", encoding="utf-8") as file,
        subprocess.Popen(
            command,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            creationflags=_GROUP,
        ) as process,
    ):
        assert process.stdout is not None
        # Ninja ends on an interrupt once the compilers that run are through, and keeps what they made.
        timer = threading.Timer(budget, process.send_signal, [_INTERRUPT]) if budget is not None else None
        try:
            if timer is not None:
                timer.start()
            for line in process.stdout:
                file.write(line)
                if match := re.match(r"\[(\d+)/(\d+)\]", line):
                    twentieth = 20 * int(match[1]) // int(match[2])
                    if twentieth > last:
                        last = twentieth
                        console.say(f"    … {line.strip()[:100]}")
            returncode = process.wait()
        except BaseException:
            process.terminate()
            raise
        finally:
            if timer is not None:
                timer.cancel()
    if returncode != 0 and budget is not None and time.monotonic() - start >= budget:
        raise BudgetSpent(
            "sdk-budget-spent",
            f"the build was stopped after {format_seconds(budget)}",
            where=str(log),
            remedy="run the same command again, with the same compiler cache, to go on",
        )
    if returncode != 0:
        raise MachineError(
            "sdk-build-failed",
            what,
            where=str(log),
            why="\n".join(_interesting(log.read_text(encoding="utf-8", errors="replace"))),
            remedy="the log has all of it; run the same command again to go on where it stopped",
        )


def _interesting(text: str) -> list[str]:
    """The lines of a log that say what went wrong; else the last ones."""
    lines = text.splitlines()
    errors = [line for line in lines if re.search(r"\berror\b[: ]|CMake Error|FAILED:|No space left", line)]
    return (errors or lines)[-6:]
