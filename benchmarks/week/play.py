"""Play weeks of a release repository's workflows on an account's runners."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING

from benchmarks.week.queue import BOOT, OTHER_MINUTES, Job, Queue, occupy
from benchmarks.week.requests import Log
from benchmarks.week.storage import size_of, sizes
from benchmarks.week.stores import CACHE_LIMIT, DAY, Artifacts, Caches
from benchmarks.week.workflows import cron_times
from mlir_release.extras.cost.estimate import AROUND, MONDAY, PlannedJob, planned_jobs
from mlir_release.extras.cost.measured import Cost, Spent, prices, system_of
from mlir_release.ground.llvm.projects import find_project
from mlir_release.release.forge.github.client import WRITES_PER_MINUTE
from mlir_release.release.model.matrix_jobs import expected_minutes, timeout
from mlir_release.release.model.release_tags import SnapshotTag
from mlir_release.release.model.wheel_target import WheelTarget

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from benchmarks.week.workflows import JobSpec, Workflow
    from mlir_release.release.model.matrix import Matrix
    from mlir_release.release.model.targets import Runtime

#: Weeks before the one that is reported: in so many, compiler caches grow to what they may have.
WARM_UP = 3

#: The part of an SDK that half a day's commits compile again; a change of a common header is a change of half of all.
CHANGED = 0.25

#: Minutes of a job that the estimate doesn't know, and of one that finds nothing to do. Assumed.
UNKNOWN, IDLE = 2.0, 1.0

#: Minutes of CI's jobs, assumed: fuzzing has its limit in its command; of the slow tests, a file.
CI = {"fuzz": 65.0, "mutants": 60.0, "slow-files": 5.0, "slow": 20.0}

#: What commands of the toolkit dispatch themselves, by the job that runs them; :mod:`.requests` counts it with them.
OWN_DISPATCHES = {"bump: snapshot": ("release.yml",), "publish: sweep pending snapshots": ("pages.yml",)}


@dataclass(frozen=True, kw_only=True)
class Account:
    """What GitHub gives the owner of a repository."""

    name: str
    runners: int
    macs: int
    minutes: int  #: included a month, of private repositories
    artifacts: float  #: bytes, of private repositories
    private_pages: bool


#: docs.github.com, "Actions limits" and "Product usage included with each plan", read in stored copies in 2026.
ACCOUNTS = (
    Account(name="Free", runners=20, macs=5, minutes=2000, artifacts=500e6, private_pages=False),
    Account(name="Team", runners=60, macs=5, minutes=3000, artifacts=2e9, private_pages=True),
    Account(name="Enterprise Cloud", runners=500, macs=50, minutes=50000, artifacts=50e9, private_pages=True),
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A repository, and what is switched on there."""

    matrix: Matrix
    workflows: Mapping[str, Workflow]
    account: Account = ACCOUNTS[0]
    public: bool = True  #: others sign nothing: GitHub lets none but Enterprise Cloud's
    ci: bool = True
    slow_files: int = 0  #: of CI's tests
    per_job: int | None = None  #: targets; None: as many as a job may have
    per_day: int | None = None  #: snapshots; None: as the schedule says
    weekly: bool = False  #: snapshots on Mondays alone, of what is due every day
    deletes: bool = False  #: superseded caches
    entry_limit: float = CACHE_LIMIT  #: bytes

    @property
    def signed(self) -> bool:
        """Whether releases are."""
        return self.public and self.matrix.release.provenance != "none"

    def due(self, day: int) -> Matrix:
        """The targets of a day's snapshots; days are counted from a Monday."""
        return self.matrix.for_tag(SnapshotTag(MONDAY + timedelta(days=day), 1))

    def planned(self, day: int) -> list[PlannedJob]:
        """The jobs of a day's snapshot."""
        due = self.due(day if not self.weekly else 1)
        return [part for job in planned_jobs(due, public=self.public) for part in self._parts(job)]

    def _parts(self, job: PlannedJob) -> Iterator[PlannedJob]:
        """So many targets at a time. What a job takes beside them, each part takes."""
        if not job.targets or self.per_job is None:
            yield job
            return
        assert job.runtime is not None
        cores = prices().cores((job.runtime.runner,), public=self.public)
        around = job.minutes - expected_minutes(job.targets, cores)
        for begin in range(0, len(job.targets), self.per_job):
            part = job.targets[begin : begin + self.per_job]
            minutes = around + expected_minutes(part, cores)
            yield replace(job, name=f"{job.name} {begin}", targets=part, minutes=minutes)


@dataclass(eq=False, kw_only=True)
class Run:
    """A run of a workflow. ``day``: of its snapshot; ``has_tag``: the input ``tag``"""

    workflow: str
    day: int
    snapshot: int
    has_tag: bool = False
    cron: str = ""


@dataclass(frozen=True, kw_only=True)
class Restored:
    """How an SDK found its compiler cache."""

    runtime: str
    day: int
    hit: bool
    compiled: float  #: the part of the SDK that was compiled
    minutes: float


@dataclass(kw_only=True)
class Week:
    """What a week was like, after :data:`WARM_UP`. Minutes are counted from the first week's Monday."""

    spent: list[tuple[int, str, Spent]] = field(default_factory=list)  #: day of the week, workflow, job
    published: list[float] = field(default_factory=list)  #: minutes from the tags of the week
    restored: list[Restored] = field(default_factory=list)
    caches: Caches = field(default_factory=Caches)
    artifacts: Artifacts = field(default_factory=Artifacts)
    requests: Log = field(default_factory=Log)
    limits: dict[str, float] = field(default_factory=dict)  #: by job's name: the most that it used of its time limit

    first_day = WARM_UP * 7
    begin = WARM_UP * 7 * DAY

    def cost(self, days: Container[int] = range(7)) -> Cost:
        """What some days cost; 0: Monday."""
        total = Cost(weeks=1)
        for day, workflow, spent in self.spent:
            if day in days:
                total.add(workflow, spent)
        return total

    def macs(self, days: Container[int], workflow: str | None = None) -> int:
        """Jobs on macOS."""
        return sum(
            system_of(spent.labels) == "macos"
            for day, name, spent in self.spent
            if day in days and workflow in (None, name)
        )


class Player:
    """The events of a repository, and what they do to its stores."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self.setting, self.week, self.random = setting, Week(), Random(seed)
        self.queue = Queue(setting.account.runners, setting.account.macs)
        self.counts_from = self.week.first_day
        self._numbers = count()
        self._matched: dict[tuple[str, int], dict[tuple[str, str], list[PlannedJob]]] = {}
        self._lacking: dict[tuple[str, bool, str], set[str]] = {}
        self._busy: set[str] = set()
        self._pending: dict[str, Run] = {}
        self._tagged: dict[int, float] = {}
        self._compiled: dict[tuple[int, str], tuple[float, float]] = {}  # by snapshot and runtime: bytes, when
        #: By the day of the week; 0: Monday.
        self._planned = {day: setting.planned(day) for day in range(7)}
        #: Wheels and tests, by that and a platform's name; "": of all platforms.
        self._handled: dict[tuple[int, str], tuple[int, int]] = {}
        for day, jobs in self._planned.items():
            for name in ("", *(job.runtime.name for job in jobs if job.runtime is not None)):
                mine = [one for job in jobs for one in job.targets if name in ("", one.runtime.name)]
                wheels = sum(isinstance(one, WheelTarget) for one in mine)
                self._handled[day, name] = wheels, len(mine) - wheels

    def play(self) -> Week:
        """The weeks of warming up, and the one that counts."""
        days = 7 * (WARM_UP + 1)
        for workflow in self.setting.workflows.values():
            if workflow.name == "ci.yml" and not self.setting.ci:
                continue
            for cron in workflow.crons:
                times, seen = list(cron_times(cron, days)), defaultdict[int, int](int)
                for when in times:
                    day = int(when // DAY)
                    seen[day] += 1
                    if workflow.name == "snapshot.yml" and (
                        (self.setting.per_day is not None and seen[day] > self.setting.per_day)
                        or (self.setting.weekly and day % 7)
                    ):
                        continue
                    run = Run(workflow=workflow.name, day=day, snapshot=next(self._numbers), cron=cron)
                    self.queue.at(when, self.start, run)
        self.queue.at(self.week.begin, self.week.caches.count_anew)
        self.queue.run()
        return self.week

    # -- runs ---------------------------------------------------------------------------------------------------------

    def start(self, run: Run) -> None:
        """Start a run, or have it wait for one of its group; a run that waits already is replaced."""
        group = self.setting.workflows[run.workflow].group
        if group and group in self._busy:
            self._pending[group] = run
            return
        self._busy |= {group} - {""}
        jobs = self._jobs(run)
        left = len(jobs)

        def ended(job: Job, then: object) -> None:
            nonlocal left
            left -= 1
            if callable(then):
                then(job)
            if not left:
                self._end(run, group)

        for job in jobs:
            job.then = partial(ended, then=job.then)
        self.queue.submit(jobs)

    def _end(self, run: Run, group: str) -> None:
        if run.workflow == "compiler-caches.yml" and self.setting.deletes:
            gone = sum(self.week.caches.delete_superseded(self.prefix(one)) for one in self.setting.matrix.runtimes)
            for kind in ("rest", "writes"):
                self.week.requests.spread(kind, self.queue.now, self.queue.now + gone / WRITES_PER_MINUTE, gone)
        self._busy.discard(group)
        if group in self._pending:
            self.start(self._pending.pop(group))

    def _jobs(self, run: Run) -> list[Job]:
        """The jobs of a run, those of the workflows that it calls in the place of the callers."""
        made: dict[tuple[str, str], list[tuple[Runtime | None, Job]]] = {}
        self._expand(run, run.workflow, [], self._plans(run.workflow, run.day % 7), made)
        return list(dict.fromkeys(job for found in made.values() for _, job in found))

    def _plans(self, workflow: str, day: int) -> Mapping[tuple[str, str], list[PlannedJob]]:
        """What a snapshot plans for a workflow, by the file and the job of it that has such a name."""
        if (workflow, day) in self._matched:
            return self._matched[workflow, day]
        workflows = self.setting.workflows
        files = [workflow, *(job.called for job in workflows[workflow].jobs.values() if job.called)]
        specs = [(file, spec) for file in files for spec in workflows[file].jobs.values() if not spec.called]
        mine = self._matched[workflow, day] = defaultdict(list)
        for job in self._planned[day]:
            if job.workflow != workflow:
                continue
            fitting = [(spec.literal, file, spec.key) for file, spec in specs if spec.pattern.fullmatch(job.name)]
            if not fitting:
                raise LookupError(f"no job of {' and '.join(files)} is called {job.name}")
            mine[max(fitting)[1:]].append(job)
        return mine

    def _expand(
        self,
        run: Run,
        file: str,
        before: list[Job],
        mine: Mapping[tuple[str, str], list[PlannedJob]],
        made: dict[tuple[str, str], list[tuple[Runtime | None, Job]]],
    ) -> None:
        """Make the jobs of a workflow file. ``before``: what all of them wait for"""
        workflow = self.setting.workflows[file]
        lacking = self._lacking.get((file, run.has_tag, run.cron))
        if lacking is None:
            lacking = workflow.lacks(signed=self.setting.signed, has_tag=run.has_tag, cron=run.cron)
            self._lacking[file, run.has_tag, run.cron] = lacking
        for key, spec in workflow.jobs.items():
            needed = [pair for need in spec.needs for pair in made.get((file, need), ())]
            if key in lacking:
                continue
            if spec.called:
                self._expand(run, spec.called, [job for _, job in needed], mine, made)
                made[file, key] = [pair for (where, _), pairs in made.items() if where == spec.called for pair in pairs]
                continue
            made[file, key] = [
                (plan.runtime, self._job(run, spec, plan, before, needed))
                for plan in mine.get((file, key)) or self._unplanned(run, spec)
            ]
            if file == "compiler-caches.yml" and spec.saves:
                made[file, key] += [
                    (plan.runtime, self._job(run, spec, plan, before, needed)) for plan in self._idle(workflow, run)
                ]

    def _unplanned(self, run: Run, spec: JobSpec) -> list[PlannedJob]:
        """A job that the estimate doesn't know. Of one whose name tells what it works for, there is none."""
        if run.workflow != "ci.yml" and spec.literal < len(spec.title):
            return []
        times = self.setting.slow_files if (run.workflow, spec.key) == ("ci.yml", "slow") else 1
        minutes = CI.get(spec.key, UNKNOWN) if run.workflow == "ci.yml" else UNKNOWN
        return [PlannedJob(workflow=run.workflow, name=spec.title, minutes=minutes)] * times

    def _idle(self, workflow: Workflow, run: Run) -> list[PlannedJob]:
        """Where the workflow asks for all platforms, those that save nothing, because nothing was due there."""
        asks = next((job.commands for job in workflow.jobs.values() if "matrix --kind sdk" in job.commands), "")
        if "matrix --kind sdk --github" not in asks:
            return []
        due = {job.runtime.name for job in self._planned[run.day % 7] if job.runtime is not None}
        return [
            PlannedJob(
                workflow=workflow.name,
                name=f"sdk: compiler cache {one.name}",
                minutes=IDLE,
                labels=(one.runner,),
                runtime=one,
            )
            for one in self.setting.matrix.runtimes
            if one.name not in due
        ]

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _job(
        self, run: Run, spec: JobSpec, plan: PlannedJob, before: list[Job], needed: list[tuple[Runtime | None, Job]]
    ) -> Job:
        near = [
            job
            for runtime, job in needed
            if runtime is None or plan.runtime is None or runtime.name == plan.runtime.name
        ]
        luck = self.random.uniform(0.8, 1.2)
        return Job(
            name=plan.name,
            macos=system_of(plan.labels) == "macos",
            length=lambda: luck * (self._sdk_minutes(run, plan) if spec.restores else plan.minutes),
            needs=[*before, *near],
            then=lambda job: self._ended(run, spec, plan, job),
        )

    def prefix(self, runtime: Runtime) -> str:
        """What the keys of a platform's compiler caches begin with."""
        return f"compiled-sdk-{runtime.name}-"

    def _sdk_minutes(self, run: Run, plan: PlannedJob) -> float:
        """Restore a compiler cache, and compile what it lacks."""
        runtime, now = plan.runtime, self.queue.now
        assert runtime is not None
        entry = self.week.caches.restore(self.prefix(runtime), now)
        whole = find_project(runtime.project).sdk_core_minutes / find_project("mlir").sdk_core_minutes
        fresh = 1e6 * sizes().cache_mb * whole
        changed = 1.0
        if entry is not None:
            changed = 1 - (1 - CHANGED) ** ((now - entry.built) / (DAY / 2)) * min(1.0, entry.size / fresh)
        held = (entry.size if entry is not None else 0.0) + changed * fresh
        self._compiled[run.snapshot, runtime.name] = min(held, self.setting.entry_limit), now
        minutes = AROUND["sdk"] + changed * (plan.minutes - AROUND["sdk"])
        if run.day >= self.week.first_day:
            self.week.restored.append(
                Restored(
                    runtime=runtime.name,
                    day=run.day - self.week.first_day,
                    hit=entry is not None,
                    compiled=changed,
                    minutes=minutes,
                )
            )
        return minutes

    def _ended(self, run: Run, spec: JobSpec, plan: PlannedJob, job: Job) -> None:
        week, minutes = self.week, job.ended - job.began - BOOT
        if run.day >= week.first_day:
            spent = Spent(name=plan.name, labels=plan.labels, seconds=60 * minutes)
            week.spent.append((run.day - week.first_day, run.workflow, spent))
        limit = spec.timeout or (timeout(plan.targets) if plan.targets else None)
        if limit:
            week.limits[plan.name] = max(week.limits.get(plan.name, 0.0), minutes / limit)
        key = run.day % 7, plan.runtime.name if plan.runtime is not None else ""
        wheels, tests = self._handled.get(key, (0, 0))
        dispatches = [workflow for workflow, if_signed in spec.dispatches if self.setting.signed or not if_signed]
        if run.day >= week.first_day:
            week.requests.add(job, run.day - week.first_day, wheels=wheels, tests=tests, dispatches=len(dispatches))
        for upload in spec.uploads:
            size = self._size(run, plan, upload.name, len(plan.targets) or wheels + tests)
            if size:
                week.artifacts.upload(upload.name, size, self.queue.now, days=upload.days)
        if spec.saves and plan.runtime is not None and (run.snapshot, plan.runtime.name) in self._compiled:
            size, built = self._compiled.pop((run.snapshot, plan.runtime.name))
            week.caches.save(f"{self.prefix(plan.runtime)}{run.snapshot}", size, self.queue.now, built=built)
        if spec.title == "bump: snapshot":
            self._tagged[run.snapshot] = self.queue.now
        last = "publish: verify and publish (signed)" if self.setting.signed else "publish: verify and publish"
        if plan.name == last and run.day >= self.counts_from:
            week.published.append(self.queue.now - self._tagged[run.snapshot])
        for workflow in (*OWN_DISPATCHES.get(plan.name, ()), *dispatches):
            if workflow in self.setting.workflows:
                has_tag = workflow == "pages.yml" and run.workflow == "release.yml"
                self.start(Run(workflow=workflow, day=run.day, snapshot=run.snapshot, has_tag=has_tag))

    def _size(self, run: Run, plan: PlannedJob, name: str, files: int) -> float:
        known = sizes().artifact(name)
        more = 0.0
        if name.startswith("wheels-"):
            more = sum(size_of(wheel.configuration) for wheel in plan.targets)
        elif name.startswith("compiled-") and plan.runtime is not None:
            more = self._compiled[run.snapshot, plan.runtime.name][0]
        return 1e6 * (known.mb + known.per_file * files) + more


def fitting_size(matrix: Matrix, limit: float = CACHE_LIMIT) -> float:
    """Bytes that a compiler cache may have, so that all platforms' fit beside the successors that a day makes at most.

    More than one and a half times what a build compiles is of no use.
    """
    days = (SnapshotTag(MONDAY + timedelta(days=day), 1) for day in range(7))
    most = max(len(matrix.for_tag(day).runtimes) for day in days)
    return min(limit / max(len(matrix.runtimes) + most, 1), 1.5e6 * sizes().cache_mb)


def time_to_publication(setting: Setting, load: float, seed: int) -> float:
    """Minutes from the tag of one snapshot to its publication, on an ordinary day.

    :param load: the part of the account's runners that others' jobs keep busy
    """
    player = Player(setting, seed)
    queue, account, begin = player.queue, setting.account, 600.0
    for runtime in setting.due(1).runtimes:
        player.week.caches.save(player.prefix(runtime), 1e6 * sizes().cache_mb, 0.0, built=begin - DAY / 2)
    for macos, runners in ((False, account.runners - account.macs), (True, account.macs)):
        occupy(queue, load * runners / OTHER_MINUTES, player.random, macos=macos)
    player.counts_from = 0
    queue.at(begin, player.start, Run(workflow="snapshot.yml", day=1, snapshot=0))
    queue.run(lambda: bool(player.week.published))
    return player.week.published[0]
