"""Programs of strangers are stopped, with whatever they have started."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from mlir_release.use.bounded import run_bounded

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="canaries run on Linux and macOS")


def run(folder: Path, code: str, *, seconds: float = 60, limit: int = 100_000) -> tuple[str, bytes]:
    log = folder / "log"
    environment = {"PATH": os.environ["PATH"]}
    command = [sys.executable, "-I", "-c", code]
    ending = run_bounded(command, log=log, seconds=seconds, limit=limit, environment=environment, cwd=folder)
    return ending, log.read_bytes()


def gone(pid: int) -> bool:
    """Whether a process has ended: what is left of it waits for its parent."""
    for _ in range(100):
        try:
            status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if status == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_program_that_succeeds_and_one_that_fails(tmp_path: Path) -> None:
    assert run(tmp_path, "print('fine')") == ("", b"fine\n")
    assert run(tmp_path, "import sys; print('bad', file=sys.stderr); sys.exit(3)") == ("exit code 3", b"fine\nbad\n")


def test_a_program_that_hangs_is_killed(tmp_path: Path) -> None:
    assert run(tmp_path, "print('x', flush=True); import time; time.sleep(600)", seconds=1) == (
        "not done after 1 s",
        b"x\n",
    )


def test_a_program_that_closes_its_output_and_hangs_is_killed(tmp_path: Path) -> None:
    code = "import os, time; os.close(1); os.close(2); time.sleep(600)"
    assert run(tmp_path, code, seconds=2)[0] in ("not done after 2 s", "it closed its output and did not end")


def test_two_hundred_megabytes_of_output_are_neither_stored_nor_waited_for(tmp_path: Path) -> None:
    code = "import sys\nfor _ in range(200): sys.stdout.write('x' * 1_000_000)"
    ending, log = run(tmp_path, code)
    assert ending == "it printed more than 100,000 bytes"
    assert len(log) == 100_000


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_what_it_leaves_behind_is_killed_and_not_waited_for(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid)"
    )
    ending, log = run(tmp_path, code)
    assert ending == ""
    assert gone(int(log))


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        run_bounded(["/no/such"], log=tmp_path / "l", seconds=1, limit=9, environment={}, cwd=tmp_path)
