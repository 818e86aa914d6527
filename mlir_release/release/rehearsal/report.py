"""The report of a rehearsal: its steps, its wheels, and the commands that install them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from mlir_release.ground.console import console, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mlir_release.builder.wheels.build import BuiltWheel


@dataclass
class RehearsalReport:
    """The steps that were done, with their times, and the results."""

    COLUMNS: ClassVar = ("step", "result", ">time")
    rows: list[tuple[str, str, float]] = field(default_factory=list)  #: step, result, seconds
    wheels: list[BuiltWheel] = field(default_factory=list)
    tag: str = ""
    index: str = ""
    links: Mapping[str, str] = field(default_factory=dict)  #: that extras added to the pages: title -> page, or ""
    commands: list[str] = field(default_factory=list)  #: that install the first distribution of each project

    @contextmanager
    def step(self, title: str) -> Iterator[list[str]]:
        """Time a step. Lines that are appended to the yielded list are its result."""
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
            **{title.lower(): page for title, page in self.links.items()},
            "command": self.commands[0] if self.commands else "",
            "commands": self.commands,
            "steps": [{"step": s, "result": r, "seconds": round(t, 2)} for s, r, t in self.rows],
            "wheels": [{**wheel.to_json(), "file": wheel.path.name} for wheel in self.wheels],
        }

    def cells(self) -> list[tuple[str, str, str]]:
        """The steps."""
        return [(step, result, format_seconds(seconds)) for step, result, seconds in self.rows]

    def text(self) -> str:
        """The wheels, the pages, and the commands that install the result."""
        rows = [wheel.row() for wheel in self.wheels]
        wheels = "".join(f"{name}: {size}, built in {took}, CPU {cpu}\n" for name, size, took, cpu in rows)
        links = "".join(f"; {title}: {page}" for title, page in self.links.items() if page)
        commands = "".join(f"    {command}\n" for command in self.commands)
        total = format_seconds(sum(seconds for _, _, seconds in self.rows))
        succeeded = f"The rehearsal succeeded in {total}. It published {self.tag}; pages: {self.index}{links}"
        return f"{wheels}{succeeded}\n\nThis installs what it published:\n\n{commands}"
