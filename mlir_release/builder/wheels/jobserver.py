"""Share a machine's cores and memory between builds that run side by side.

Each build is half serial (configure, link, compress) and half parallel (compile). One after the other, the serial
halves leave most cores idle; side by side with a fixed number of compilers each, they idle too, or the machine swaps.
So all builds draw from one pool of compiler slots: GNU make's job server, which ninja 1.13 and newer know.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Bytes that a compiler takes on one file of binding sources, and that a build's link, packing and checks take.
COMPILER_MEMORY = 900_000_000
BUILD_MEMORY = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class Concurrency:
    """The number of builds at once, and of the compilers that they run all together."""

    builds: int
    compilers: int


def choose_concurrency(count: int, *, cores: int, memory: int) -> Concurrency:
    """Divide ``cores`` and ``memory`` (bytes, available) between ``count`` builds.

    A build waits for its serial steps about half of its time, so as many builds as there are cores keep them busy; the
    compilers get what memory remains. There is always at least one build with one compiler: a machine that is too
    small is then slow, not idle.
    """
    builds = max(1, min(count, cores, memory // (BUILD_MEMORY + COMPILER_MEMORY)))
    compilers = min(cores, (memory - builds * BUILD_MEMORY) // COMPILER_MEMORY)
    return Concurrency(builds=int(builds), compilers=int(max(compilers, builds)))


def machine_concurrency(count: int, jobs: int | None = None) -> Concurrency:
    """:func:`choose_concurrency` for this machine, as it is now.

    :param jobs: cores to use; default: all that this process may use
    """
    import psutil

    available = psutil.virtual_memory().available
    return choose_concurrency(count, cores=jobs or usable_cores(), memory=available)


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class Slots:
    """A pool of compiler slots in use. A build with the variables ``environment`` draws from it."""

    environment: Mapping[str, str]
    descriptor: int | None = None

    def give_back(self) -> None:
        """Called when a build has ended and no other takes its place: its own slot goes to the others."""
        if self.descriptor is not None:
            os.write(self.descriptor, b"+")


@contextmanager
def compiler_slots(concurrency: Concurrency) -> Iterator[Slots]:
    """Make the builds of ``concurrency`` share its compilers; valid within the context.

    Source: GNU make's manual, "POSIX Jobserver Interaction": a named pipe holds a byte for each free slot. A client has
    one slot of its own, which it uses for its serial steps, too; so the pipe starts with what is left over.
    """
    if concurrency.builds == 1 or sys.platform == "win32":
        yield Slots(
            environment={"CMAKE_BUILD_PARALLEL_LEVEL": str(max(1, concurrency.compilers // concurrency.builds))}
        )
        return
    with scratch_folder("jobs") as folder:
        pipe = folder / "slots"
        os.mkfifo(pipe)
        descriptor = os.open(pipe, os.O_RDWR)  # held open: a pipe without a reader forgets what is in it
        try:
            os.write(descriptor, b"+" * max(0, concurrency.compilers - concurrency.builds))
            makeflags = f" -j{concurrency.compilers} --jobserver-auth=fifo:{pipe}"
            yield Slots(environment={"MAKEFLAGS": makeflags}, descriptor=descriptor)
        finally:
            os.close(descriptor)
