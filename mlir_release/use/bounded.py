"""Programs of strangers that may hang, print without an end, or leave others behind: bounded in time and output."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING

from mlir_release.ground.programs.process import exit_code, running

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.ground.programs.process import Running

_CHUNK = 65_536

#: Seconds for which a program that has closed its output may still run.
_CLOSING = 5.0


def run_bounded(
    command: Sequence[str],
    *,
    log: Path,
    seconds: float,
    limit: int,
    environment: Mapping[str, str],
    cwd: Path,
) -> str:
    """Run a program; append what it prints to ``log``. At the end its whole process group is killed.

    A process that leaves the group outlives it: in Actions the runner ends it with the job.

    :param seconds: after which it is killed
    :param limit: bytes that ``log`` may have; a program that prints more is killed
    :returns: empty if it succeeded; otherwise how it ended: ``exit code 1``, ``not done after 60 s``
    :raises OSError: it can't be started
    """
    deadline = time.monotonic() + seconds
    room = limit - (log.stat().st_size if log.exists() else 0)
    with log.open("ab") as file, running(command, environment=environment, cwd=cwd) as process:
        assert process.stdin is not None
        process.stdin.close()
        while (chunk := _read(process, deadline)) is not None:
            file.write(chunk[:room])
            room -= len(chunk)
            if room < 0:
                return f"it printed more than {limit:,} bytes"
        code = exit_code(process, max(0.0, min(_CLOSING, deadline - time.monotonic())))
        if code is None:
            return (
                f"not done after {seconds:.0f} s"
                if time.monotonic() >= deadline
                else "it closed its output and went on"
            )
    return f"exit code {code}" if code else ""


def _read(process: Running, deadline: float) -> bytes | None:
    """What it prints next; None if it has ended, has closed its output, or its time is up.

    A program that it has left behind may keep the output open, so that its own end is what counts.
    """
    assert process.stdout is not None
    while time.monotonic() < deadline:
        if select.select([process.stdout], [], [], 0.2)[0]:
            return os.read(process.stdout.fileno(), _CHUNK) or None
        if process.poll() is not None:
            return None
    return None
