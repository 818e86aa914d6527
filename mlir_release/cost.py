"""Runner minutes a week, and what they cost: per system, per stage and per target, from the runs' own timings. Pure.

Prices: GitHub's "Actions runner pricing" (docs.github.com/billing/reference/actions-runner-pricing), US dollars a
minute from 2026-01-01 on, looked up in stored copies on 2026-11-21: check them before relying on them.
Standard runners cost nothing in public repositories; each job's time is
rounded up to a whole minute. A runner that GitHub publishes no price of (self-hosted, say) has none here.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlir_release.targets import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from mlir_release.forge.base import Job, Timings

PRICES_SOURCE = "https://docs.github.com/en/billing/reference/actions-runner-pricing"
PRICES_DATE = "2026-11-21"

#: Labels of GitHub's standard runners, and US dollars a minute; the first that fits counts.
PRICES: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"ubuntu-slim"), 0.002),
    (re.compile(r"ubuntu-[0-9.]+-arm"), 0.005),
    (re.compile(r"ubuntu-([0-9.]+|latest)"), 0.006),
    (re.compile(r"windows-[0-9]+-arm"), 0.008),
    (re.compile(r"windows-([0-9]+|latest)"), 0.010),
    (re.compile(r"macos-([0-9]+|latest)(-intel)?"), 0.062),
)

_SYSTEMS = {"ubuntu": "linux", "windows": "windows", "macos": "macos"}
_WHEEL = re.compile(r"(?P<target>[a-z0-9][a-z0-9_-]*-cp3[0-9]+t?)")


@dataclass(frozen=True, kw_only=True)
class Spent:
    """A job that ran to an end, however it ended."""

    name: str
    labels: tuple[str, ...]  #: of the runner
    seconds: float

    @classmethod
    def of(cls, job: Job) -> Spent | None:
        """What a job took; None for one that still runs, or that never had a runner."""
        if job.completed_at is None or job.completed_at <= job.started_at:
            return None
        return cls(name=job.name, labels=job.labels, seconds=(job.completed_at - job.started_at).total_seconds())


def system_of(labels: Sequence[str]) -> str:
    """``linux``, ``macos``, ``windows``; ``other`` for a runner whose labels do not say."""
    for label in labels:
        if found := _SYSTEMS.get(label.partition("-")[0]):
            return found
    lowered = {label.lower() for label in labels}
    return next((name for name in ("linux", "macos", "windows") if name in lowered), "other")


def price_of(labels: Sequence[str]) -> float | None:
    """US dollars a minute; None if GitHub publishes none."""
    if "self-hosted" in labels:
        return None
    return next((price for label in labels for pattern, price in PRICES if pattern.fullmatch(label)), None)


def stage_of(name: str) -> tuple[str, str]:
    """The stage that a job belongs to (``sdk``, ``tests``, ``wheels``, ``other``), and its target."""
    name = name.removesuffix(" (resumed)").rpartition(" / ")[2]
    head, _, rest = name.partition("-")
    if head == "sdk" and rest:
        return "sdk", rest
    if head in SUITES and rest:
        return "tests", rest
    match = _WHEEL.fullmatch(name)
    return ("wheels", match["target"]) if match else ("other", "")


@dataclass(kw_only=True)
class Sum:
    """What some jobs took."""

    jobs: int = 0
    seconds: float = 0.0
    billed: int = 0  #: minutes, each job's rounded up
    dollars: float = 0.0  #: of the jobs that have a price
    unpriced: int = 0  #: billed minutes that have none

    def add(self, job: Spent) -> None:
        """Count one more job."""
        minutes = math.ceil(job.seconds / 60)
        price = price_of(job.labels)
        self.jobs += 1
        self.seconds += job.seconds
        self.billed += minutes
        if price is None:
            self.unpriced += minutes
        else:
            self.dollars += minutes * price

    def to_json(self, weeks: float) -> dict[str, object]:
        """A week's share."""
        return {
            "jobs": round(self.jobs / weeks, 2),
            "minutes": round(self.seconds / 60 / weeks, 1),
            "billed_minutes": round(self.billed / weeks, 1),
            "dollars": round(self.dollars / weeks, 2),
            "minutes_without_price": round(self.unpriced / weeks, 1),
        }


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Sums over ``weeks`` weeks."""

    weeks: int
    runs: int
    total: Sum
    systems: dict[str, Sum] = field(default_factory=dict)
    stages: dict[str, Sum] = field(default_factory=dict)
    targets: dict[str, Sum] = field(default_factory=dict)
    workflows: dict[str, Sum] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """For ``--json``; every figure is a week's."""
        groups = {"systems": self.systems, "stages": self.stages, "targets": self.targets, "workflows": self.workflows}
        return {
            "weeks": self.weeks,
            "runs": self.runs,
            "prices": {"source": PRICES_SOURCE, "read_on": PRICES_DATE, "currency": "USD"},
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


def add_up(runs: Iterable[tuple[str, Sequence[Spent]]], *, weeks: int) -> Cost:
    """The sums over some runs: each its workflow's file name, and its jobs."""
    cost = Cost(weeks=weeks, runs=0, total=Sum())
    count = 0
    for workflow, jobs in runs:
        count += 1
        for job in jobs:
            stage, target = stage_of(job.name)
            cost.total.add(job)
            for group, key in (
                (cost.systems, system_of(job.labels)),
                (cost.stages, stage),
                (cost.targets, f"{stage}: {target}" if target else "other"),
                (cost.workflows, workflow),
            ):
                group.setdefault(key, Sum()).add(job)
    return Cost(
        weeks=weeks,
        runs=count,
        total=cost.total,
        systems=cost.systems,
        stages=cost.stages,
        targets=cost.targets,
        workflows=cost.workflows,
    )


def measure(timings: Timings, *, now: datetime, weeks: int) -> Cost:
    """What the last ``weeks`` weeks took: runs that have ended, with all their attempts."""
    from datetime import timedelta

    runs = (run for run in timings.workflow_runs(now - timedelta(weeks=weeks)) if run.status == "completed")
    return add_up(
        ((run.workflow, [spent for job in timings.jobs(run) if (spent := Spent.of(job))]) for run in runs), weeks=weeks
    )
