"""What runs on GitHub: runs, their jobs and concurrency groups, and the repository's workflows as Python.

A job calls what the command of its step calls. It can be killed at any of its requests, and when its time is up.
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mlir_release.builder.model.orders import TestOrder, read_orders
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.job_names import heading, sdk_jobs
from mlir_release.operate.issues import track_release
from mlir_release.release.index.generate import generate
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.steps import PUBLISH_ONLY
from mlir_release.release.transaction.sweep import sweep
from mlir_release.release.transaction.upload import upload
from tests.month.schedule import Killed
from tests.wheel_factory import make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from mlir_release.release.model.matrix_jobs import Row
    from tests.github_server import Dispatch
    from tests.month.month import Month

MINUTE, HOUR = 60.0, 3600.0


class Cancelled(Exception):
    """The run was cancelled; its remaining jobs do not run."""


class Broken(Exception):
    """What is built does not work; the toolkit is not to blame."""


@dataclass(eq=False)
class Run:
    """A workflow run."""

    id: int
    workflow: str
    ref: str
    inputs: dict[str, str]
    folder: Path  #: of its artifacts
    cancelled_at: datetime | None = None
    failed: bool = False
    rows: Sequence[Row] = ()  #: what is missing, a row for each platform

    @property
    def group(self) -> str:
        """The concurrency group."""
        return f"{self.workflow} {self.ref}{' publish' if self.inputs == PUBLISH_ONLY else ''}"


@dataclass
class Group:
    """A concurrency group: one run at a time, one that waits, and a newer one takes its place."""

    running: Run | None = None
    waiting: Run | None = None


class Workflows:
    """The runs of a repository."""

    def __init__(self, month: Month) -> None:
        self.month = month
        self.groups: dict[str, Group] = defaultdict(Group)
        self.bodies: dict[str, Callable[[Run], None]] = {
            "snapshot.yml": self.snapshot, "release.yml": self.release, "pages.yml": self.pages,
            "compiler-caches.yml": lambda run: self.month.schedule.sleep(300),
        }  # fmt: skip
        self.killed = 0  #: jobs
        self.out_of_time = 0  #: jobs
        self.failures: list[str] = []  #: of jobs, in the toolkit's words

    # -- runs ---------------------------------------------------------------------------------------------------

    def on_dispatch(self, repository: str, dispatch: Dispatch) -> None:
        """For :attr:`GitHubServer.on_dispatch`."""
        self.month.be_late(dispatch.run_id)
        self.queue(dispatch.workflow, dispatch.run_id, dispatch.ref, dispatch.inputs)

    def on_schedule(self, workflow: str) -> None:
        """A run that cron starts."""
        month = self.month
        number = month.server.add_run(month.repository_name, workflow, created=month.schedule.now)
        self.queue(workflow, number, "main", {})

    def queue(self, workflow: str, number: int, ref: str, inputs: dict[str, str]) -> None:
        """Start a run when its group lets it."""
        run = Run(number, workflow, ref, inputs, self.month.folder / f"run-{number}")
        group = self.groups[run.group]
        if group.running is None:
            group.running = run
            self._start(run)
            return
        if group.waiting is not None:
            self.month.server.finish_run(group.waiting.id, "cancelled")
        group.waiting = run

    def _start(self, run: Run) -> None:
        delay = self.month.random.uniform(5, 90)
        self.month.schedule.start(f"{run.workflow} {run.ref} {run.id}", partial(self._run, run), after=delay)

    def _run(self, run: Run) -> None:
        month = self.month
        body = self.bodies[run.workflow]
        month.mark(run.id, status="in_progress")
        run.cancelled_at = month.when_cancelled(run.workflow)
        try:
            body(run)
            conclusion = "failure" if run.failed else "success"
        except Cancelled:
            conclusion = "cancelled"
        month.server.finish_run(run.id, conclusion)
        group = self.groups[run.group]
        group.running, group.waiting = group.waiting, None
        if group.running is not None:
            self._start(group.running)

    def job(self, run: Run, name: str, act: Callable[[], None], *, minutes: float, queued: float = 0.5) -> bool:
        """Run a job in the current process; whether it succeeded. :raises Cancelled:"""
        month, schedule = self.month, self.month.schedule
        process = schedule.current
        assert process is not None
        schedule.sleep(month.random.uniform(0.1, 2 * queued) * MINUTE)
        if run.cancelled_at is not None and schedule.now >= run.cancelled_at:
            raise Cancelled
        started = schedule.now
        process.until, process.left = month.after(minutes * MINUTE), month.requests_until_killed()
        try:
            act()
            conclusion = "success"
        except Killed:
            in_time = schedule.now < process.until
            conclusion = "failure" if in_time else "cancelled"
            self.killed += in_time
            self.out_of_time += not in_time
        except (ReleaseError, Broken) as error:
            conclusion = "failure"
            self.failures.append(f"{schedule.now:%d %H:%M} {run.ref} {name}: {str(error).splitlines()[0]}")
        process.until, process.left, process.killed = None, None, False
        month.server.add_job(
            run.id, name, labels=["ubuntu-24.04"], started=started, completed=schedule.now, conclusion=conclusion,
        )  # fmt: skip
        run.failed |= conclusion != "success"
        return conclusion == "success"

    # -- snapshot.yml ---------------------------------------------------------------------------------------------

    def snapshot(self, run: Run) -> None:
        """Pin, tag, draft, dispatch; then look after what is pending, whether that worked or not."""
        bump = partial(self.month.make_snapshot, f"run-{run.id}")
        self.job(run, "bump: snapshot", bump, minutes=30)
        self.job(run, "publish: sweep pending snapshots", self._sweep, minutes=120)

    def _sweep(self) -> None:
        swept = sweep(self.month.forge, branch="main")
        if swept.failures:
            raise swept.failures[0]

    # -- release.yml ----------------------------------------------------------------------------------------------

    def release(self, run: Run) -> None:
        """Plan, a chain for each platform, publish, report."""
        schedule = self.month.schedule
        if not self.job(run, "plan: missing targets", partial(self._plan, run), minutes=90):
            return
        if run.inputs == PUBLISH_ONLY:
            run.rows = ()
        chains = [schedule.start(f"{run.ref} {row['runtime']}", partial(self._chain, run, row)) for row in run.rows]
        schedule.join(*chains)
        if run.rows:
            self.job(run, "sdk: save compiler caches", partial(self._dispatch_caches, run), minutes=90)
        self.job(run, "publish: verify and publish", partial(self._publish, run), minutes=180)
        self.job(run, "report: update issues", partial(self._track, run), minutes=90)

    def _plan(self, run: Run) -> None:
        run.rows = Draft.load(self.month.forge, run.ref).missing_rows("platforms")

    def _dispatch_caches(self, run: Run) -> None:
        self.month.forge.dispatch("compiler-caches.yml", ref="main", inputs={"run": str(run.id), "tag": run.ref})

    # -- platform.yml ---------------------------------------------------------------------------------------------

    def _chain(self, run: Run, row: Row) -> None:
        """SDK, wheels, tests, then their upload."""
        runtime = row["runtime"]
        dist, reports = run.folder / runtime, run.folder / "reports" / runtime
        wheels, tests = (json.loads(row[kind])["include"] if row[kind] else [] for kind in ("wheels", "tests"))

        def job(name: str, act: Callable[[], None], minutes: float = 180) -> bool:
            return self.job(run, f"{runtime} / {name}", act, minutes=minutes)

        with suppress(Cancelled):
            hours = self.month.sdk_hours(runtime)
            build = partial(self._build_sdk, runtime, hours * HOUR)
            if not job(sdk_jobs(runtime)[0], build, max(hours * 60 + 10, 355)):
                return
            if targets := row["fetch"].split():
                job(f"wheels: fetch from draft ({runtime})", partial(self._fetch, run, targets, dist))
            for group in wheels:
                build_group = partial(self._build_wheels, run, group, dist)
                job(f"wheels: {group['name']}", build_group, float(group["minutes"]))
            for group in tests:
                test_group = partial(self._run_tests, run, group, dist, reports)
                job(f"tests: {group['name']}", test_group, float(group["minutes"]))
            job(f"publish: upload wheels and test reports ({runtime})", partial(self._upload, run, dist, reports))

    def _fetch(self, run: Run, targets: Sequence[str], dist: Path) -> None:
        draft = Draft.load(self.month.forge, run.ref)
        for target in targets:
            draft.fetch_wheel(target, dist / target)

    def _build_sdk(self, runtime: str, seconds: float) -> None:
        self.month.schedule.sleep(seconds)
        if self.month.is_broken(runtime):
            raise Broken(f"LLVM does not compile on {runtime}")

    def _build_wheels(self, run: Run, group: Row, dist: Path) -> None:
        targets = group["targets"].split()
        self._each(targets, lambda target: self._build_wheel(run, target, dist))

    def _run_tests(self, run: Run, group: Row, dist: Path, reports: Path) -> None:
        orders = {order.name: order for order in read_orders(group["orders"], list[TestOrder])}
        self._each(list(orders), lambda target: self._test(run, orders[target], dist, reports))

    def _each(self, targets: Sequence[str], act: Callable[[str], None]) -> None:
        """As the command does: one after another, and failing at the end."""
        broken = []
        for target in targets:
            try:
                act(target)
            except Broken as error:
                broken += [heading(target), str(error)]
        if broken:
            raise Broken("\n".join(broken))

    def _build_wheel(self, run: Run, name: str, dist: Path) -> None:
        month = self.month
        month.schedule.sleep(month.random.uniform(3, 20) * MINUTE)
        if month.strikes("wheel"):
            raise Broken("the compiler ran out of memory")
        state = month.state_of(run.ref)
        target = month.matrix.wheel(name)
        tag = target.runtime.tag
        version = "".join(f"_{part}" for part in tag.version or ())
        make_wheel(
            dist / name, tag=run.ref, version=state.wheel_version, revision=state.revision, python=target.interpreter,
            platform=f"{tag.family}{version}_{tag.arch}", target=name, content=f"run {run.id}",
        )  # fmt: skip
        month.built[run.ref, name] += 1

    def _test(self, run: Run, order: TestOrder, dist: Path, reports: Path) -> None:
        month = self.month
        wheel = next((dist / order.wheel).glob("*.whl"), None) if order.wheel else None
        if wheel is None and order.wheel:
            raise Broken(f"there is no wheel {order.wheel}")
        month.schedule.sleep(month.random.uniform(2, 15) * MINUTE)
        passed = not month.strikes("test")
        failures = () if passed else ("x",)
        make_report(reports, wheel, suite=order.suite, target=order.name, passed=passed, failures=failures)
        if not passed:
            raise Broken("1 test failed")

    def _upload(self, run: Run, *folders: Path) -> None:
        for folder in folders:
            if folder.is_dir():
                upload(Draft.load(self.month.forge, run.ref), folder)

    def _publish(self, run: Run) -> None:
        forge = self.month.forge
        draft = Draft.load(forge, run.ref)
        reports = run.folder / "reports"
        if reports.is_dir():
            upload(draft, reports)
        publish(draft)
        forge.dispatch("pages.yml", ref="main", inputs={"tag": run.ref})

    def _track(self, run: Run) -> None:
        track_release(self.month.forge, run.ref, log_url=f"{self.month.server.url}/run/{run.id}")

    # -- pages.yml ------------------------------------------------------------------------------------------------

    def pages(self, run: Run) -> None:
        """Generate in an empty folder, deploy."""
        site = run.folder / "site"
        if self.job(run, "publish: generate pages", partial(self._generate, site), minutes=90):
            self.job(run, "publish: deploy pages", partial(self.month.deploy, site), minutes=30)

    def _generate(self, site: Path) -> None:
        generate(self.month.forge, site, base_url=self.month.pages_url)
