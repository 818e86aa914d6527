"""The repository, its month of trouble, and the time in which it happens."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha1
from random import Random
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter

from mlir_release.ground.console import console
from mlir_release.release.forge.base import Tag
from mlir_release.release.forge.files import matrix_of_branch
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.pinning.state import read_states
from mlir_release.release.transaction.start import start
from tests.github_stage import REPOSITORY, WORKFLOW, GitHubStage
from tests.month.people import People
from tests.month.schedule import Clock, Killed, Schedule
from tests.month.weather import Kind, Spell, Weather
from tests.month.workflows import HOUR, Workflows
from tests.revision_factory import make_revision
from tests.scale import kind_of
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

    from mlir_release.release.pinning.state import TagState

START = datetime(2026, 11, 1, tzinfo=UTC)

TARGETS = make_targets(
    make_row(suites=["smoke", "regression"]),
    make_row(runtime="macos-arm64"),
    make_row(runtime="windows-x64"),
    make_row(runtime="linux-aarch64", required=False),
    upstream="https://github.com/llvm/llvm-project.git",
    others={name: {"pythons": ["cp312"]} for name in ("linux-aarch64", "macos-arm64", "windows-x64")},
)

#: Required, and red for a week; experimental, and red for longer.
RED, EXPERIMENTAL = "windows-x64", "linux-aarch64"

#: What can happen to what is built, and to a job, in a hundred.
_ACCIDENTS = {"wheel": 1, "test": 1.5, "killed": 6, "cancelled": 3, "stuck": 1}

#: Rooms whose modules wait, or ask what time it is; those above the forge, and the two that they all use.
_ROOMS = ("release", "operate", "ground.programs.races", "ground.storage.download")


class Month(GitHubStage):
    """A month that begins at :data:`START`: trouble for all but its last days.

    :param days: how long it is
    :param calm: so many days at its end nothing goes wrong
    """

    def __init__(self, folder: Path, seed: int, *, days: int = 30, calm: int = 5) -> None:
        self.folder = folder
        self.random = Random(seed)
        self.schedule = Schedule(START)
        self.days = days
        self.calm = START + timedelta(days=days - calm)
        self.repository_name = REPOSITORY
        self.matrix = Matrix.parse(TARGETS)
        self.workflows = Workflows(self)
        files = {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": TARGETS.encode(), WORKFLOW: b"# 0\n"}
        super().__init__(folder, files, workflows=tuple(self.workflows.bodies), immutable=True)
        self.server.contract = None  # other tests hold these requests against it
        self.pages_url = f"{self.server.url}/pages/{REPOSITORY}/"
        self.commits = self._commits()
        self.weather = Weather(self._spells(), self.random, lambda: self.schedule.now, self.calm)
        self.people = People(self)
        self.built: Counter[tuple[str, str]] = Counter()  #: how often each target of a tag was built
        self.sites: dict[str, Any] = {}

    def clock(self) -> datetime:
        """The server's time is that of the schedule."""
        return self.schedule.now

    # -- what happens when ---------------------------------------------------------------------------------------

    def day(self, number: float) -> datetime:
        """A moment of the month, counted in days."""
        return START + timedelta(days=number)

    def part(self, number: float) -> datetime:
        """A moment of the month, counted in thirtieths of it."""
        return self.day(number * self.days / 30)

    def after(self, seconds: float) -> datetime:
        """A moment from now."""
        return self.schedule.now + timedelta(seconds=seconds)

    def _commits(self) -> list[tuple[datetime, str]]:
        """llvm-project's, with quiet hours in which a snapshot finds nothing new."""
        found, when = [(START, sha1(b"first").hexdigest())], START
        while when < self.day(self.days):
            when += timedelta(hours=self.random.expovariate(1 / 4))
            found.append((when, sha1(str(when).encode()).hexdigest()))
        return found

    def _spells(self) -> list[Spell]:
        """Each kind at least once where a snapshot begins, or it might only meet sleeping builds."""
        hour, draw = timedelta(hours=1), self.random.uniform
        kinds: list[tuple[Kind, timedelta, tuple[int, int] | None]] = [
            ("down", hour, (15, 10)),
            ("primary limit", hour * 0.7, (3, 15)),
            ("primary limit", hour * 0.5, None),
            ("secondary limit", hour * 0.2, (15, 15)),
            ("secondary limit", hour * 0.3, (3, 15)),
            ("secondary limit", hour * 0.4, (5, 40)),
            ("no dispatches", hour * 3, (3, 15)),
        ]
        found = []
        for kind, length, at in kinds:
            begin = self.day(draw(0.5, (self.calm - START).days - 1))
            begin = begin if at is None else begin.replace(hour=at[0], minute=at[1])
            found.append(Spell(kind, begin, begin + length))
        return found

    def upstream(self) -> str:
        """llvm-project's head."""
        return [sha for when, sha in self.commits if when <= self.schedule.now][-1]

    def strikes(self, accident: str) -> bool:
        """Whether it happens now."""
        return self.schedule.now < self.calm and self.random.random() * 100 < _ACCIDENTS[accident]

    def is_broken(self, runtime: str) -> bool:
        """Whether a platform is red."""
        begin, end = {RED: (8, 15), EXPERIMENTAL: (4, 17)}.get(runtime, (0, 0))
        return self.part(begin) <= self.schedule.now < self.part(end)

    def sdk_hours(self, runtime: str) -> float:
        """How long LLVM takes to compile; now and then an experimental platform's runner does not come for a day."""
        slow = runtime == EXPERIMENTAL and self.part(18) <= self.schedule.now < self.part(19)
        return 30.0 if slow else self.random.uniform(0.7, 2.5)

    def _sticks(self, name: str) -> bool:
        """Whether an upload stays in the state ``starter``."""
        sticks = self.strikes("stuck")
        self.weather.seen["stuck"] = self.weather.seen.get("stuck", 0) + sticks
        return sticks

    def requests_until_killed(self) -> int | None:
        """After how many requests a job's machine is lost, if it is."""
        return self.random.randint(1, 30) if self.strikes("killed") else None

    def when_cancelled(self, workflow: str) -> datetime | None:
        """When a run is cancelled, if it is."""
        return self.after(self.random.uniform(0, 4) * HOUR) if self.strikes("cancelled") else None

    def be_late(self, run_id: int) -> None:
        """A dispatched run is not listed at once."""
        seconds = 0.0 if self.schedule.now >= self.calm else self.random.choice((0.0, 2.0, 8.0, 25.0))
        self.repository.listed_from[run_id] = self.after(seconds)

    def hidden_reads(self) -> int:
        """How many reads do not show a ref that was just made."""
        return 0 if self.schedule.now >= self.calm else self.random.choice((0, 0, 1, 2, 4))

    # -- what the workflows and the people use ---------------------------------------------------------------------

    def make_snapshot(self, request: str) -> None:
        """What ``mlir-release snapshot`` does."""
        forge, revision = self.forge, make_revision(self.upstream())
        start(forge, revision, matrix_of_branch(forge), request_id=request)

    def mark(self, run_id: int, **fields: str) -> None:
        """Change a run's record."""
        for run in self.repository.runs:
            if run["id"] == run_id:
                run |= fields | {"updated": self.schedule.now}

    def deploy(self, site: Path) -> None:
        """What the action of GitHub does."""
        self.server.deploy_pages(REPOSITORY, site)
        self.sites = {
            path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()
        }

    def state_of(self, tag: str) -> TagState:
        """A tag's trailers, read from the repository itself."""
        return next(state for state in self.states if state.name == tag)

    @property
    def red_wheels(self) -> list[str]:
        """The targets of the platform that is red for a week."""
        return [wheel.name for wheel in self.matrix.wheels if wheel.runtime.name == RED]

    def runs_of(self, workflow: str) -> list[dict[str, Any]]:
        """The records of a workflow's runs."""
        return [run for run in self.repository.runs if run["workflow"] == workflow]

    @property
    def states(self) -> list[TagState]:
        """All tags of ours."""
        git = self.repository.git
        tags = [
            Tag(name=r.name.removeprefix("refs/tags/"), commit=r.commit, message=r.message)
            for r in git.refs("refs/tags/")
        ]
        published = {r.tag for r in self.repository.releases.values() if not r.draft}
        return read_states(tags, published)

    # -- time ----------------------------------------------------------------------------------------------------

    def live(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the month pass."""
        with self.server, self._in_its_time(monkeypatch):
            self.server.faults = self.weather.fault
            self.server.on_dispatch = self.workflows.on_dispatch
            self.server.stuck = self._sticks
            self.server.refs_appear_after = self.hidden_reads
            for day in range(self.days):
                for hour, minute in ((3, 17), (15, 17)):
                    self._cron(START + timedelta(days=day, hours=hour, minutes=minute))
                    self._merge_about(START + timedelta(days=day, hours=hour, minutes=minute))
            self.people.begin()
            try:
                self.schedule.run(self.day(self.days))
            finally:
                self.schedule.end()

    def _merge_about(self, when: datetime) -> None:
        """Now and then a change is merged while a snapshot is made."""
        if when < self.calm and self.random.random() < 0.25:
            seconds = (when - START).total_seconds() + self.random.uniform(0, 120)
            self.schedule.start("merge", self.merge, after=seconds)

    def _cron(self, when: datetime) -> None:
        draw = self.random.random()
        if when < self.calm:
            if draw < 0.04:  # dropped
                return
            if draw < 0.3:  # late
                when += timedelta(minutes=self.random.uniform(1, 55))
            elif draw < 0.45:  # someone does the same at the same moment
                seconds = (when - START).total_seconds() + self.random.uniform(0, 30)
                self.schedule.start("by hand", self.people.snapshot, after=seconds)
        seconds = (when - START).total_seconds()
        self.schedule.start("cron", partial(self.workflows.on_schedule, "snapshot.yml"), after=seconds)

    @contextmanager
    def _in_its_time(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """The toolkit's clock is the schedule's, and a process's requests are where others act and where it dies."""
        send, schedule, clock = HTTPAdapter.send, self.schedule, Clock(self.schedule)

        def slowly(adapter: HTTPAdapter, request: Any, **options: Any) -> Any:
            process = schedule.current
            if process is None:
                return send(adapter, request, **options)
            schedule.sleep(self.random.uniform(0.1, 0.8))
            if process.left is not None and process.left <= 0:
                process.killed = True
                raise Killed
            answer = send(adapter, request, **options)
            if process.left is not None:
                process.left -= 1
                if process.left == 0 and self.random.random() < 0.5:
                    process.killed = True
                    raise Killed
            return answer

        console.quiet = True
        with monkeypatch.context() as patch:
            patch.setattr(HTTPAdapter, "send", slowly)
            patch.setattr(random, "uniform", self.random.uniform)  # who loses a race waits so long
            for name, module in list(sys.modules.items()):
                if (
                    name.startswith(tuple(f"mlir_release.{room}" for room in _ROOMS))
                    and vars(module).get("time") is time
                ):
                    patch.setattr(module, "time", clock)
            yield

    def requests_per(self, span: timedelta, kind: str) -> Counter[int]:
        """How many requests of a kind (:data:`tests.scale.KINDS`, or ``writes``) each span of the month saw."""
        return Counter(
            (record.at - START) // span
            for record in self.server.requests
            if kind_of(record) == kind or (kind == "writes" and kind_of(record) == "rest" and record.method != "GET")
        )
