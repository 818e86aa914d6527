from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from inspect import signature
from pathlib import Path

import pytest

from mlir_release.ground.console import console
from mlir_release.ground.programs import process
from mlir_release.ground.programs.process import (
    LOGS,
    LONGEST,
    StepFailed,
    StepInterrupted,
    Usage,
    capture,
    run_logged,
    tail,
    whole_log,
)
from tests.processes import wait_for_end


def _has_console() -> bool:
    if sys.platform != "win32":
        return True
    import ctypes

    return bool(ctypes.windll.kernel32.GetConsoleCP())


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


def test_a_job_shows_the_output_of_each_program_in_a_group_and_keeps_the_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, kept = tmp_path / "cp312" / "build.log", tmp_path / "logs" / "log-mlir-cp312"
    log.parent.mkdir()
    monkeypatch.delenv(LOGS, raising=False)
    assert whole_log(log).startswith(f"{log} has all of it; variables withheld from the program: ")
    console.in_actions = True
    monkeypatch.setenv(LOGS, str(kept))
    run_logged([sys.executable, "-c", "print('::error::one')"], log=log)
    first = capsys.readouterr().err.splitlines()
    assert first[0].startswith(f"::group::output of {Path(sys.executable).name} -c print")
    assert first[-2:] == ["  : :error::one", "::endgroup::"]
    assert not [line for line in first[1:-1] if line.strip().startswith("::")]
    with pytest.raises(StepFailed):
        run_logged([sys.executable, "-c", "print('two'); raise SystemExit(1)"], log=log)
    second = capsys.readouterr().err
    assert "  two\n" in second
    assert "::error::one" not in second
    assert (kept / "cp312-build.log").read_bytes() == log.read_bytes()
    assert whole_log(log).startswith("the artifact log-mlir-cp312 of this run has the whole log; ")


def test_a_log_that_can_not_be_kept_does_not_change_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(LOGS, str(tmp_path / "file" / "folder"))
    run_logged([sys.executable, "-c", ""], log=tmp_path / "log")
    assert "can't be kept" in capsys.readouterr().err


def test_without_actions_the_output_is_in_the_log_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console.in_actions = False
    monkeypatch.delenv(LOGS, raising=False)
    run_logged([sys.executable, "-c", "print('one')"], log=tmp_path / "log")
    assert capsys.readouterr() == ("", "")


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


def test_lines_are_shown_as_they_arrive_and_logged(tmp_path: Path) -> None:
    lines: list[str] = []
    code = "import sys; sys.stdout.buffer.write(b'one\\n\\xff\\n')"
    usage = run_logged([sys.executable, "-c", code], log=tmp_path / "log", on_line=lines.append)
    assert lines == ["one", "\N{REPLACEMENT CHARACTER}"]
    assert (tmp_path / "log").read_bytes().endswith(b"one\n\xff\n")
    assert usage.cpu > 0


@pytest.mark.parametrize("watched", [True, False])
def test_a_program_is_interrupted_when_its_time_is_up(tmp_path: Path, watched: bool) -> None:
    code = "import time; print('begun', flush=True); time.sleep(600)"
    with pytest.raises(StepInterrupted):
        run_logged(
            [sys.executable, "-c", code],
            log=tmp_path / "log",
            budget=1.5,
            on_line=(lambda line: None) if watched else None,
        )
    assert "begun" in (tmp_path / "log").read_text()


def test_a_program_that_can_not_be_interrupted_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows without a console."""
    kill = os.kill

    def refuse(pid: int, number: int) -> None:
        if number == process._INTERRUPT:
            raise OSError(22, "Invalid argument")
        kill(pid, number)

    monkeypatch.setattr("os.kill", refuse)
    with pytest.raises(StepInterrupted):
        run_logged([sys.executable, "-c", "import time; time.sleep(600)"], log=tmp_path / "log", budget=0.2)


def test_a_program_that_fails_in_time_was_not_interrupted(tmp_path: Path) -> None:
    with pytest.raises(StepFailed) as raised:
        run_logged([sys.executable, "-c", "raise SystemExit(1)"], log=tmp_path / "log", budget=600)
    assert not isinstance(raised.value, StepInterrupted)


@pytest.mark.skipif(not _has_console(), reason="only a console has interrupts")
def test_an_interrupted_program_may_end_well(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "if sys.platform == 'win32': signal.signal(signal.SIGBREAK, signal.default_int_handler)\n"
        "try: time.sleep(600)\n"
        "except KeyboardInterrupt: print('finished')"
    )
    run_logged([sys.executable, "-c", code], log=tmp_path / "log", budget=1.5)
    assert "finished" in (tmp_path / "log").read_text()


def test_a_program_that_answers() -> None:
    code = "import sys; print(input().upper()); print('aside', file=sys.stderr)"
    answer = capture([sys.executable, "-c", code], text="hello")
    assert (answer.ok, answer.stdout, answer.stderr) == (True, "HELLO\n", "aside\n")


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("import sys; print('out'); print('why', file=sys.stderr); sys.exit(2)", "why"),
        ("print('out'); raise SystemExit(2)", "out"),
        ("raise SystemExit(2)", "exit code 2"),
    ],
)
def test_the_complaint_of_a_failed_program(code: str, complaint: str) -> None:
    answer = capture([sys.executable, "-c", code])
    assert (answer.ok, answer.returncode, answer.complaint) == (False, 2, complaint)


def test_a_program_that_does_not_end() -> None:
    code = "import time; print('half', flush=True); time.sleep(600)"
    answer = capture([sys.executable, "-IS", "-c", code], timeout=1.5)  # which starts soon on a busy machine, too
    assert answer.returncode is None
    assert answer.stdout == "half\n"
    assert answer.complaint == "no answer within 1.5 s\nhalf"


def test_every_program_that_answers_has_a_limit() -> None:
    assert signature(capture).parameters["timeout"].default == LONGEST
    root = Path(process.__file__).parents[2]
    endless = [str(path.relative_to(root)) for path in root.rglob("*.py") if "timeout=None" in path.read_text("utf-8")]
    assert endless == ["extras/mlgo/corpora/corpus.py"]  # of a corpus of any size, in no workflow


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    answer = capture([tmp_path / "no-such-program"])
    assert not answer.ok
    assert answer.complaint.startswith(f"cannot run {tmp_path / 'no-such-program'}: ")


def test_output_that_is_no_text() -> None:
    answer = capture([sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'\\xff')"], encoding="utf-8")
    assert answer.stdout == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.skipif(sys.platform == "win32", reason="a console's interrupt is another thing there")
def test_a_program_that_misses_an_interrupt_gets_another(tmp_path: Path) -> None:
    """As a container does that is just starting."""
    code = (
        "import signal, time; seen = []\n"
        "signal.signal(signal.SIGINT, lambda *_: seen.append(1))\n"
        "while len(seen) < 2: time.sleep(0.05)\n"
        "raise SystemExit(9)"
    )
    with pytest.raises(StepInterrupted) as caught:
        run_logged([sys.executable, "-IS", "-c", code], log=tmp_path / "log", budget=1.5)
    assert caught.value.returncode == 9


#: Builds one thing after another in a thread, as wheels are built.
COMMAND = """
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from mlir_release.ground.programs.process import StepFailed, run_logged
from mlir_release.ground.programs.surroundings import starting

def build():
    for _ in range(2):
        with suppress(StepFailed):
            run_logged(["sh", "-c", "sleep 600 & echo $! >> started; wait"], log=Path("log"))

with starting("a build"), ThreadPoolExecutor() as pool:
    pool.submit(build).result()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_a_command_that_is_ended_ends_what_its_programs_have_started_and_starts_no_more(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", COMMAND], cwd=tmp_path, stderr=subprocess.DEVNULL)
    started = tmp_path / "started"
    while not started.is_file() or not started.read_text().endswith("\n"):
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait(60) == 143
    (compiler,) = started.read_text().split()
    wait_for_end(int(compiler))
