"""Kill a scenario at each of its file writes, run it again, and compare where both ways end.

A scenario is a function in a Python file, ``path/to/file.py:name``, that takes the folder in which everything happens.
It is run in a forked process whose C library (``killpoints.c``, preloaded) counts every call that changes files or
starts a program, in the process and in its children (git), and kills them at the k-th; a write is torn in the middle.
Nothing in the tested code knows of this.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(__file__).with_name("killpoints.c")

_CONTROL = struct.Struct("QQQQ40s")


@dataclass(frozen=True)
class Killing:
    """What came of it: ``points`` that the scenario has, ``tried`` of them, ``kinds`` of calls that were cut."""

    scenario: str
    points: int
    tried: int
    kinds: Counter[str]

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        return f"{self.scenario.rpartition(':')[2]}: killed at {self.tried} of {self.points} points ({kinds})"


@dataclass
class Job:
    """One run of a scenario. ``kill_at`` 0: never."""

    scenario: str
    folder: Path
    kill_at: int = 0
    leader_only: bool = False
    commands: bool = False
    points: int = field(default=0, init=False)
    kind: str = field(default="", init=False)


_COMPILER = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), "")

NEEDS_COMPILER = pytest.mark.skipif(
    not _COMPILER, reason="KILL TESTS NOT RUN: they need a C compiler (apt-get install gcc libc6-dev)"
)


@cache
def _library() -> Path:
    """What counts and kills, compiled once a process."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    command = [_COMPILER, "-shared", "-fPIC", "-O1", "-o", str(folder / "killpoints.so"), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return folder / "killpoints.so"


def kill_everywhere(
    scenario: str,
    *,
    prepare: Callable[[Path], None],
    observe: Callable[[Path], object],
    work: Path,
    after: Sequence[str] = (),
    check: Callable[[Path], None] = lambda _: None,
    place: Callable[[Path], None] = lambda _: None,
    leader_only: bool = False,
    commands: bool = False,
    sample: int | None,
) -> Killing:
    """Kill ``scenario`` at its write points, one after the other, and run it again after each.

    :param prepare: fills a folder with the state before
    :param observe: what is compared at the end with the state that an undisturbed run reaches; raises if it is broken
    :param after: scenarios that are run after the second run, before the comparison
    :param check: what must hold for readers right after the kill
    :param place: makes a copy of the state at home in its new folder
    :param leader_only: kill the Python process only: its git goes on while the scenario is already run again
    :param commands: kill between commands, after each that the Python process has run, not inside of them
    :param sample: how many points to try, evenly spread; None: all
    :raises AssertionError: naming the point after which it ended differently
    """
    template = work / "template"
    template.mkdir()
    prepare(template)

    with ExitStack() as stack:
        servers: SimpleQueue[Server] = SimpleQueue()
        count = max(2, os.cpu_count() or 1)
        for number in range(count):
            servers.put(stack.enter_context(Server(_library(), work / f"control{number}")))

        def run(*jobs: Job) -> None:
            server = servers.get()
            try:
                for job in jobs:
                    server.run(job)
            finally:
                servers.put(server)

        def fresh(name: str) -> Path:
            folder = Path(shutil.copytree(template, work / name, symlinks=True))
            place(folder)
            return folder

        reference = fresh("reference")
        whole = Job(scenario, reference, commands=commands)
        run(whole, *(Job(name, reference) for name in after))
        expected = observe(reference)

        def one(point: int) -> str:
            folder = fresh(f"point{point}")
            killed = Job(scenario, folder, kill_at=point, leader_only=leader_only, commands=commands)
            run(killed)
            try:
                check(folder)
                run(Job(scenario, folder), *(Job(name, folder) for name in after))
                found = observe(folder)
            except Exception as error:
                raise AssertionError(f"killed at {killed.kind} (point {point}): {error!r}; see {folder}") from error
            assert found == expected, f"killed at {killed.kind} (point {point}), it ended elsewhere; see {folder}"
            shutil.rmtree(folder)
            shutil.rmtree(f"{folder}.temporary")
            return killed.kind

        points = range(1, whole.points + 1)
        if sample is not None and len(points) > sample:
            points = range(1, whole.points + 1, -(-whole.points // sample))
        with ThreadPoolExecutor(count) as pool:
            kinds = Counter(pool.map(one, points))
    # A run that has fewer points than the first (a lock that was not waited for) may end before it is killed.
    missed = kinds.pop("", 0)
    assert missed <= len(points) // 20, f"{missed} of {len(points)} runs were not killed at all"
    return Killing(scenario, whole.points, len(points) - missed, kinds)


class Server:
    """A process that runs scenarios in forks of itself, so that Python starts and imports only once."""

    def __init__(self, library: Path, control: Path) -> None:
        self._library = library
        self._control = control

    def __enter__(self) -> Server:
        environment = {
            **os.environ,
            "LD_PRELOAD": str(self._library),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-P", __file__, str(self._control)]  # tests/sigstore is not the library
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, env=environment, cwd=ROOT, text=True, **pipes)
        return self

    def __exit__(self, *_: object) -> None:
        input, output = self._pipes()
        input.close()
        self._process.wait()
        output.close()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def run(self, job: Job) -> None:
        """Run one job to its end. :raises AssertionError: if the scenario itself fails"""
        self._control.unlink(missing_ok=True)  # what still runs from an earlier job keeps its own
        self._control.write_bytes(_CONTROL.pack(0, job.kill_at, job.leader_only, job.commands, b""))
        input, output = self._pipes()
        input.write(json.dumps([job.scenario, str(job.folder)]) + "\n")
        input.flush()
        answer = json.loads(output.readline())
        job.points, _, _, _, kind = _CONTROL.unpack(self._control.read_bytes())
        job.kind = kind.rstrip(b"\0").decode()
        assert answer == "" or job.kind, answer


# -- the server's side ----------------------------------------------------------------------------------------------


def load(scenario: str) -> Callable[[Path], object]:
    """The function that ``path/to/file.py:name`` names."""
    path, _, name = scenario.rpartition(":")
    module_name = f"scenario_{Path(path).stem}"
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[module_name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module_name])
    function: Callable[[Path], object] = getattr(sys.modules[module_name], name)
    return function


def serve(control: str) -> None:
    """Run each job that a line of standard input names; answer with the traceback, or an empty string."""
    library = ctypes.CDLL(None)
    library.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: a killed scenario's git becomes our child
    for line in sys.stdin:
        scenario, folder = json.loads(line)
        function = load(scenario)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.setpgid(0, 0)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            tempfile.tempdir = f"{folder}.temporary"  # what a killed process leaves there goes with the test
            os.makedirs(tempfile.tempdir, exist_ok=True)  # noqa: PTH103
            os.environ["KILLPOINTS"] = control
            library.killpoints_arm(control.encode())
            failure = ""
            try:
                function(Path(folder))
            except BaseException:
                failure = traceback.format_exc()
            library.killpoints_disarm()
            os.write(writing, failure.encode())
            os._exit(bool(failure))
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            failure = pipe.read().decode()
        leader_only = struct.unpack_from("Q", Path(control).read_bytes(), 16)[0]
        reap(None if leader_only else child)
        print(json.dumps(failure), flush=True)


def reap(group: int | None) -> None:
    """Wait for all children; or, if some are meant to go on, only for those that have ended."""
    while True:
        try:
            child, _ = os.waitpid(-1, 0 if group is not None else os.WNOHANG)
        except ChildProcessError:
            return
        if child == 0:
            return


if __name__ == "__main__":
    serve(sys.argv[1])
