"""What a week asks of GitHub's APIs: ``requests.toml``, at the times of the jobs that run the commands."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct, convert

from mlir_release.ground.documents.decode import parse_toml
from mlir_release.release.forge.github.client import WRITES_PER_MINUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.week.queue import Job

Kind = Literal["rest", "writes", "graphql"]
KINDS: tuple[Kind, ...] = ("rest", "writes", "graphql")

#: The command that jobs run once for each workflow that they dispatch.
DISPATCH = "release dispatch"


class CommandRequests(Struct, frozen=True, kw_only=True, rename="kebab"):
    """The requests of one run of a command. ``name``: as ``tests/scale.py`` calls it."""

    name: str
    jobs: tuple[str, ...]
    rest: int
    graphql: int = 0
    writes: int = 0
    rest_per_wheel: int = 0
    rest_per_test: int = 0
    writes_per_wheel: int = 0
    writes_per_test: int = 0

    def asks(self, *, wheels: int, tests: int) -> tuple[int, int, int]:
        """Requests of REST, writes among them, questions of GraphQL, of a run that handles so many files."""
        rest = self.rest + self.rest_per_wheel * wheels + self.rest_per_test * tests
        writes = self.writes + self.writes_per_wheel * wheels + self.writes_per_test * tests
        return rest, writes, self.graphql


class Limits(Struct, frozen=True, kw_only=True, rename="kebab"):
    """An hour's limits, and a minute's."""

    rest: int
    graphql: int
    writes: int
    writes_a_minute: int


class RequestCounts(Struct, frozen=True, kw_only=True, rename="kebab"):
    """``requests.toml``."""

    source: str
    read_on: date
    limits: Limits
    commands: tuple[CommandRequests, ...] = msgspec.field(name="command")

    def of_job(self, job: str) -> CommandRequests | None:
        """The command that a job runs, by the longest beginning of its name; None: none that asks for anything."""
        found = [(len(name), command) for command in self.commands for name in command.jobs if job.startswith(name)]
        return max(found, key=lambda pair: pair[0])[1] if found else None


@cache
def counted() -> RequestCounts:
    """The counts, which a test makes again."""
    return convert(parse_toml(Path(__file__).with_name("requests.toml").read_text(encoding="utf-8")), RequestCounts)


@dataclass
class Log:
    """The requests of jobs, each with the minute of its moment."""

    times: dict[Kind, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    #: By day and command: runs, REST, writes, GraphQL.
    days: dict[int, dict[str, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(lambda: [0] * 4))
    )

    def add(self, job: Job, day: int, *, wheels: int, tests: int, dispatches: int) -> None:
        """The requests of a job that has ended. It reads all the time, and writes as fast as the toolkit lets it.

        :param day: that it counts for
        """
        command = counted().of_job(job.name)
        if command is not None:
            self._ask(command, job, day, wheels=wheels, tests=tests)
        for _ in range(dispatches):
            self._ask(next(one for one in counted().commands if one.name == DISPATCH), job, day)

    def _ask(self, command: CommandRequests, job: Job, day: int, *, wheels: int = 0, tests: int = 0) -> None:
        rest, writes, graphql = command.asks(wheels=wheels, tests=tests)
        self.spread("rest", job.began, job.ended, rest - writes)
        self.spread("graphql", job.began, job.ended, graphql)
        end = min(job.ended, job.began + writes / WRITES_PER_MINUTE)
        for kind in ("rest", "writes"):
            self.spread(kind, job.began, end, writes)
        row = self.days[day][command.name]
        for place, count in enumerate((1, rest, writes, graphql)):
            row[place] += count

    def spread(self, kind: Kind, begin: float, end: float, count: int) -> None:
        """So many requests at equal distances."""
        self.times[kind] += [begin + (end - begin) * number / count for number in range(count)]

    def busiest(self, kind: Kind, minutes: float, day: float | None = None) -> int:
        """The most requests in so many minutes, wherever these begin. ``day``: of 24 hours from that minute alone"""
        times = [time for time in self.times[kind] if day is None or day <= time < day + 1440]
        return most_within(sorted(times), minutes)

    def table(self, day: int) -> list[list[str]]:
        """The commands of a day, as ``requests.toml`` has them, then their sum."""
        rows = [(f"`{one.name}`", self.days[day][one.name]) for one in counted().commands if one.name in self.days[day]]
        rows.append(("all", [sum(column) for column in zip(*(row for _, row in rows), strict=True)]))
        return [[name, *(f"{count:,}" for count in row)] for name, row in rows]


def most_within(times: Sequence[float], width: float) -> int:
    """The most of sorted moments that lie in a window, which doesn't include its end."""
    most = begin = 0
    for end, time in enumerate(times):
        while times[begin] <= time - width + 1e-9:  # of sums of fractions
            begin += 1
        most = max(most, end - begin + 1)
    return most
