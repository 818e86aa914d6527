"""Programs that tests run, and watch."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path


def run(*command: str | Path, variables: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a program that must succeed.

    :param variables: the whole environment; None: that of the tests
    :return: what it printed
    """
    done = subprocess.run(command, env=variables, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def wait_for_end(process: int) -> None:
    """Wait until a process has ended, which is a moment after its files were closed."""
    end = time.monotonic() + 60
    while is_alive(process):
        assert time.monotonic() < end, f"{process} is still running"
        time.sleep(0.02)


def is_alive(process: int) -> bool:
    """Whether a process runs. One that nobody has waited for does not: some containers' init leaves zombies."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
