"""How an LLVM build proceeds, and why it fails: its steps, each with a log, and the record of its stages.

The stages (configure, build, install, import) have times, sizes and compiler-cache hits. They are kept in
``<SDK>.stages.json`` beside the SDK's folder. A build that is resumed appends to the file, and a run that was cut
leaves its stage there, so the file shows the whole cost of a build whether or not one run completed it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mlir_release.builder.tools.ninja import STATUS, Pace
from mlir_release.ground.console import console, format_bytes, format_seconds
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.errors import MachineError
from mlir_release.ground.foreign import markdown, table
from mlir_release.ground.programs.process import LONGEST, StepFailed, StepInterrupted, run_logged, tail, whole_log
from mlir_release.ground.storage.disk import disk_full
from mlir_release.ground.storage.files import read_document, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: Lines of a failing step's output in an error; the log has all of them.
_SHOWN = 15

#: A disk with less space than this is full: linkers and archivers do not always say why they fail.
_FULL = 16_000_000

#: Ninja's last line when it, or a compiler, got Ctrl+C or SIGTERM.
_INTERRUPTED = "ninja: build stopped: interrupted by user"

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: Programs print one of these when a disk is full.
NO_SPACE = re.compile(r"No space left on device|ENOSPC|not enough space on the disk|Disk quota exceeded", re.IGNORECASE)
_ERROR = re.compile(
    r"\b(fatal )?error\b ?[A-Z0-9]*[:( ]|undefined (reference|symbol)|duplicate symbol|CMake Error|No space left"
    r"|\bKilled\b|Bus error|internal compiler error|is not a full path|cannot (find|copy)",
)


class BudgetSpent(MachineError):
    """A build was stopped because its time is up; re-running it resumes it."""


class BuildInterrupted(MachineError):
    """A build was interrupted by a person or by the machine's shutdown; re-running it resumes it."""


def run_step(
    command: Sequence[str], *, environment: Mapping[str, str], log: Path, what: str, budget: float | None = LONGEST
) -> None:
    """Run a command with its output in ``log``, in place of an older one.

    Of Ninja's lines one is shown for each twentieth part of the build: ``… [12/3456] …, about 1 h 04 min left``.

    :param what: the message if it fails
    :param budget: seconds after which it is interrupted; None: it may compile for as long as it takes
    :raises BudgetSpent: when it was
    :raises BuildInterrupted: something else interrupted it
    :raises MachineError: ``program-failed``, with what the failing step printed; ``disk-full``
    """
    last, pace = -1, Pace()

    def show(line: str) -> None:
        nonlocal last
        if pace.feed(line):
            twentieth = 20 * pace.done // pace.all
            if twentieth > last:
                last, left = twentieth, pace.remaining()
                console.say(f"    … {line[:100]}{'' if left is None else f', about {format_seconds(left)} left'}")

    log.unlink(missing_ok=True)
    try:
        run_logged(command, log=log, environment=environment, budget=budget, on_line=show)
    except StepInterrupted:
        raise BudgetSpent(
            "interrupted",
            f"the build was stopped after {format_seconds(budget or 0)}",
            where=str(log),
            remedy="run the same command again, with the same compiler cache, to resume",
        ) from None
    except StepFailed:
        if _INTERRUPTED in tail(log, 1):
            raise BuildInterrupted("interrupted", "the build was interrupted", where=str(log)) from None
        raise _failure(log, what) from None
    except OSError as error:
        if error.errno == errno.ENOSPC:  # the log itself could not be written
            raise _no_space(log.parent, str(error)) from error
        raise


def _failure(log: Path, what: str) -> MachineError:
    """The error for a step that failed: a full disk, or what it printed."""
    text = _COLOUR.sub("", log.read_text(encoding="utf-8", errors="replace"))
    block = failing_step(text)
    console.fold("output of the failing step", block)
    why = explain(block)
    full = next((line for line in reversed(text.splitlines()) if NO_SPACE.search(line)), None)
    if full is not None:
        return _no_space(log.parent, full.strip())
    if shutil.disk_usage(log.parent).free < _FULL:
        return _no_space(log.parent, "\n".join(why))
    return MachineError(
        "program-failed",
        what,
        where=str(log),
        why="\n".join(why),
        remedy=f"run the same command again to resume the build; {whole_log(log)}",
    )


def _no_space(folder: Path, why: str) -> MachineError:
    return disk_full(
        folder,
        purpose="to build LLVM",
        why=f"{why}; {format_bytes(shutil.disk_usage(folder).free)} are free",
        remedy="free some space, or give another output folder; what was built is kept and used again",
    )


def failing_step(text: str) -> list[str]:
    """The first failing step's output: Ninja's ``FAILED:`` block without the command; else the whole output."""
    lines = [line for line in text.splitlines() if not line.startswith("+ ")]  # without the command itself
    start = next((number for number, line in enumerate(lines) if line.startswith("FAILED: ")), None)
    if start is None:
        return [line for line in lines if not STATUS.match(line)]
    rest = lines[start + 2 :]  # the line behind it is the command
    end = next((n for n, line in enumerate(rest) if STATUS.match(line) or line.startswith("ninja: ")), len(rest))
    return [lines[start].rstrip(), *rest[:end]]


def explain(block: Sequence[str]) -> list[str]:
    """The lines of a failing step that an error shows: which step it is, and what follows its first error message."""
    head = list(block[:1]) if block and block[0].startswith("FAILED: ") else []
    body = [line for line in block[len(head) :] if line.strip()]
    first = next((number for number, line in enumerate(body) if _ERROR.search(line)), None)
    return head + (body[-_SHOWN:] if first is None else body[first : first + _SHOWN])


def steps_done(log: Path) -> int:
    """The number of Ninja's steps that succeeded, by ``log``. Ninja's own number includes those that failed."""
    if not log.is_file():
        return 0
    text = log.read_text(encoding="utf-8", errors="replace")
    found = re.findall(rf"^{STATUS.pattern}", text, re.MULTILINE)
    return int(found[-1][0]) - len(re.findall(r"^FAILED: ", text, re.MULTILINE)) if found else 0


RUNNING, DONE, STOPPED, FAILED, KILLED = "running", "done", "stopped", "failed", "killed"


class Stage(Struct, frozen=True, kw_only=True):
    """One stage of one run. Sizes in bytes, times in seconds."""

    name: str  #: ``configure``, ``build``, ``install``, ``import``; of a build up to one target: ``build mlir-tblgen``
    started: str  #: UTC, ``2026-11-21T20:15:00Z``
    outcome: str = RUNNING  #: ``done``; ``stopped`` by budget or person; ``failed``; ``killed``, found by the next run
    seconds: float = 0.0
    size: int = 0  #: of its folder afterwards
    free: int = 0  #: left on that disk
    steps: int = 0  #: of Ninja's
    hits: int = 0  #: of the compiler cache
    misses: int = 0


class StageLog:
    """The stages of all runs for the SDK at ``output``."""

    def __init__(self, output: Path) -> None:
        self.path = output.with_name(f"{output.name}.stages.json")
        self.stages: list[Stage] = []
        with suppress(OSError, MalformedError):  # a report must not stop a build
            self.stages = from_json(read_document(self.path), list[Stage])

    @contextmanager
    def stage(
        self, name: str, folder: Path, *, log: Path | None = None, counts: Callable[[], tuple[int, int]] | None = None
    ) -> Iterator[None]:
        """Record the cost of the block, however it ends.

        :param folder: whose size is recorded
        :param log: has Ninja's output
        :param counts: hits and misses of the compiler cache until now
        """
        before = counts() if counts else (0, 0)
        begun = Stage(name=name, started=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        # One that is still running was begun by another run, which was killed.
        self.stages = [replace(stage, outcome=KILLED) if stage.outcome == RUNNING else stage for stage in self.stages]
        self.stages.append(begun)
        self._write()
        start = time.monotonic()
        outcome = FAILED
        try:
            yield
            outcome = DONE
        except (BudgetSpent, BuildInterrupted, KeyboardInterrupt):
            outcome = STOPPED
            raise
        finally:
            seconds = round(time.monotonic() - start, 1)
            after = counts() if counts else (0, 0)
            self.stages[-1] = replace(
                begun,
                outcome=outcome,
                seconds=seconds,
                size=disk_usage(folder),
                free=shutil.disk_usage(self.path.parent).free,
                steps=steps_done(log) if log else 0,
                hits=after[0] - before[0],
                misses=after[1] - before[1],
            )
            self._write()

    def show(self) -> None:
        """Print the table, also to the GitHub step summary."""
        columns = ("stage", "started", ">time", "outcome", ">steps", ">cache hits", ">misses", ">size", ">free")
        rows = [
            (
                stage.name, stage.started, format_seconds(stage.seconds), stage.outcome, stage.steps or "–",
                stage.hits or "–", stage.misses or "–", format_bytes(stage.size), format_bytes(stage.free),
            )
            for stage in self.stages
        ]  # fmt: skip
        if not console.json_mode:
            console.table(columns, rows)
        console.summary(f"### LLVM from source\n\n{table(columns, [[markdown(str(c)) for c in row] for row in rows])}")

    def _write(self) -> None:
        with suppress(OSError):  # a full disk has an error of its own
            write_atomically(self.path, msgspec.json.format(msgspec.json.encode(self.stages), indent=2) + b"\n")


def disk_usage(folder: Path) -> int:
    """Bytes that a tree takes on its disk; files with several names count once."""
    sizes: dict[tuple[int, int], int] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # a temporary file of a compiler that ends
                status = Path(parent, name).lstat()
                blocks = getattr(status, "st_blocks", None)
                sizes[status.st_dev, status.st_ino] = status.st_size if blocks is None else 512 * blocks
    return sum(sizes.values())
