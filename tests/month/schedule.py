"""Time that is not waited for: processes that sleep and wake by a clock of their own, one at a time.

Each process is a thread, but only one of them runs: the others sleep. So the toolkit's own code, which blocks, can be
interleaved at its requests, always in the same order.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Killed(BaseException):
    """The machine that a process ran on is gone; nothing that it would still do happens."""


@dataclass(eq=False)
class Process:
    """Something that goes on. Its time and its requests may be limited, and then it is killed."""

    name: str
    act: Callable[[], None]
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    waiting: list[Process] = field(default_factory=list)  #: for it to end
    done: bool = False
    killed: bool = False
    until: datetime | None = None  #: its time limit
    left: int | None = None  #: requests that it still makes
    error: BaseException | None = None


class Schedule:
    """The clock, and who is to wake up when. ``now`` is read by everyone and never runs back."""

    def __init__(self, start: datetime) -> None:
        self.now = start
        self._queue: list[tuple[datetime, int, Process]] = []
        self._numbers = itertools.count()
        self._mine = threading.local()
        self._idle = threading.Semaphore(0)
        self._over = False

    @property
    def current(self) -> Process | None:
        """The process that this thread is; None outside."""
        return getattr(self._mine, "process", None)

    def start(self, name: str, act: Callable[[], None], *, after: float = 0.0) -> Process:
        """Begin a process in so many seconds."""
        process = Process(name, act)
        threading.Thread(target=self._live, args=(process,), name=name, daemon=True).start()
        self._wake(process, self.now + timedelta(seconds=after))
        return process

    def sleep(self, seconds: float) -> None:
        """Let others act for so many seconds. :raises Killed: when the process's time is up"""
        self.sleep_until(self.now + timedelta(seconds=max(seconds, 0.0)))

    def sleep_until(self, when: datetime) -> None:
        """As :meth:`sleep`, until a moment; at once if it has passed."""
        process = self.current
        assert process is not None, "only processes sleep"
        if process.killed or self._over:
            raise Killed
        late = process.until is not None and when > process.until
        self._wake(process, max(self.now, process.until if late and process.until else when))
        self._yield(process)
        if late:
            process.killed = True
            raise Killed

    def join(self, *others: Process) -> None:
        """Wait until all of them have ended."""
        process = self.current
        assert process is not None, "only processes wait"
        for other in others:
            if not other.done:
                other.waiting.append(process)
                self._yield(process)

    def run(self, until: datetime) -> None:
        """Let everything happen that happens until then. :raises: what a process did not expect"""
        while self._queue and self._queue[0][0] <= until:
            when, _, process = heapq.heappop(self._queue)
            self.now = max(self.now, when)
            process.go.release()
            self._idle.acquire()
            if process.error is not None:
                raise process.error
        self.now = max(self.now, until)

    def end(self) -> None:
        """Nothing happens any more: whatever still goes on is killed."""
        self._over = True
        while self._queue:
            _, _, process = heapq.heappop(self._queue)
            process.go.release()
            self._idle.acquire()

    def _wake(self, process: Process, when: datetime) -> None:
        heapq.heappush(self._queue, (when, next(self._numbers), process))

    def _yield(self, process: Process) -> None:
        self._idle.release()
        process.go.acquire()
        if self._over:
            raise Killed

    def _live(self, process: Process) -> None:
        self._mine.process = process
        process.go.acquire()
        try:
            if not self._over:
                process.act()
        except BaseException as error:  # told where the schedule runs
            process.error = error
        process.done = True
        for other in process.waiting:
            self._wake(other, self.now)
        self._idle.release()


class Clock:
    """The module ``time`` as the toolkit sees it: sleeping lets others act."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def sleep(self, seconds: float) -> None:
        """Let others act."""
        self._schedule.sleep(seconds)

    def time(self) -> float:
        """Seconds since 1970."""
        return self._schedule.now.timestamp()

    monotonic = time
    perf_counter = time
