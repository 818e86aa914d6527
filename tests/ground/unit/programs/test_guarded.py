"""A program never outlives its caller, and its caller sees its end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.programs.process import guarded
from tests.processes import is_alive, wait_for_end

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sessions and signals of POSIX")

PYTHON = sys.executable

#: Starts a guarded program that would run for ever, says its process id, and waits.
CALLER = """
import sys, time
from pathlib import Path
from mlir_release.ground.programs.process import guarded
script = f"import os, time; open({sys.argv[1]!r}, 'w').write(str(os.getpid())); time.sleep(600)"
with guarded([sys.executable, "-c", script], errors=Path(sys.argv[1] + ".err")):
    time.sleep(600)
"""


def wait_for_number(path: Path) -> int:
    end = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < end, "the program did not start"
        time.sleep(0.02)
    return int(path.read_text())


def test_it_ends_when_its_caller_is_killed(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    with subprocess.Popen([PYTHON, "-c", CALLER, str(said)]) as caller:
        program = wait_for_number(said)
        caller.send_signal(signal.SIGKILL)
    wait_for_end(program)


def test_it_ends_when_the_block_does(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    script = f"import os, time; open({str(said)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with guarded([PYTHON, "-c", script], errors=tmp_path / "errors"):
        program = wait_for_number(said)
    wait_for_end(program)


def test_it_ends_when_its_guard_was_killed(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    script = f"import os, time; open({str(said)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with guarded([PYTHON, "-c", script], errors=tmp_path / "errors") as running:
        program = wait_for_number(said)
        os.kill(running.process.pid, signal.SIGKILL)
        running.wait()
        assert is_alive(program)
    wait_for_end(program)


def test_its_end_its_errors_and_its_exit_code_are_seen(tmp_path: Path) -> None:
    script = "import sys; print('out'); print('why', file=sys.stderr); sys.exit(3)"
    with guarded([PYTHON, "-c", script], errors=tmp_path / "errors") as running:
        assert select.select([running.ended], [], [], 60)[0]
        assert running.wait() == 3
    assert (tmp_path / "errors").read_text() == "why\n"


def test_a_signal_is_an_exit_code_above_128(tmp_path: Path) -> None:
    with guarded([PYTHON, "-c", "import os; os.kill(os.getpid(), 9)"], errors=tmp_path / "errors") as running:
        assert running.wait() == 128 + 9


def test_it_sees_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLGO_TEST_TOKEN", "secret")
    script = "import os, sys; sys.exit('MLGO_TEST_TOKEN' in os.environ)"
    with guarded([PYTHON, "-c", script], errors=tmp_path / "errors") as running:
        assert running.wait() == 0
