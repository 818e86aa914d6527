"""The stages of an SDK's build (configure, build, install, import) with times, sizes and compiler-cache hits.

They are kept in ``<SDK>.stages.json`` beside the SDK's folder. A build that is resumed appends to it, and what was cut
leaves its stage there, so the file shows what a build took whether or not it was completed in one run.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mlir_release.console import console, format_bytes, format_seconds
from mlir_release.foreign import markdown, table
from mlir_release.host.files import read_document, write_atomically
from mlir_release.model.decode import MalformedError, from_json
from mlir_release.sdk.progress import BudgetSpent, BuildInterrupted, steps_done

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        self.stages = _read(self.path)

    @contextmanager
    def stage(
        self, name: str, folder: Path, *, log: Path | None = None, counts: Callable[[], tuple[int, int]] | None = None
    ) -> Iterator[None]:
        """Record what the block takes, however it ends.

        :param folder: whose size is recorded
        :param log: has Ninja's output
        :param counts: hits and misses of the compiler cache until now
        """
        before = counts() if counts else (0, 0)
        begun = Stage(name=name, started=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        self.stages = [*(_cut(stage) for stage in self.stages), begun]
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


def _cut(stage: Stage) -> Stage:
    """A stage that another run began and did not end: it was killed."""
    return replace(stage, outcome=KILLED) if stage.outcome == RUNNING else stage


def _read(path: Path) -> list[Stage]:
    """The stages so far; none if the file is missing or unreadable, since a report must not stop a build."""
    try:
        return from_json(read_document(path), list[Stage])
    except (OSError, MalformedError):
        return []
