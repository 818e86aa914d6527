"""The requests of a day to GitHub's APIs, against the limits of an hour: ``requests.toml`` x matrix x schedule."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, convert, field

from mlir_release.ground.documents.decode import parse_toml

if TYPE_CHECKING:
    from mlir_release.release.model.matrix import Matrix

Times = Literal["once", "thrice", "four times", "platform"]
Kind = Literal["rest", "writes", "graphql"]
KINDS: tuple[Kind, ...] = ("rest", "writes", "graphql")

_CRON = re.compile(r"""^\s*-\s*cron:\s*["'](?P<minutes>\S+) (?P<hours>\S+) \* \* \*["']""", re.MULTILINE)


class CommandRequests(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The requests of one run of a command. ``name``: as ``tests/scale.py`` calls it."""

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


class RequestCounts(Struct, frozen=True, kw_only=True, rename="kebab"):
    """``requests.toml``."""

    source: str
    read_on: date
    limits: Limits
    commands: tuple[CommandRequests, ...] = field(name="command")


@cache
def counted() -> RequestCounts:
    """The counts that come with the toolkit."""
    text = resources.files(__package__).joinpath("requests.toml").read_text(encoding="utf-8")
    return convert(parse_toml(text), RequestCounts)


@dataclass(frozen=True, kw_only=True)
class RequestCost:
    """The requests of a command in a day."""

    command: str
    job: str
    runs: int
    rest: int
    writes: int
    graphql: int


@dataclass(frozen=True, kw_only=True)
class Day:
    """The requests of a day, with every target of the matrix due, nothing failing and nothing there yet."""

    snapshots: int
    rows: tuple[RequestCost, ...]

    #: Titles of :meth:`table`; ``>``: numbers.
    COLUMNS = ("command", "job", ">runs", ">REST", ">of them writes", ">GraphQL")

    def total(self, kind: Kind) -> int:
        """The requests of all commands."""
        return sum(getattr(row, kind) for row in self.rows)

    def share(self, kind: Kind) -> float:
        """The part of an hour's limit that one snapshot uses: 1 is the limit."""
        limit: int = getattr(counted().limits, kind)
        return self.total(kind) / max(self.snapshots, 1) / limit

    def table(self) -> list[tuple[str, ...]]:
        """The rows, then their sum, then one snapshot's share of an hour's limits."""
        rows = [
            (f"`{row.command}`", row.job, *(f"{n:,}" for n in (row.runs, row.rest, row.writes, row.graphql)))
            for row in self.rows
        ]
        runs = f"{sum(row.runs for row in self.rows):,}"
        return [
            *rows,
            ("all", "", runs, *(f"{self.total(kind):,}" for kind in KINDS)),
            ("one snapshot, of an hour's limit", "", "", *(f"{self.share(kind):.0%}" for kind in KINDS)),
        ]

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {"snapshots": self.snapshots, "commands": self.rows, "limits": counted().limits}


def a_day(matrix: Matrix, *, per_day: int) -> Day:
    """The requests of so many snapshots of a matrix."""
    wheels, tests = len(matrix.wheels), len(matrix.tests)
    times = {"once": 1, "thrice": 3, "four times": 4, "platform": len(matrix.runtimes)}
    rows = []
    for command in counted().commands:
        runs = times[command.times]
        rest, writes, graphql = (per_day * n for n in command.asks(wheels=wheels, tests=tests, runs=runs))
        rows.append(
            RequestCost(
                command=command.name, job=command.job, runs=per_day * runs, rest=rest, writes=writes, graphql=graphql
            )
        )
    return Day(snapshots=per_day, rows=tuple(rows))


def runs_a_day(workflow: str) -> int:
    """How often a workflow's text has it start each day: lists of minutes and hours, as ``17 3,15 * * *``."""

    def count(entry: str, whole: int) -> int:
        star, _, step = entry.partition("/")
        return -(-whole // int(step or 1)) if star == "*" else len(entry.split(","))

    return sum(count(match["minutes"], 60) * count(match["hours"], 24) for match in _CRON.finditer(workflow))
