"""What a rehearsal did, step by step, and what came out."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlir_release.console import console, format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Report:
    """What was done, step by step, and what came out."""

    rows: list[tuple[str, str, float]] = field(default_factory=list)  #: step, result, seconds
    wheels: list[tuple[str, int, float, float]] = field(default_factory=list)  #: name, bytes, wall and CPU seconds
    tag: str = ""
    index: str = ""
    command: str = ""

    @contextmanager
    def step(self, title: str) -> Iterator[list[str]]:
        """Time a step; what is appended to the yielded list is its result."""
        start = time.monotonic()
        results: list[str] = []
        with console.step(title):
            yield results
        self.rows.append((title, "; ".join(results), time.monotonic() - start))

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "tag": self.tag,
            "index": self.index,
            "command": self.command,
            "steps": [{"step": s, "result": r, "seconds": round(t, 2)} for s, r, t in self.rows],
            "wheels": [
                {"file": name, "size": size, "wall_seconds": round(wall, 2), "cpu_seconds": round(cpu, 2)}
                for name, size, wall, cpu in self.wheels
            ],
        }

    def show(self) -> None:
        """The tables, and the command that a stranger types."""
        console.table(
            ["step", "result", ">time"],
            [[step, result, format_seconds(seconds)] for step, result, seconds in self.rows],
        )
        if self.wheels:
            console.table(
                ["wheel", ">size", ">wall", ">CPU"],
                [[n, format_bytes(s), format_seconds(w), format_seconds(c)] for n, s, w, c in self.wheels],
            )
        console.result(f"published {self.tag}; pages: {self.index}\n\n    {self.command}\n", self.to_json())
