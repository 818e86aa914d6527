"""The shell completes commands, options and values: real shells, each on a terminal of its own."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("NOT TRIED: pseudo-terminals need POSIX", allow_module_level=True)

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


def environment(home: Path) -> dict[str, str]:
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
            command, stdin=its, stdout=its, stderr=its, start_new_session=True, env=environment(home), cwd=home
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
            command, capture_output=True, text=True, env=environment(tmp_path), cwd=tmp_path, check=True
        )
        assert done.stderr == ""
        return done.stdout

    assert "rehearsal\tRun the whole main job on this machine" in completed("mlir-release rehe")
    assert completed("mlir-release release stat").startswith("status\t")
    assert completed("mlir-release integrate patches expl").startswith("explain\t")
    assert completed("mlir-release release show --for").startswith("--forge\t")
    assert completed("mlir-release matrix --kind plat").strip() == "platforms"
    assert "a-wheel-of-mine.whl" in completed("mlir-release wheels inspect a-whe")
