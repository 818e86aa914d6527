"""Terminals that are narrow, plain or go away, and shells that complete what is typed: real ones, and real pipes."""

from __future__ import annotations

import os
import re
import select
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("NOT TRIED: pseudo-terminals and pipes need POSIX", allow_module_level=True)

import fcntl
import termios

from tests.wheel_factory import make_wheel

ROOT = Path(__file__).parents[4]

#: The command line, with a command that takes its time.
PROGRESS = """
import time, click
from mlir_release.cli import app
from mlir_release.ground.console import console

def work():
    with console.step("a step"), console.waiting("it", every=0.01):
        time.sleep(0.1)

app.app.get_command = lambda context, name: click.Command(name, callback=work)
app.main()
"""


def environment(**variables: str) -> dict[str, str]:
    kept = ("PATH", "HOME", "PYTHONPATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | variables


def on_terminal(*words: str, columns: int, **variables: str) -> tuple[int, str]:
    """The exit code of a command on a terminal, and what both of its streams print there."""
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "mlir_release", *words]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=its, stdout=its, stderr=its, start_new_session=True, env=environment(**variables)
    )
    os.close(its)
    printed = b""
    try:
        while chunk := os.read(ours, 65536):
            printed += chunk
    except OSError:  # Linux: nobody has its other side any more
        pass
    finally:
        os.close(ours)
    return process.wait(), printed.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [0, 40, 80])
def test_a_table_fits_every_terminal(columns: int) -> None:
    """A terminal may say that it has no columns at all: a serial line, some containers."""
    code, printed = on_terminal("matrix", columns=columns, TERM="dumb")
    assert code == 0
    assert "mlir-linux-x86_64-cp312" in printed
    assert not re.search("…|\x1b|Traceback", printed)


def test_neither_no_color_nor_a_dumb_terminal_gets_colours(tmp_path: Path) -> None:
    wheel = str(make_wheel(tmp_path))
    coloured = re.compile("\x1b\\[[0-9;]*3[0-9]")
    for words in (["matrix"], ["wheels", "inspect", wheel], ["doctor", "--checkout", "."], ["matrix", "--only", "x"]):
        _, printed = on_terminal(*words, columns=40, TERM="xterm-256color", NO_COLOR="1")
        assert not coloured.search(printed), words
        _, printed = on_terminal(*words, columns=40, TERM="dumb")
        assert "\x1b" not in printed, words
        assert "Traceback" not in printed


def unread(command: list[str], stream: str) -> tuple[int, str]:
    """The exit code of a command of which nobody reads one stream, and what it says on the other."""
    reading, writing = os.pipe()
    os.close(reading)
    out, err = (writing, subprocess.PIPE) if stream == "stdout" else (subprocess.PIPE, writing)
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=out, stderr=err, text=True, check=False, env=environment())
    finally:
        os.close(writing)
    return done.returncode, (done.stderr if stream == "stdout" else done.stdout)


@pytest.mark.parametrize(
    "words",
    ["matrix", "matrix --json", "--help", "--version", "release show --help", "wheels inspect WHEEL"],
)
def test_a_reader_that_goes_away_ends_every_command_quietly(words: str, tmp_path: Path) -> None:
    """As with ``| head -1``."""
    wheel = str(make_wheel(tmp_path))
    command = [sys.executable, "-m", "mlir_release", *(wheel if word == "WHEEL" else word for word in words.split())]
    assert unread(command, "stdout") == (141, "")


def test_progress_that_nobody_reads_ends_a_command_quietly_too() -> None:
    command = [sys.executable, "-c", PROGRESS, "pin"]
    assert unread(command, "stderr") == (141, "")
    assert unread([sys.executable, "-m", "mlir_release", "matrix", "--only", "nonsense"], "stderr") == (141, "")


# -- shells ------------------------------------------------------------------------------------------------------------

#: What a user adds to the shell's configuration: the README has the same lines.
SET_UP = {
    "bash": 'eval "$(_MLIR_RELEASE_COMPLETE=bash_source mlir-release)"',
    "zsh": 'eval "$(_MLIR_RELEASE_COMPLETE=zsh_source mlir-release)"',
    "fish": "_MLIR_RELEASE_COMPLETE=fish_source mlir-release | source",
}
#: Starts each without the configuration of whoever runs the tests.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], ""),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -D; "),
}
#: What is typed before Tab: a command, subcommands, an extra's, an option, a value, a file; and what it becomes.
TYPED = {
    "rehe": "mlir-release rehearsal",
    "release stat": "release status",
    "integrate patches expl": "patches explain",
    "mlgo corp": "mlgo corpus",
    "release show --for": "show --forge",
    "matrix --kind plat": "--kind platforms",
    "wheels inspect a-whe": "inspect a-wheel-of-mine.whl",
}
PROGRAMS = Path(sys.executable).parent


def shell_environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLIR_RELEASE", "GITHUB_"))}
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "HOME": str(home), "TERM": "dumb", "PS1": "> ", "XDG_CONFIG_HOME": str(home)}


def needed(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} (tools/bootstrap.py --tests installs it)")
    if not (PROGRAMS / "mlir-release").exists():
        pytest.skip("the toolkit's program is not installed beside this Python")


class Terminal:
    """A shell on a terminal, with completion turned on."""

    def __init__(self, shell: str, home: Path) -> None:
        command, before = SHELLS[shell]
        self.side, its = os.openpty()
        self.process = subprocess.Popen(
            command, stdin=its, stdout=its, stderr=its, start_new_session=True, env=shell_environment(home), cwd=home
        )
        os.close(its)
        self.type(f"{before}{SET_UP[shell]}; echo set''up\n", "setup\r\n")

    def type(self, keys: str, expected: str) -> str:
        """What the shell prints from now on, until it has printed what is expected or 30 s are over."""
        printed, end = "", time.monotonic() + 30
        os.write(self.side, keys.encode())
        while expected not in printed and time.monotonic() < end:
            if select.select([self.side], [], [], 0.1)[0]:
                printed += os.read(self.side, 4096).decode(errors="replace")
        return printed

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.side)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_what_is_typed(shell: str, tmp_path: Path) -> None:
    needed(shell)
    (tmp_path / "a-wheel-of-mine.whl").touch()
    terminal = Terminal(shell, tmp_path)
    try:
        for typed, completed in TYPED.items():
            printed = terminal.type(f"mlir-release {typed}\t", completed)
            assert completed in printed, typed
            terminal.type("\x15", "")  # Ctrl+U clears the line
    finally:
        terminal.close()


def test_fish_completes_with_descriptions(tmp_path: Path) -> None:
    needed("fish")
    (tmp_path / "a-wheel-of-mine.whl").touch()

    def completed(typed: str) -> str:
        script = f"{SET_UP['fish']}; complete -C '{typed}'"
        command = ["fish", "--no-config", "-c", script]
        done = subprocess.run(
            command, capture_output=True, text=True, env=shell_environment(tmp_path), cwd=tmp_path, check=True
        )
        assert done.stderr == ""
        return done.stdout

    for typed, whole in TYPED.items():
        assert whole.split()[-1] in re.split(r"\s", completed(f"mlir-release {typed}")), typed
    assert "rehearsal\tRun the whole main job on this machine" in completed("mlir-release rehe")
