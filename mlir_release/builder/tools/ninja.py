"""How far a build is, and how long it still takes, by the lines that Ninja prints."""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_left
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from mlir_release.ground.console import format_seconds
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.storage.files import read_document, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The start of Ninja's lines: ``[12/3456] ``.
STATUS = re.compile(r"\[(?P<done>\d+)/(?P<all>\d+)\]")

#: Seconds without a finished step after which a build's pace says nothing about its end.
_STALLED = 120.0

#: The share of the steps after which the pace of this build alone tells when it ends: the first ones copy files.
_TELLING = 0.1

#: Points of a course that are kept.
_POINTS = 40


class Course(Struct, frozen=True, kw_only=True):
    """The course of a build that succeeded, in seconds since its start."""

    seconds: float  #: of the whole build; steps end earlier, packing comes last
    shares: tuple[float, ...]  #: of the steps, ascending, from 0 to 1
    reached: tuple[float, ...]  #: the moment at which each share was done

    def elapsed(self, share: float) -> float:
        """The moment at which ``share`` of the steps was done, interpolated."""
        place = bisect_left(self.shares, share)
        if place == 0:
            return self.reached[0]
        if place == len(self.shares):
            return self.reached[-1]
        (left, right), (start, end) = self.shares[place - 1 : place + 1], self.reached[place - 1 : place + 1]
        return start + (end - start) * (share - left) / (right - left)


def read_course(path: Path) -> Course | None:
    """The course that :meth:`Pace.remember` wrote; None without one, or where the file can't be used."""
    with suppress(OSError, MalformedError):
        found = from_json(read_document(path), Course)
        if len(found.shares) == len(found.reached) > 0 and found.seconds > 0:
            return found
    return None


class Pace:
    """The pace of one build by Ninja.

    A remaining time comes from this build's pace alone, or, better, from the course of an earlier one that
    :meth:`remember` kept: there the steps differ in length as they do here, and this build's speed scales them.

    :param log: has the build's output; :meth:`look` reads it
    :param memory: a file with the course of the last build of this kind
    :param first: that of such a build elsewhere, for a machine without a memory
    """

    def __init__(
        self,
        log: Path | None = None,
        *,
        memory: Path | None = None,
        first: Course | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = self.all = 0
        self._log, self._memory, self._clock = log, memory, clock
        self._earlier = (read_course(memory) if memory else None) or first
        self._begun = self._moved = clock()
        self._course: list[tuple[float, float]] = []
        self._offset = 0
        self._reading = threading.Lock()  # the build's own thread looks, and the one that shows its progress

    def look(self) -> None:
        """Read the lines that came into the log since the last look."""
        if self._log is None:
            return
        with self._reading, suppress(OSError), self._log.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
            self._offset += len(whole + newline)
            for line in whole.decode(errors="replace").splitlines():
                self.feed(line)

    def feed(self, line: str) -> bool:
        """Take a line of the build's output; whether it is one of Ninja's."""
        match = STATUS.match(line)
        if match is None or int(match["all"]) == 0:
            return False
        self.done, self.all = int(match["done"]), int(match["all"])
        self._moved = self._clock()
        self._course.append((self.done / self.all, self._moved - self._begun))
        return True

    def remaining(self) -> float | None:
        """Seconds until the end; None if nothing tells."""
        now = self._clock()
        if not self._course or (self.done < self.all and now - self._moved > _STALLED):
            return None
        (share, elapsed), spent = self._course[-1], now - self._begun
        if self._earlier is not None:
            # At first the earlier build's time is the better witness. From the middle on it is this one's speed, and
            # sooner where this one has taken longer already. The next step can't have ended before now.
            before, steps = self._earlier.elapsed(share), self._earlier.reached[-1]
            following = self._earlier.elapsed(min(share + 1 / self.all, 1.0))
            speed = max(elapsed / before if before > 0 else 0.0, spent / following if following > 0 else 0.0)
            trust = min(2 * max(before, spent) / steps, 1.0) if steps > 0 else 1.0
            # The speed of compilers, which a cache changes, says nothing about packing.
            packing = self._earlier.seconds - steps
            return max(0.0, trust * speed * steps + (1 - trust) * steps + packing - spent)
        first, start = self._course[0]
        if share - first < _TELLING or elapsed == start or self.done == self.all:
            return None
        return max(0.0, (1 - share) * (elapsed - start) / (share - first) - (now - self._moved))

    def text(self) -> str:
        """For people: ``123 of 355 steps, about 2 min 10 s left``."""
        if not self._course:
            return "no step done yet"
        steps, quiet = f"{self.done} of {self.all} steps", self._clock() - self._moved
        left = self.remaining()
        steps += ", packing" if self.done == self.all and self._earlier is not None else ""
        if left is not None and left >= 1:
            return f"{steps}, about {format_seconds(round(left))} left"
        return f"{steps}, none ended for {format_seconds(quiet)}" if quiet > _STALLED else steps

    def remember(self) -> None:
        """Keep this build's course for the next one: it succeeded, and has just ended."""
        if self._memory is None or not self._course:
            return
        every = max(1, len(self._course) // _POINTS)
        points = dict([*self._course[::every], self._course[-1]])  # one moment a share: the last
        shares = tuple(sorted(points))
        course = Course(
            seconds=self._clock() - self._begun, shares=shares, reached=tuple(points[share] for share in shares)
        )
        with suppress(OSError):  # it only makes the next build's estimate better
            write_atomically(self._memory, msgspec.json.encode(course) + b"\n")
