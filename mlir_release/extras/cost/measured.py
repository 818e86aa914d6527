"""Runner minutes a week and their price: per system, stage, target and workflow, from the runs' own timings. Pure.

Each job's time is rounded up to a whole minute, as GitHub bills it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mlir_release.extras.cost.prices import prices, system_of
from mlir_release.ground.job_names import split_job_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.release.forge.services import WorkflowRuns


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
