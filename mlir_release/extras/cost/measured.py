"""Runner minutes a week and their price: per system, stage, target and workflow, from the runs' own timings. Pure.

Each job's time is rounded up to a whole minute, as GitHub bills it. The prices and the cores of its runners are in
``prices.toml``, with their source and date.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from mlir_release.ground.documents.decode import parse_toml
from mlir_release.ground.job_names import split_job_name
from mlir_release.ground.python.platforms import HOST_SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.release.forge.services import WorkflowRuns

#: Systems by the first word of GitHub's own labels, and the standard runner of each.
_SYSTEMS = {system.runner: system.name for system in HOST_SYSTEMS.values()}
_STANDARD = {system.name: f"{system.runner}-latest" for system in HOST_SYSTEMS.values()}


class Runner(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A kind of runner whose labels GitHub has chosen."""

    label: re.Pattern[str]
    dollars: float  #: a minute
    standard: bool = True  #: free in public repositories
    cores: int | None = None  #: None: as many as the system's standard runner
    cores_in_public: int | None = None  #: None: the same


class Prices(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """GitHub's price list."""

    source: str
    read_on: date
    currency: str
    not_priced: tuple[str, ...]  #: costs that the figures leave out
    runners: tuple[Runner, ...] = msgspec.field(name="runner")

    def runner(self, labels: Sequence[str]) -> Runner | None:
        """The kind of runner with these labels; None if it is self-hosted, or the labels do not tell."""
        if "self-hosted" in labels:
            return None
        return next((runner for label in labels for runner in self.runners if runner.label.fullmatch(label)), None)

    def cores(self, labels: Sequence[str], *, public: bool) -> int:
        """Cores of a runner. One that is not in the list counts as the standard runner of its system."""
        runner = self.runner(labels)
        if runner is None or runner.cores is None:
            runner = self.runner([_STANDARD.get(system_of(labels), _STANDARD["linux"])])
        assert runner is not None
        assert runner.cores is not None
        return (public and runner.cores_in_public) or runner.cores


@cache
def prices() -> Prices:
    """The list that comes with the toolkit."""
    data = parse_toml(resources.files(__package__).joinpath("prices.toml").read_text(encoding="utf-8"))
    return msgspec.convert(data, Prices, dec_hook=lambda _, label: re.compile(label))


def system_of(labels: Sequence[str]) -> str:
    """``linux``, ``macos``, ``windows``; ``other`` for a runner whose labels do not say."""
    for label in labels:
        if found := _SYSTEMS.get(label.partition("-")[0]):
            return found
    lowered = {label.lower() for label in labels}
    return next((name for name in _STANDARD if name in lowered), "other")


@dataclass(frozen=True, kw_only=True)
class Spent:
    """A finished job, whatever its conclusion."""

    name: str
    labels: tuple[str, ...]  #: of the runner
    seconds: float


@dataclass(kw_only=True)
class Sum:
    """The time and the price of some jobs."""

    jobs: int = 0
    seconds: float = 0.0
    billed: int = 0  #: minutes, each job's rounded up
    dollars: float = 0.0  #: in a private repository, of the jobs that have a price
    dollars_in_public: float = 0.0
    unpriced: int = 0  #: billed minutes that have no price

    def add(self, job: Spent) -> None:
        """Count one more job."""
        minutes = math.ceil(job.seconds / 60)
        runner = prices().runner(job.labels)
        self.jobs += 1
        self.seconds += job.seconds
        self.billed += minutes
        if runner is None:
            self.unpriced += minutes
        else:
            self.dollars += minutes * runner.dollars
            self.dollars_in_public += 0 if runner.standard else minutes * runner.dollars

    def to_json(self, weeks: float) -> dict[str, object]:
        """A week's share."""
        return {
            "jobs": round(self.jobs / weeks, 2),
            "minutes": round(self.seconds / 60 / weeks, 1),
            "billed_minutes": round(self.billed / weeks, 1),
            "dollars": round(self.dollars / weeks, 2),
            "dollars_in_public": round(self.dollars_in_public / weeks, 2),
            "minutes_without_price": round(self.unpriced / weeks, 1),
        }


@dataclass(kw_only=True)
class Cost:
    """Sums over ``weeks`` weeks."""

    weeks: int
    runs: int = 0
    total: Sum = field(default_factory=Sum)
    systems: dict[str, Sum] = field(default_factory=dict)
    stages: dict[str, Sum] = field(default_factory=dict)
    targets: dict[str, Sum] = field(default_factory=dict)  #: by ``<stage>: <target>``
    workflows: dict[str, Sum] = field(default_factory=dict)
    unpriced: dict[str, Sum] = field(default_factory=dict)  #: by the labels of runners that have no price

    def add(self, workflow: str, job: Spent) -> None:
        """Count one more job of a workflow (its file name)."""
        stage, target = split_job_name(job.name)
        self.total.add(job)
        for group, key in (
            (self.systems, system_of(job.labels)),
            (self.stages, stage),
            (self.targets, f"{stage}: {target}" if target else stage),
            (self.workflows, workflow),
        ):
            group.setdefault(key, Sum()).add(job)
        if prices().runner(job.labels) is None:
            self.unpriced.setdefault(", ".join(job.labels), Sum()).add(job)

    def to_json(self) -> dict[str, object]:
        """For ``--json``; every figure is a week's."""
        groups = {name: getattr(self, name) for name in ("systems", "stages", "targets", "workflows")}
        groups["runners_without_price"] = self.unpriced
        return {
            "weeks": self.weeks,
            "runs": self.runs,
            "prices": {
                "source": prices().source,
                "read_on": prices().read_on,
                "currency": prices().currency,
                "not_priced": prices().not_priced,
            },
            "total": self.total.to_json(self.weeks),
            **{
                name: {key: entry.to_json(self.weeks) for key, entry in sorted(group.items())}
                for name, group in groups.items()
            },
        }

    def rows(self, group: dict[str, Sum]) -> list[list[object]]:
        """Rows of a table: name, jobs, minutes, billed minutes and dollars a week, and the share of the time."""
        found = sorted(group.items(), key=lambda entry: -entry[1].seconds)
        return [
            [
                name,
                f"{entry.jobs / self.weeks:.1f}",
                f"{entry.seconds / 60 / self.weeks:.0f}",
                f"{entry.billed / self.weeks:.0f}",
                f"{entry.dollars / self.weeks:.2f}" + (" + ?" if entry.unpriced else ""),
                f"{100 * entry.seconds / self.total.seconds:.0f} %" if self.total.seconds else "",
            ]
            for name, entry in found
        ]

    def text(self) -> str:
        """The total, the minutes without a price, and the source of the prices."""
        total = self.total
        lines = [
            f"a week: {total.billed / self.weeks:,.0f} billed minutes, each job's rounded up from "
            f"{total.seconds / 60 / self.weeks:,.0f}; {total.dollars / self.weeks:.2f} US dollars in a private "
            f"repository, {total.dollars_in_public / self.weeks:.2f} in a public one",
            *(
                f"no price: {entry.billed / self.weeks:.0f} minutes on {labels}"
                for labels, entry in sorted(self.unpriced.items())
            ),
            f"prices: {prices().source}, read on {prices().read_on}; not in them:",
            *(f"  {line}" for line in prices().not_priced),
        ]
        return "\n".join(lines)


def add_up(runs: Iterable[tuple[str, Sequence[Spent]]], *, weeks: int) -> Cost:
    """The sums over some runs: each its workflow's file name, and its jobs."""
    cost = Cost(weeks=weeks)
    for workflow, jobs in runs:
        cost.runs += 1
        for job in jobs:
            cost.add(workflow, job)
    return cost


def measure(history: WorkflowRuns, *, now: datetime, weeks: int) -> Cost:
    """The cost of the last ``weeks`` weeks: runs that have ended, with all their attempts."""
    runs = []
    for run in history.since(now - timedelta(weeks=weeks)):
        jobs = history.jobs(run) if run.status == "completed" else ()
        spent = [
            Spent(name=job.name, labels=job.labels, seconds=(job.completed_at - job.started_at).total_seconds())
            for job in jobs
            if job.completed_at is not None and job.completed_at > job.started_at  # else it never had a runner
        ]
        if run.status == "completed":
            runs.append((run.workflow, spent))
    return add_up(runs, weeks=weeks)
