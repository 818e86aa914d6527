"""Steps of an LLVM build: output in a log, progress on the screen, an end when their time is up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mlir_release.console import console, format_seconds
from mlir_release.errors import MachineError
from mlir_release.host.process import StepFailed, StepInterrupted, run_logged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


class BudgetSpent(MachineError):
    """A build was stopped because its time is up; re-running it resumes it."""


def run_step(
    command: Sequence[str], *, environment: Mapping[str, str], log: Path, what: str, budget: float | None = None
) -> None:
    """Run a command with its output in ``log``, in place of an older one, and report Ninja's progress.

    :param what: the message if it fails
    :param budget: seconds after which it is interrupted
    :raises BudgetSpent: when it was
    :raises MachineError: ``sdk-build-failed``
    """
    log.unlink(missing_ok=True)
    try:
        run_logged(command, log=log, environment=environment, budget=budget, on_line=_progress())
    except StepInterrupted:
        raise BudgetSpent(
            "sdk-budget-spent",
            f"the build was stopped after {format_seconds(budget or 0)}",
            where=str(log),
            remedy="run the same command again, with the same compiler cache, to resume",
        ) from None
    except StepFailed:
        raise MachineError(
            "sdk-build-failed",
            what,
            where=str(log),
            why="\n".join(_interesting(log.read_text(encoding="utf-8", errors="replace"))),
            remedy="the log has the full output; run the same command again to resume the build",
        ) from None


def _progress() -> Callable[[str], None]:
    """Shows one of Ninja's lines (``[12/3456] …``) for each twentieth part of the build."""
    last = -1

    def show(line: str) -> None:
        nonlocal last
        if match := re.match(r"\[(\d+)/(\d+)\]", line):
            twentieth = 20 * int(match[1]) // int(match[2])
            if twentieth > last:
                last = twentieth
                console.say(f"    … {line[:100]}")

    return show


def _interesting(text: str) -> list[str]:
    """The error lines of a log; else the last lines."""
    lines = [line for line in text.splitlines() if not line.startswith("+ ")]  # without the command itself
    errors = [line for line in lines if re.search(r"\berror\b[: ]|CMake Error|FAILED:|No space left", line)]
    return (errors or lines)[-6:]
