"""Jobs on an account's runners: they take what waits in its order."""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

#: A job waits for a machine, even where the account has one free: minutes.
BOOT = 0.5

#: How long one of others' jobs takes on average, in minutes.
OTHER_MINUTES = 20.0


@dataclass(eq=False, kw_only=True)
class Job:
    """A job, and those that it waits for."""

    name: str
    macos: bool = False
    length: Callable[[], float]  #: minutes, asked for when it begins
    needs: Iterable[Job] = ()
    then: Callable[[Job], None] = lambda _: None  #: called when it has ended
    began: float = math.nan
    ended: float = math.nan
    left: int = field(init=False)
    next: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        waits_for = [job for job in self.needs if math.isnan(job.ended)]
        self.left = len(waits_for)
        for job in waits_for:
            job.next.append(self)


class Queue:
    """An account with so many runners, and so many of them on macOS. Time is in minutes."""

    def __init__(self, runners: int, macs: int) -> None:
        self.now = 0.0
        self._free = {False: runners, True: macs}
        self._waiting: dict[bool, deque[Job]] = {False: deque(), True: deque()}
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()

    def at(self, when: float, action: Callable[..., None], *arguments: Any) -> None:
        """Have something called at a moment."""
        heapq.heappush(self._events, (when, next(self._numbers), action, arguments))

    def submit(self, jobs: Iterable[Job]) -> None:
        """Jobs that there are from now on. Those that wait for others come when these have ended."""
        for job in jobs:
            if not job.left:
                self._waiting[job.macos].append(job)
        self._take()

    def run(self, done: Callable[[], bool] = lambda: False) -> None:
        """Go on until something is so, or nothing is left to do."""
        while self._events and not done():
            self.now, _, action, arguments = heapq.heappop(self._events)
            action(*arguments)

    def _take(self) -> None:
        for macos in (True, False):
            waiting = self._waiting[macos]
            while waiting and self._free[False] and (not macos or self._free[True]):
                job = waiting.popleft()
                self._free[False] -= 1
                self._free[True] -= macos
                job.began = self.now
                self.at(self.now + BOOT + job.length(), self._end, job)

    def _end(self, job: Job) -> None:
        job.ended = self.now
        self._free[False] += 1
        self._free[True] += job.macos
        job.then(job)
        for after in job.next:
            after.left -= 1
        self.submit(after for after in job.next if not after.left)


def occupy(queue: Queue, rate: float, random: Random, *, macos: bool) -> None:
    """Have others' jobs come at random, ``rate`` a minute, as if they had done so for long."""

    def job() -> Job:
        minutes = random.expovariate(1 / OTHER_MINUTES)
        return Job(name="other", macos=macos, length=lambda: minutes)

    def arrive() -> None:
        queue.submit([job()])
        queue.at(queue.now + random.expovariate(rate), arrive)

    if rate:
        queue.submit(job() for _ in range(round(rate * OTHER_MINUTES)))
        queue.at(queue.now + random.expovariate(rate), arrive)
