"""Run a build step: its output into a log, its wall and CPU time measured, its end told apart."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a process and its descendants took, in seconds. ``cpu`` is user and system time of all of them."""

    wall: float
    cpu: float

    def __add__(self, other: Usage) -> Usage:
        return Usage(wall=self.wall + other.wall, cpu=self.cpu + other.cpu)


class StepFailed(Exception):
    """A step ended with a non-zero exit code; its output is in ``log``."""

    def __init__(self, command: Sequence[str], returncode: int, log: Path) -> None:
        super().__init__(f"{command[0]} ended with exit code {returncode}")
        self.command = command
        self.returncode = returncode
        self.log = log


def run_logged(
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Usage:
    """Run ``command``, append all of its output to ``log``, and say what it took.

    CPU time is the kernel's count for this child and all descendants that it waited for, so steps that run at the same
    time do not blur each other. On Windows there is no such count, and ``cpu`` is that of the child alone.

    :raises StepFailed: on a non-zero exit code
    """
    words = [str(word) for word in command]
    start = time.monotonic()
    with log.open("ab") as file:
        file.write(f"+ {subprocess.list2cmdline(words)}\n".encode())
        file.flush()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=None if environment is None else dict(environment),
            cwd=cwd,
        )
        try:
            cpu, returncode = _wait(process)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if returncode != 0:
        raise StepFailed(words, returncode, log)
    return Usage(wall=time.monotonic() - start, cpu=cpu)


if sys.platform == "win32":

    def _wait(process: subprocess.Popen[bytes]) -> tuple[float, int]:
        import psutil

        watched = psutil.Process(process.pid)
        cpu = 0.0
        while True:
            try:
                times = watched.cpu_times()
                cpu = times.user + times.system
            except psutil.Error:
                pass
            try:
                return cpu, process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                continue

else:

    def _wait(process: subprocess.Popen[bytes]) -> tuple[float, int]:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_utime + usage.ru_stime, process.returncode


def tail(log: Path, lines: int = 25) -> str:
    """The last lines of a log."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
