from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from mlir_release.host.process import StepFailed, Usage, run_logged, tail

if TYPE_CHECKING:
    from pathlib import Path

BUSY = "import time\nwhile time.process_time() < {}: pass"


def test_output_goes_to_the_log_and_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    run_logged([sys.executable, "-c", "print('one')"], log=log)
    run_logged([sys.executable, "-c", "import sys; print('two', file=sys.stderr)"], log=log)
    assert [line for line in log.read_text().splitlines() if not line.startswith("+")] == ["one", "two"]


def test_environment_and_folder(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import os; print(os.environ['WORD'], os.getcwd())"
    run_logged([sys.executable, "-c", code], log=log, environment={"WORD": "hello"}, cwd=tmp_path)
    assert log.read_text().splitlines()[-1] == f"hello {tmp_path}"


def test_a_failure_has_its_exit_code_and_log(tmp_path: Path) -> None:
    with pytest.raises(StepFailed) as raised:
        run_logged([sys.executable, "-c", "print('why'); raise SystemExit(7)"], log=tmp_path / "log")
    assert raised.value.returncode == 7
    assert tail(raised.value.log, 1) == "why"


@pytest.mark.skipif(sys.platform == "win32", reason="the kernel's count")
def test_cpu_time_is_that_of_the_child_and_its_children_alone(tmp_path: Path) -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY.format(0.4)!r}])"
    usages: dict[str, Usage] = {}

    def run(name: str, code: str) -> None:
        usages[name] = run_logged([sys.executable, "-c", code], log=tmp_path / name)

    threads = [threading.Thread(target=run, args=args) for args in (("busy", child), ("idle", "pass"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert usages["busy"].cpu >= 0.4
    assert usages["idle"].cpu < usages["busy"].cpu


def test_usages_add_up() -> None:
    assert Usage(wall=1, cpu=2) + Usage(wall=3, cpu=4) == Usage(wall=4, cpu=6)


def test_the_tail_of_a_log_that_is_not_there(tmp_path: Path) -> None:
    assert tail(tmp_path / "nothing") == ""
