"""What a day asks of GitHub's APIs, against the limits of an hour: ``requests.toml`` x matrix x schedule."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, convert, field

from mlir_release.model.decode import parse_toml

if TYPE_CHECKING:
    from mlir_release.model.matrix import Matrix

Times = Literal["once", "thrice", "four times", "platform"]

_CRON = re.compile(r"""^\s*-\s*cron:\s*["'](?P<minutes>\S+) (?P<hours>\S+) \* \* \*["']""", re.MULTILINE)


class Command(Struct, frozen=True, kw_only=True, rename="kebab"):
    """What one run of a command asks. ``name``: as ``tests/scale.py`` calls it."""

    name: str
    job: str
    times: Times
    rest: int
    graphql: int = 0
    writes: int = 0
    rest_per_wheel: int = 0
    rest_per_test: int = 0
    writes_per_wheel: int = 0
    writes_per_test: int = 0

    def asks(self, *, wheels: int, tests: int, runs: int = 1) -> tuple[int, int, int]:
        """Requests of REST, writes among them, questions of GraphQL, of runs that handle so many files together."""
        rest = runs * self.rest + self.rest_per_wheel * wheels + self.rest_per_test * tests
        writes = runs * self.writes + self.writes_per_wheel * wheels + self.writes_per_test * tests
        return rest, writes, runs * self.graphql


class Limits(Struct, frozen=True, kw_only=True):
    """An hour's limits."""

    rest: int
    graphql: int
    writes: int


class Counted(Struct, frozen=True, kw_only=True, rename="kebab"):
    """``requests.toml``."""

    source: str
    read_on: date
    limits: Limits
    commands: tuple[Command, ...] = field(name="command")


@cache
def counted() -> Counted:
    """The counts that come with the toolkit."""
    text = resources.files(__package__).joinpath("requests.toml").read_text(encoding="utf-8")
    return convert(parse_toml(text), Counted)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A command in a day."""

    command: str
    job: str
    runs: int
    rest: int
    writes: int
    graphql: int

    def cells(self) -> tuple[str, ...]:
        """For a table."""
        return (f"`{self.command}`", self.job, *(f"{n:,}" for n in (self.runs, self.rest, self.writes, self.graphql)))


@dataclass(frozen=True, kw_only=True)
class Day:
    """The requests of a day, with every target of the matrix due, nothing failing and nothing there yet."""

    snapshots: int
    rows: tuple[Row, ...]

    #: Titles of :meth:`table`; ``>``: numbers.
    COLUMNS = ("command", "job", ">runs", ">REST", ">of them writes", ">GraphQL")

    def total(self, kind: Literal["rest", "writes", "graphql"]) -> int:
        """Of all commands."""
        return sum(getattr(row, kind) for row in self.rows)

    def share(self, kind: Literal["rest", "writes", "graphql"]) -> float:
        """How much of an hour's limit one snapshot uses up, all of it: 1 is the limit."""
        limit: int = getattr(counted().limits, kind)
        return self.total(kind) / max(self.snapshots, 1) / limit

    def table(self) -> list[tuple[str, ...]]:
        """The rows, then their sum, then one snapshot's share of an hour's limits."""
        kinds: tuple[Literal["rest", "writes", "graphql"], ...] = ("rest", "writes", "graphql")
        runs = f"{sum(row.runs for row in self.rows):,}"
        return [
            *(row.cells() for row in self.rows),
            ("all", "", runs, *(f"{self.total(kind):,}" for kind in kinds)),
            ("one snapshot, of an hour's limit", "", "", *(f"{self.share(kind):.0%}" for kind in kinds)),
        ]

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {"snapshots": self.snapshots, "commands": self.rows, "limits": counted().limits}


def a_day(matrix: Matrix, *, per_day: int) -> Day:
    """What so many snapshots of a matrix ask."""
    wheels, tests = len(matrix.wheels), len(matrix.tests)
    times = {"once": 1, "thrice": 3, "four times": 4, "platform": len(matrix.runtimes)}
    rows = []
    for command in counted().commands:
        runs = times[command.times]
        asked = command.asks(wheels=wheels, tests=tests, runs=runs)
        rest, writes, graphql = (per_day * count for count in asked)
        rows.append(
            Row(
                command=command.name,
                job=command.job,
                runs=per_day * runs,
                rest=rest,
                writes=writes,
                graphql=graphql,
            )
        )
    return Day(snapshots=per_day, rows=tuple(rows))


def runs_a_day(workflow: str) -> int:
    """How often a workflow's text has it start each day: lists of minutes and hours, as ``17 3,15 * * *``."""
    return sum(_values(match["minutes"], 60) * _values(match["hours"], 24) for match in _CRON.finditer(workflow))


def _values(entry: str, whole: int) -> int:
    star, _, step = entry.partition("/")
    return -(-whole // int(step or 1)) if star == "*" else len(entry.split(","))
