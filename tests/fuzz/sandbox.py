"""One try in a child process: what it does can't hurt the next, and its memory and time are bounded."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

#: Bytes that a try may take beside what the process has at its beginning.
MEMORY = 600 << 20

#: Bytes of one file that it may write.
FILE = 256 << 20


@dataclass(frozen=True)
class End:
    """How a try ended."""

    code: int  #: exit code; negative: the signal that ended it
    stdout: str
    stderr: str

    @property
    def hung(self) -> bool:
        """Whether its time was up."""
        return self.code == -signal.SIGALRM


def run(
    function: Callable[[], int],
    *,
    log: Path,
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float,
) -> End:
    """Call ``function`` in a child process, whose exit code is what it returns; an exception is shown and gives 1.

    :param log: a folder for the output of the process
    """
    sys.stdout.flush()
    sys.stderr.flush()
    out, err = log / "stdout", log / "stderr"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _confine(out, err, cwd, environment, seconds)
            code = function()
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    code = 1
            os._exit(code & 0xFF)
    _, status = os.waitpid(pid, 0)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what it has started
    return End(os.waitstatus_to_exitcode(status), *(path.read_text("utf-8", "replace") for path in (out, err)))


def _confine(out: Path, err: Path, cwd: Path, environment: Mapping[str, str], seconds: float) -> None:
    os.setsid()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    for place, number, flags in ((os.devnull, 0, os.O_RDONLY), (out, 1, os.O_WRONLY), (err, 2, os.O_WRONLY)):
        descriptor = os.open(place, flags | (os.O_CREAT | os.O_TRUNC if number else 0))
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", errors="strict", closefd=False)  # noqa: SIM115
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # which the parent may have looked up
    for limit, value in (
        (resource.RLIMIT_AS, _taken() + MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    time.sleep = lambda _: None  # patience with a network that is not there shows nothing


def _taken() -> int:
    """Bytes of address space of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()
