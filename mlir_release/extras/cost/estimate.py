"""Estimate a week of snapshots from the build matrix, before there are runs to measure. Pure.

Each project says what its work takes, and what it was measured by.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal

from mlir_release.builder.model.suites import BINDINGS, CORE_MINUTES
from mlir_release.extras.cost.measured import Cost, Spent, prices
from mlir_release.ground.job_names import canary_job, sdk_jobs
from mlir_release.ground.llvm.projects import find_project
from mlir_release.release.model.matrix_jobs import MINUTES_A_TARGET, core_minutes, expected_minutes, groups
from mlir_release.release.model.release_tags import SnapshotTag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mlir_release.release.model.matrix import Matrix
    from mlir_release.release.model.targets import Runtime
    from mlir_release.release.model.wheel_target import TestTarget, WheelTarget

#: Minutes of a job beside its work, whatever the runner: checking out, installing the toolkit, moving SDKs and wheels.
#: The work is what each project says (:class:`~mlir_release.ground.llvm.projects.Project`).
AROUND: Mapping[str, float] = {"sdk": 6, "wheels": 4, "tests": 3}

#: The other jobs of one snapshot: workflow, name, and minutes, all assumed; runner: :data:`OTHER_RUNNER`.
OTHERS = (
    ("snapshot.yml", "bump: snapshot", 2),
    ("snapshot.yml", "publish: sweep pending snapshots", 2),
    ("release.yml", "plan: missing targets", 2),
    ("release.yml", "sdk: save compiler caches", 2),
    ("compiler-caches.yml", "sdk: list platforms", 2),
    ("compiler-caches.yml", "sdk: delete superseded compiler caches", 2),
    ("release.yml", "publish: verify and publish", 15),
    ("release.yml", "publish: sign the manifest", 2),
    ("release.yml", "publish: verify and publish (signed)", 6),
    ("release.yml", "report: update issues", 2),
    ("latest.yml", "publish: sign the latest", 2),
    ("latest.yml", "publish: store the latest", 2),
    ("pages.yml", "publish: generate pages", 4),
    ("pages.yml", "publish: deploy pages", 1),
    ("pages.yml", "publish: dispatch checks", 1),
    ("probe.yml", "publish: clean-environment check", 6),
    ("canary.yml", "plan: canaries", 2),
    ("canary.yml", "publish: record canaries", 2),
)
OTHER_RUNNER = ("ubuntu-24.04",)

#: Runs of a workflow for one snapshot, if not one: the pages show its beginning and its publication.
#: The pointer is signed again once the canaries have run.
RUNS = {"pages.yml": 2, "latest.yml": 2}

#: Minutes of a canary, assumed: three took one to five on a busy machine.
_CANARY = 6

_CRON = re.compile(r"""^\s*-\s*cron:\s*["'](?P<minutes>\S+) (?P<hours>\S+) \* \* \*["']""", re.MULTILINE)

MONDAY = date(2026, 1, 5)  # any: weekly configurations are built on Mondays


def estimate(matrix: Matrix, *, per_day: int = 2, public: bool) -> Cost:
    """A week of snapshots that all succeed at the first attempt.

    :param per_day: snapshots of new revisions a day
    :param public: whether the repository is public: its standard runners have more cores
    """
    cost = Cost(weeks=1)
    for day in range(7):
        for number in range(1, per_day + 1):
            add_snapshot(cost, matrix.for_tag(SnapshotTag(MONDAY + timedelta(days=day), number)), public=public)
    return cost


def sdk_minutes(runtime: Runtime, cores: int) -> float:
    """The minutes of a runtime's SDK, without a compiler cache, on a runner with so many cores."""
    return AROUND["sdk"] + find_project(runtime.project).sdk_core_minutes / cores


def _runs(job: tuple[str, str, int], matrix: Matrix) -> int:
    """The runs of one of :data:`OTHERS` for a snapshot. The checks are dispatched only when it is published."""
    workflow, name, _ = job
    if name == "publish: record canaries" and not matrix.canaries:
        return 0
    if workflow == "latest.yml" and not matrix.canaries:
        return 1
    return 1 if name == "publish: dispatch checks" else RUNS.get(workflow, 1)


@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """A job of a snapshot that succeeds at the first attempt."""

    workflow: str  #: that is started for it; platform.yml's jobs are of release.yml
    name: str
    labels: tuple[str, ...] = OTHER_RUNNER
    minutes: float
    runs: int = 1  #: for the snapshot
    runtime: Runtime | None = None  #: the platform that it works for
    targets: tuple[WheelTarget | TestTarget, ...] = ()  #: that it builds or tests


def planned_jobs(matrix: Matrix, *, public: bool) -> Iterator[PlannedJob]:
    """The jobs of one snapshot, with those of the workflows that it dispatches.

    :param matrix: of the targets that are due
    """
    for other in OTHERS:
        workflow, name, taken = other
        yield PlannedJob(workflow=workflow, name=name, minutes=taken, runs=_runs(other, matrix))
    for canary in matrix.canaries:
        yield PlannedJob(workflow="canary.yml", name=canary_job(canary.name, ""), minutes=_CANARY)
    for runtime in matrix.runtimes:
        cores = prices().cores((runtime.runner,), public=public)
        job = partial(PlannedJob, workflow="release.yml", runtime=runtime)
        mine = partial(job, labels=(runtime.runner,))
        yield mine(name=sdk_jobs(runtime.name)[0], minutes=sdk_minutes(runtime, cores))
        for stage, targets in (("wheels", matrix.wheels), ("tests", matrix.tests)):
            for name, group in groups([target for target in targets if target.runtime == runtime]).items():
                minutes = AROUND[stage] + expected_minutes(group, cores)
                yield mine(name=f"{stage}: {name}", minutes=minutes, targets=tuple(group))
        for work in ("sign", "upload"):
            yield job(name=f"publish: {work} wheels and test reports ({runtime.name})", minutes=4)
        yield mine(workflow="compiler-caches.yml", name=f"sdk: compiler cache {runtime.name}", minutes=3)


def add_snapshot(cost: Cost, matrix: Matrix, *, public: bool) -> None:
    """Count one snapshot: its :func:`planned_jobs`."""
    cost.runs += sum(RUNS.get(workflow, 1) for workflow in {workflow for workflow, _, _ in OTHERS})
    for job in planned_jobs(matrix, public=public):
        for _ in range(job.runs):
            cost.add(job.workflow, Spent(name=job.name, labels=job.labels, seconds=60 * job.minutes))


def runs_a_day(workflow: str) -> int:
    """How often a workflow's text has it start each day: lists of minutes and hours, as ``17 3,15 * * *``."""

    def count(entry: str, whole: int) -> int:
        star, _, step = entry.partition("/")
        return -(-whole // int(step or 1)) if star == "*" else len(entry.split(","))

    return sum(count(match["minutes"], 60) * count(match["hours"], 24) for match in _CRON.finditer(workflow))


def comparison(private: Cost, public: Cost, group: Literal["stages", "systems"]) -> list[list[object]]:
    """Rows of a table: name, jobs a week, minutes and US dollars in a private repository, minutes in a public one.

    The last row is the total.
    """
    mine, theirs = getattr(private, group), getattr(public, group)
    rows = [(name, mine[name], theirs[name]) for name in sorted(mine, key=lambda name: -mine[name].dollars)]
    return [
        [name, one.jobs, f"{one.billed:,}", f"{one.dollars:,.0f}" + (" + ?" if one.unpriced else ""), f"{two.billed:,}"]
        for name, one, two in [*rows, ("together", private.total, public.total)]
    ]


def assumptions(matrix: Matrix, per_day: int) -> list[str]:
    """The assumptions of the estimate, one item a line."""
    wheels: dict[str, dict[str, float]] = {}
    for wheel in matrix.wheels:
        wheels.setdefault(wheel.configuration.project, {})[wheel.distribution] = core_minutes(wheel)
    projects = []
    for name, minutes in wheels.items():
        project = find_project(name)
        of_wheels = ", ".join(f"{value:g} ({distribution})" for distribution, value in minutes.items())
        if len(set(minutes.values())) == 1:
            of_wheels = f"{next(iter(minutes.values())):g}"
        tests = project.suite_core_minutes.get(BINDINGS, CORE_MINUTES[BINDINGS])
        projects.append(
            f"{name}: core minutes of an SDK: {project.sdk_core_minutes:g}, of a wheel: {of_wheels}, of the tests of "
            f"bindings: {tests:g} ({project.measured or 'assumed'})"
        )
    return [
        f"snapshots of new revisions a day: {per_day}; each succeeds at the first attempt, and each SDK takes one job",
        "private repositories have 2 cores on Linux and Windows, public ones 4; macOS 3 (arm64) or 4 (Intel)",
        *projects,
        f"each job: {', '.join(f'{stage} {minutes:g}' for stage, minutes in AROUND.items())} minutes more; "
        f"each target of a job: {MINUTES_A_TARGET:g}",
        f"the other jobs of a snapshot: {sum(_runs(job, matrix) * job[2] for job in OTHERS)} minutes (assumed)",
    ]
