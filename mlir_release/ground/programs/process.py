"""The one runner of programs: build steps, whose output goes into a log, queries, whose output is captured, and others.

What runs is mostly foreign code, so a program gets only what :mod:`mlir_release.ground.programs.surroundings` lists,
unless the caller gives it others. A command starts foreign programs only if it has declared that it does.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from mlir_release.ground.console import console
from mlir_release.ground.programs.surroundings import foreign_environment, refuse_undeclared, withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# How to interrupt a build. On Windows only a process group of its own can be, and only by Ctrl+Break.
if sys.platform == "win32":
    _INTERRUPT, _GROUP = signal.CTRL_BREAK_EVENT, subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _INTERRUPT, _GROUP = signal.SIGINT, 0

#: Seconds between two interrupts of a program that has not ended yet.
_AGAIN = 5.0

#: Characters of a program's output that an error shows: the end, where the reason is.
_SHOWN = 2000

#: Names a folder that complete logs are copied to. A workflow job sets it, and uploads the folder as an artifact of the
#: same name, because the files of a hosted runner end with the job.
LOGS = "MLIR_RELEASE_LOGS"

#: A program that has ended: its ``returncode``, and its ``stdout`` and ``stderr`` as bytes.
Finished: TypeAlias = "subprocess.CompletedProcess[bytes]"

#: A program that runs.
Running: TypeAlias = "subprocess.Popen[bytes]"

_GUARD = Path(__file__).with_name("guard.py")

#: Seconds for which what a killed program has printed is still read.
_CLOSING = 5.0

_CHUNK = 1 << 20

#: Seconds that a program may take which answers or installs: pip and uv limit only single reads. No job is shorter.
LONGEST = 3600.0

#: Seconds that a killed program is waited for: more only if it hangs in the kernel.
_REACTION = 30.0


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The seconds that a process and its descendants took. ``cpu`` is user and system time of all of them."""

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


class StepInterrupted(StepFailed):
    """A step was interrupted because its time was up."""


def installed_program(name: str) -> str | None:
    """A program that pip installed beside this Python, or one on the PATH; None if it is in neither place."""
    return shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))


def run_logged(
    command: Sequence[str | Path],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    budget: float | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Usage:
    """Run ``command``, append all of its output to ``log``, and return what it took.

    In Actions the output is also shown, in a group, when the program has ended; :data:`LOGS` keeps the log.

    CPU time is the kernel's count for this child and all descendants that it waited for, so steps that run at the same
    time do not blur each other. On Windows there is no such count, and ``cpu`` is that of the child alone.

    :param environment: default: :func:`~mlir_release.ground.programs.surroundings.foreign_environment`
    :param budget: seconds after which the program is interrupted (as by Ctrl+C, so that Ninja lets running compilers
        finish and keeps what they made)
    :param on_line: called with each line of output as it arrives
    :raises StepFailed: on a non-zero exit code
    :raises StepInterrupted: on a non-zero exit code after ``budget`` seconds
    """
    words = [str(word) for word in command]
    start, before = time.monotonic(), log.stat().st_size if log.exists() else 0
    refuse_undeclared(words[0])
    with ExitStack() as stack:
        stack.callback(_keep, log, f"output of {Path(words[0]).name} {' '.join(words[1:])}"[:120], after=before)
        file = stack.enter_context(log.open("ab"))
        file.write(f"+ {subprocess.list2cmdline(words)}\n".encode())
        file.flush()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=file if on_line is None else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=foreign_environment() if environment is None else dict(environment),
            cwd=cwd,
            creationflags=_GROUP,
        )
        if process.stdout is not None:
            stack.callback(process.stdout.close)
        try:
            with _interrupted_after(budget, process) as interrupted:
                for line in process.stdout or ():
                    file.write(line)
                    file.flush()
                    if on_line is not None:
                        on_line(line.decode(errors="replace").rstrip())
                cpu, returncode = _wait(process)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if returncode != 0:
        raise (StepInterrupted if interrupted.is_set() else StepFailed)(words, returncode, log)
    return Usage(wall=time.monotonic() - start, cpu=cpu)


def _keep(log: Path, title: str, *, after: int) -> None:
    """Show what a program added to its log, and copy the log to where it outlasts the job; elsewhere nothing.

    :param after: the size of the log before the program ran
    """
    folder = os.environ.get(LOGS)
    try:
        if console.in_actions:
            with log.open("rb") as file:
                file.seek(after)
                console.fold(title, file.read().decode(errors="replace").splitlines())
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, Path(folder) / f"{log.parent.name}-{log.name}")
    except OSError as error:  # the program's end matters more
        console.warn(f"{log} can't be kept: {error}")


def whole_log(log: Path) -> str:
    """Where all of a failed step's log is, for an error's remedy: the end of it, with what was withheld."""
    folder = os.environ.get(LOGS)
    there = f"the artifact {Path(folder).name} of this run has the whole log" if folder else f"{log} has all of it"
    return there + withheld()


@contextmanager
def _interrupted_after(budget: float | None, process: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """Interrupt ``process`` after ``budget`` seconds, unless the block ends before; the event is set if it was.

    It is interrupted again and again until it ends: a container that is just starting ignores the first one.
    """
    interrupted, ended = threading.Event(), threading.Event()

    def interrupt() -> None:
        if ended.wait(budget):
            return
        interrupted.set()
        while True:
            # Not ``send_signal``: it would collect the process's exit status, and with it the CPU time.
            try:
                os.kill(process.pid, _INTERRUPT)
            except ProcessLookupError:
                pass
            except OSError:  # Windows without a console has no interrupts
                process.terminate()
            if ended.wait(_AGAIN):
                return

    thread = threading.Thread(target=interrupt, daemon=True)
    if budget is not None:
        thread.start()
    try:
        yield interrupted
    finally:
        ended.set()
        if budget is not None:
            thread.join()


if sys.platform == "win32":

    def _wait(process: subprocess.Popen[bytes]) -> tuple[float, int]:
        import ctypes
        from ctypes.wintypes import FILETIME, HANDLE

        while True:
            with suppress(subprocess.TimeoutExpired):  # without a limit, it would not notice a Ctrl+C
                returncode = process.wait(timeout=1.0)
                break
        # By the handle: the number of a process that has ended finds nothing. Created, ended, kernel, user; 100 ns.
        times = [FILETIME() for _ in range(4)]
        ctypes.windll.kernel32.GetProcessTimes(HANDLE(int(process._handle)), *map(ctypes.byref, times))
        return sum((time.dwHighDateTime << 32) + time.dwLowDateTime for time in times[2:]) / 1e7, returncode

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


@dataclass(frozen=True, kw_only=True)
class Captured:
    """What a program printed, and how it ended.

    :param returncode: ``None`` if it could not be started, or was stopped after its time limit
    :param ending: for people: ``exit code 1``, ``no answer within 60 s``
    """

    returncode: int | None
    stdout: str
    stderr: str
    ending: str

    @property
    def ok(self) -> bool:
        """It ended with exit code 0."""
        return self.returncode == 0

    @property
    def complaint(self) -> str:
        """Why it failed, for an error's ``why``: the end of its error output, else of its output, else the ending."""
        printed = self.stderr.strip() or self.stdout.strip()
        if self.returncode is None:
            return f"{self.ending}\n{printed}".strip()[-_SHOWN:]
        return printed[-_SHOWN:] or self.ending


def capture(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    text: str | None = None,
    timeout: float | None = LONGEST,
    encoding: str | None = None,
    ours: bool = False,
) -> Captured:
    """Run a program and capture its output; the caller judges a failure, a missing program and a timeout included.

    :param environment: default: :func:`~mlir_release.ground.programs.surroundings.foreign_environment`
    :param command: a string only on Windows, where ``cmd`` parses its own command line
    :param text: given to it as standard input; default: nothing
    :param timeout: seconds after which it is killed; None where nobody can tell how long it takes
    :param encoding: of its output; default: the locale's. Bytes that are not text in it are replaced.
    :param ours: it is no foreign program: the toolkit, or one that its lock names, and it runs nothing of others
    """
    words = command if isinstance(command, str) else [str(word) for word in command]
    if not ours:
        refuse_undeclared(words if isinstance(words, str) else words[0])
    try:
        done = subprocess.run(
            words,
            input=text or "",
            capture_output=True,
            text=True,
            encoding=encoding,
            errors="replace",
            env=foreign_environment() if environment is None else dict(environment),
            cwd=cwd,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:  # its output is bytes, whatever encoding was asked for
        out, err = ((part or b"").decode(errors="replace") for part in (error.stdout, error.stderr))
        return Captured(returncode=None, stdout=out, stderr=err, ending=f"no answer within {timeout:g} s")
    except OSError as error:
        why = f"cannot run {words if isinstance(words, str) else words[0]}: {error.strerror or error}"
        return Captured(returncode=None, stdout="", stderr="", ending=why)
    return Captured(
        returncode=done.returncode, stdout=done.stdout, stderr=done.stderr, ending=f"exit code {done.returncode}"
    )


def run_bytes(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    seconds: float,
    limit: int,
    input: bytes | None = None,
    pass_fds: Sequence[int] = (),
) -> tuple[Finished, str]:
    """Run git; what it reads and prints are bytes. Returns that, and why it was killed: empty if it was not.

    It is no foreign program.

    :param seconds: after which it is killed
    :param limit: bytes of output, and of errors; a program that prints more is killed
    :param input: given to it as standard input; default: ours
    :param pass_fds: file descriptors that it inherits; none on Windows, which has no way to
    :raises OSError: it can't be started
    """
    printed = (bytearray(), bytearray())
    killed: list[str] = []

    def kill(why: str) -> None:
        killed.append(why)
        process.kill()

    def drain(pipe: IO[bytes], into: bytearray) -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK):
                into += chunk
                if len(into) > limit:
                    kill(f"it printed more than {limit:,} bytes")
                    return

    process = subprocess.Popen(
        command,
        stdin=None if input is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        pass_fds=pass_fds if sys.platform != "win32" else (),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    pairs = zip((process.stdout, process.stderr), printed, strict=True)
    readers = [threading.Thread(target=drain, args=pair, daemon=True) for pair in pairs]
    timer = threading.Timer(seconds, kill, [f"it was not done after {seconds:,.0f} s"])
    try:
        for thread in (timer, *readers):
            thread.start()
        if process.stdin is not None:
            with suppress(OSError), process.stdin as pipe:  # it may end before it has read all
                pipe.write(input or b"")
        process.wait()
        for thread in readers:
            thread.join(_CLOSING if killed else seconds)  # what it has started may keep its output open
    except BaseException:
        process.kill()
        raise
    finally:
        timer.cancel()
    done = subprocess.CompletedProcess(command, process.returncode, bytes(printed[0]), bytes(printed[1]))
    return done, next(iter(killed), "")


@contextmanager
def running(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    output: IO[bytes] | None = None,
    errors: IO[bytes] | None = None,
    pass_fds: Sequence[int] = (),
) -> Iterator[Running]:
    """Start a program in a group of its own; at the end of the block the whole group is killed.

    :param environment: default: :func:`~mlir_release.ground.programs.surroundings.foreign_environment`
    :param output: file for what it prints; default: the caller reads it, and writes its standard input, through pipes
    :param errors: file for its error output; default: where its output goes
    :raises OSError: it can't be started
    """
    refuse_undeclared(command[0])
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE if output is None else subprocess.DEVNULL,
        stdout=subprocess.PIPE if output is None else output,
        stderr=subprocess.STDOUT if errors is None else errors,
        env=foreign_environment() if environment is None else dict(environment),
        cwd=cwd,
        pass_fds=pass_fds,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what is still to be written has no reader any more
                    pipe.close()
        if sys.platform == "win32":
            if process.poll() is None:  # nobody else has its number
                subprocess.run(["taskkill", "/f", "/t", "/pid", str(process.pid)], capture_output=True, check=False)
            process.kill()
        else:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def exit_code(process: Running, seconds: float) -> int | None:
    """The exit code of a program, for which it is given some seconds; None if it still runs."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(timeout=seconds)
    return None


@dataclass(frozen=True)
class Guarded:
    """A running program.

    :param ended: a file descriptor that becomes readable when the program has ended
    """

    process: Running
    ended: int

    def wait(self) -> int:
        """Its exit code; above 128: it was ended by a signal."""
        return self.process.wait()


@contextmanager
def guarded(command: Sequence[str | Path], *, errors: Path) -> Iterator[Guarded]:
    """Start a program that never outlives this process, however it ends: by SIGKILL, too. Not on Windows.

    It is for programs that would wait for this process for ever (see :mod:`mlir_release.ground.programs.guard`). At the
    end of the block it has ended: by itself, or killed.

    :param command: the program by its path
    :param errors: file for its error output; what it prints otherwise is dropped
    """
    refuse_undeclared(command[0])
    ended, held = os.pipe()
    try:
        with errors.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=file,
                env=foreign_environment(),
                pass_fds=(held,),
                start_new_session=True,  # one group with the program; and Ctrl+C reaches it through us only
            )
    finally:
        os.close(held)
    try:
        yield Guarded(process, ended)
    finally:
        if not select.select([ended], [], [], 0)[0]:  # the program is alive, and with it its group
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            select.select([ended], [], [], _REACTION)
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        os.close(ended)
