"""Runner minutes a week, and what they cost: per system, per stage and per target, from the runs' own timings. Pure.

Prices: GitHub's "Actions runner pricing", US dollars a minute from 2026-01-01 on, read in stored copies of the page and
of its source (github/docs) on 2026-11-21: check them before relying on them. Each job's time is rounded up to a whole
minute. Standard runners cost nothing in public repositories. What has no price here: :data:`NOT_PRICED`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlir_release.model.matrix_jobs import RESUMED
from mlir_release.model.targets import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from mlir_release.forge.base import Job, Timings

PRICES_SOURCE = "https://docs.github.com/en/billing/reference/actions-runner-pricing"
PRICES_DATE = "2026-11-21"

#: What the dollars leave out. The fee: github.com/resources/insights/2026-pricing-changes-for-github-actions.
NOT_PRICED = (
    "self-hosted runners: GitHub announced 0.002 a minute in December 2025 and postponed it before it took effect",
    "larger Linux and Windows runners: their labels are chosen by the organisation, so no label tells the size",
    "minutes that a plan includes, discounts, storage of artifacts and caches",
)


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a runner costs. ``standard``: nothing in a public repository."""

    label: re.Pattern[str]
    dollars: float  #: a minute
    standard: bool = True


#: The runners whose labels GitHub itself has chosen; a label fits one at most.
PRICES = (
    Price(label=re.compile(r"ubuntu-slim"), dollars=0.002),
    Price(label=re.compile(r"ubuntu-[0-9.]+-arm"), dollars=0.005),
    Price(label=re.compile(r"ubuntu-([0-9.]+|latest)"), dollars=0.006),
    Price(label=re.compile(r"windows-[0-9]+-arm"), dollars=0.008),
    Price(label=re.compile(r"windows-([0-9]+|latest)"), dollars=0.010),
    Price(label=re.compile(r"macos-([0-9]+|latest)(-intel)?"), dollars=0.062),
    Price(label=re.compile(r"macos-([0-9]+|latest)-large"), dollars=0.077, standard=False),
    Price(label=re.compile(r"macos-([0-9]+|latest)-xlarge"), dollars=0.102, standard=False),
)

_SYSTEMS = {"ubuntu": "linux", "windows": "windows", "macos": "macos"}
_WHEEL = re.compile(r"(?P<target>[a-z0-9][a-z0-9_-]*-cp3[0-9]+t?)")

#: Workflows whose jobs all belong to one stage.
WORKFLOW_STAGES = {
    "snapshot.yml": "bump",
    "numbered-release.yml": "bump",
    "compiler-caches.yml": "sdk",
    "pages.yml": "publish",
    "integrate.yml": "integrate",
    "ci.yml": "checks",
}

#: Jobs by their names, whatever the workflow's file is called: targets.toml may name another one than ``release.yml``,
#: and a downstream calls ``integrate.yml`` from its own. The other jobs of a release are named by the matrix.
JOB_STAGES = {
    "What is missing": "plan",
    "Keep what was compiled": "sdk",
    "Upload the wheels to the draft": "publish",
    "Verify and publish": "publish",
    "Put a final release on PyPI": "publish",
    "Keep the issues": "report",
    "Plan the round": "integrate",
    "Gather, advance, go on": "integrate",
    "Start": "integrate",
}
_PROBE = re.compile(r"Probe [0-9a-f]{40}")


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


def price_of(labels: Sequence[str]) -> Price | None:
    """None if GitHub publishes none, or the labels do not tell which one it is."""
    if "self-hosted" in labels:
        return None
    return next((price for label in labels for price in PRICES if price.label.fullmatch(label)), None)


def stage_of(name: str, workflow: str) -> tuple[str, str]:
    """The stage that a job belongs to, and its target or platform, if it has one.

    Stages: ``bump`` (select, pin, tag), ``plan``, ``sdk``, ``wheels``, ``tests``, ``publish`` (upload, verify, index,
    PyPI), ``report``, ``integrate``, ``checks`` (this repository's own) and ``other``.

    :param workflow: the workflow's file name
    """
    if stage := WORKFLOW_STAGES.get(workflow):
        return stage, ""
    name = name.removesuffix(RESUMED).rpartition(" / ")[2]
    if stage := JOB_STAGES.get(name):
        return stage, ""
    if _PROBE.fullmatch(name):
        return "integrate", ""
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
    dollars: float = 0.0  #: in a private repository, of the jobs that have a price
    dollars_in_public: float = 0.0
    unpriced: int = 0  #: billed minutes that have no price

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
            self.dollars += minutes * price.dollars
            self.dollars_in_public += 0 if price.standard else minutes * price.dollars

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
    targets: dict[str, Sum] = field(default_factory=dict)
    workflows: dict[str, Sum] = field(default_factory=dict)
    unpriced: dict[str, Sum] = field(default_factory=dict)  #: by the labels of runners that have no price

    def add(self, workflow: str, job: Spent) -> None:
        """Count one more job of a workflow (its file name)."""
        stage, target = stage_of(job.name, workflow)
        self.total.add(job)
        for group, key in (
            (self.systems, system_of(job.labels)),
            (self.stages, stage),
            (self.targets, f"{stage}: {target}" if target else stage),
            (self.workflows, workflow),
        ):
            group.setdefault(key, Sum()).add(job)
        if price_of(job.labels) is None:
            self.unpriced.setdefault(", ".join(job.labels), Sum()).add(job)

    def to_json(self) -> dict[str, object]:
        """For ``--json``; every figure is a week's."""
        groups = {
            "systems": self.systems,
            "stages": self.stages,
            "targets": self.targets,
            "workflows": self.workflows,
            "runners_without_price": self.unpriced,
        }
        return {
            "weeks": self.weeks,
            "runs": self.runs,
            "prices": {
                "source": PRICES_SOURCE,
                "read_on": PRICES_DATE,
                "currency": "USD",
                "not_priced": list(NOT_PRICED),
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
        """The total and what it is made of, in lines."""
        total = self.total
        lines = [
            f"a week: {total.seconds / 60 / self.weeks:.0f} minutes; {total.dollars / self.weeks:.2f} US dollars in a "
            f"private repository, {total.dollars_in_public / self.weeks:.2f} in a public one",
            *(
                f"no price: {entry.billed / self.weeks:.0f} minutes on {labels}"
                for labels, entry in sorted(self.unpriced.items())
            ),
            f"prices: {PRICES_SOURCE}, read on {PRICES_DATE}; not in them:",
            *(f"  {line}" for line in NOT_PRICED),
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


def measure(timings: Timings, *, now: datetime, weeks: int) -> Cost:
    """What the last ``weeks`` weeks took: runs that have ended, with all their attempts."""
    from datetime import timedelta

    runs = (run for run in timings.workflow_runs(now - timedelta(weeks=weeks)) if run.status == "completed")
    return add_up(
        ((run.workflow, [spent for job in timings.jobs(run) if (spent := Spent.of(job))]) for run in runs), weeks=weeks
    )
