#!/usr/bin/env python3
"""How long a snapshot waits for runners, by the number of targets that a job works on.

    python benchmarks/jobs.py [--seeds 20] [--private] [--targets FILE]

A simulation: an account has so many runners, and so many of macOS; other jobs, of a poll of pull requests, arrive at
random and keep a share of them busy; runners take what waits in its order. The snapshot's jobs are those of
``targets.toml`` with LLVM 22, which has a wheel for each CPython, and take what ``mlir-release cost --estimate``
assumes, give or take a fifth. SDKs come from compiler caches, or else they alone would decide. Nothing fails.
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from mlir_release.extras.cost.estimate import AROUND, sdk_minutes  # noqa: E402
from mlir_release.extras.cost.prices import prices  # noqa: E402
from mlir_release.release.model.matrix import Matrix  # noqa: E402
from mlir_release.release.model.matrix_jobs import expected_minutes, groups  # noqa: E402
from mlir_release.release.model.release_settings import TARGETS_FILE  # noqa: E402
from mlir_release.release.model.release_tags import SnapshotTag  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.release.model.wheel_target import TestTarget, WheelTarget

#: Runners of an account, and those of them that may be macOS: Free, Team, Enterprise.
#: Source: docs.github.com, "Actions limits", concurrency of standard runners.
ACCOUNTS = ((20, 5), (60, 5), (500, 50))

#: The share of the runners that other jobs keep busy on average, and how long one takes, in minutes.
LOADS = (0.0, 0.5, 0.9)
OTHER_MINUTES = 20.0

#: Targets of a job; None: all that it may have.
SIZES = (1, 2, 4, None)

#: Of an SDK, with a compiler cache that has most of it.
SDK_SHARE = 0.25

#: A job waits for a machine, even where the account has one free.
BOOT = 0.5


@dataclass(eq=False)
class Job:
    """A job, and those that it waits for."""

    minutes: float
    macos: bool
    needs: tuple[Job, ...] = ()
    ended: float | None = None
    next: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        for job in self.needs:
            job.next.append(self)


def snapshot(matrix: Matrix, size: int | None, random: Random, *, public: bool) -> list[Job]:
    """The jobs of a run of release.yml, the last of which publishes. ``size``: targets of a job."""

    def job(minutes: float, *needs: Job, macos: bool = False) -> Job:
        found.append(Job(minutes * random.uniform(0.8, 1.2), macos, needs))
        return found[-1]

    found: list[Job] = []
    plan, ends = job(2), []
    for runtime in matrix.runtimes:
        cores = prices().cores((runtime.runner,), public=public)
        macos = runtime.os == "macos"
        before: tuple[Job, ...] = (job(SDK_SHARE * sdk_minutes(runtime, cores), plan, macos=macos),)
        for stage, targets in (("wheels", matrix.wheels), ("tests", matrix.tests)):
            mine = [target for target in targets if target.runtime == runtime]
            before = tuple(
                job(AROUND[stage] + expected_minutes(part, cores), *before, macos=macos)
                for group in groups(mine).values()
                for part in parts(group, size)
            )
        ends.append(job(4, job(4, *before)))  # sign, upload
    signed = job(2, job(15, *ends))
    job(6, signed)
    return found


def parts(
    targets: Sequence[WheelTarget | TestTarget], size: int | None
) -> Iterator[Sequence[WheelTarget | TestTarget]]:
    """So many targets at a time."""
    step = size or len(targets)
    yield from (targets[begin : begin + step] for begin in range(0, len(targets), step))


def simulate(jobs: Sequence[Job], runners: int, macs: int, load: float, random: Random) -> float:
    """Minutes until the last of the jobs has ended, in an account that others have used for hours."""
    events: list[tuple[float, int, Job | None]] = []  # when; None: the snapshot begins
    numbers = iter(range(10**9))
    waiting: dict[bool, deque[Job]] = {False: deque(), True: deque()}
    free = {False: runners, True: macs}
    for macos, count in ((False, runners - macs), (True, macs)):
        for when in arrivals(load * count / OTHER_MINUTES, random):
            other = Job(random.expovariate(1 / OTHER_MINUTES), macos)
            heapq.heappush(events, (when, next(numbers), other))
    begin, left = 600.0, Counter({job: len(job.needs) for job in jobs})
    last = jobs[-1]
    heapq.heappush(events, (begin, next(numbers), None))
    running: set[int] = set()
    while last.ended is None:
        now, _, job = heapq.heappop(events)
        if job is None:
            ready = [one for one in jobs if not left[one]]
        elif id(job) in running:
            job.ended = now
            free[False] += 1
            free[True] += job.macos
            ready = []
            for after in job.next:
                left[after] -= 1
                ready += [after] if not left[after] else []
        else:
            ready = [job]
        for one in ready:
            waiting[one.macos].append(one)
        for macos in (True, False):
            while waiting[macos] and free[False] and (not macos or free[True]):
                one = waiting[macos].popleft()
                free[False] -= 1
                free[True] -= macos
                running.add(id(one))
                heapq.heappush(events, (now + BOOT + one.minutes, next(numbers), one))
    return last.ended - begin


def arrivals(rate: float, random: Random, until: float = 3000.0) -> Iterator[float]:
    """Moments at random, ``rate`` a minute."""
    when = random.expovariate(rate) if rate else until
    while when < until:
        yield when
        when += random.expovariate(rate)


def rows(targets: Path, *, seeds: int, public: bool) -> Iterator[list[str]]:
    """For each account and load: minutes to publication, by the number of targets of a job."""
    text = targets.read_text(encoding="utf-8")
    matrix = Matrix.parse(text).for_tag(SnapshotTag(date(2026, 11, 24), 1))
    sizes = [len(snapshot(matrix, size, Random(0), public=public)) for size in SIZES]
    macs = [sum(job.macos for job in snapshot(matrix, size, Random(0), public=public)) for size in SIZES]
    yield ["jobs of the run (on macOS)", "", *(f"{count} ({mac})" for count, mac in zip(sizes, macs, strict=True))]
    for runners, on_macos in ACCOUNTS:
        for load in LOADS:
            taken = []
            for size in SIZES:
                found = []
                for seed in range(seeds):
                    jobs = snapshot(matrix, size, Random(seed), public=public)
                    found.append(simulate(jobs, runners, on_macos, load, Random(seed + 1000)))
                taken.append(f"{median(found):.0f} ({max(found):.0f})")
            yield [f"{runners} runners, {on_macos} of macOS", f"{load:.0%}", *taken]


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="runs of each simulation (default: 20)")
    parser.add_argument("--private", action="store_true", help="a private repository, whose runners have fewer cores")
    parser.add_argument("--targets", type=Path, default=ROOT / TARGETS_FILE, help="a matrix (default: the shipped one)")
    arguments = parser.parse_args()
    names = [f"{size} a job" if size else "all of a group" for size in SIZES]
    print(f"| account | other load | {' | '.join(names)} |")
    print("|---|---|" + "--:|" * len(SIZES))
    for row in rows(arguments.targets, seeds=arguments.seeds, public=not arguments.private):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
