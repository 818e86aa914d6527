"""The action that runs integrate finds a CPython and git on any runner or in a container, or says what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools import install

ACTION = Path(__file__).resolve().parents[3] / "actions" / "integrate"
SCRIPT = ACTION / "find-python.sh"
BASH = shutil.which("bash") or "bash"

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="NOT TRIED: the stand-ins for programs are scripts with a shebang"),
    pytest.mark.skipif(Path("/opt/python").exists(), reason="NOT TRIED: this machine has CPythons that would be found"),
]


def program(folder: Path, name: str, said: str, *, code: int = 0) -> None:
    path = folder / name
    path.write_text(f'#!{BASH}\necho "{said}"\nexit {code}\n')
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """All programs that there are."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program(folder, "git", "git version 2.39.5 (Apple Git-154)")
    return folder


def find(machine: Path, *given: str) -> subprocess.CompletedProcess[str]:
    command = [BASH, str(SCRIPT), *given]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": str(machine)})


def test_the_versions_are_those_of_the_locks() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    found = tuple((3, int(minor)) for minor in re.findall(r"(?:OLDEST|NEWEST)=(\d+)", text))
    assert found == install.SUPPORTED
    assert all(f" {minor}" in f" {re.findall('for number in (.*);', text)[0]}" for minor in range(11, 15))


def test_the_one_of_setup_python_is_taken_if_it_runs(machine: Path) -> None:
    program(machine, "of-setup", "3 12 CPython")
    program(machine, "python3.13", "3 13 CPython")
    assert find(machine, str(machine / "of-setup")).stdout == f"{machine / 'of-setup'}\n"
    # The runner's own, in a container with an older C library.
    program(machine, "of-setup", "version GLIBC_2.38 not found", code=1)
    assert find(machine, str(machine / "of-setup")).stdout == f"{machine / 'python3.13'}\n"
    assert find(machine, "").stdout == f"{machine / 'python3.13'}\n"
    assert find(machine, str(machine / "missing")).stdout == f"{machine / 'python3.13'}\n"


def test_a_python3_that_is_new_enough_will_do(machine: Path) -> None:
    program(machine, "python3", "3 11 CPython")
    assert find(machine, "").stdout == f"{machine / 'python3'}\n"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("3 9 CPython", "python3 is 3.9"),
        ("3 15 CPython", "python3 is 3.15"),
        ("ModuleNotFoundError: No module named 'ensurepip'", "python3 has no venv (Debian: python3-venv)"),
        ("3 11 PyPy", ""),
    ],
)
def test_what_is_no_fit_is_named(machine: Path, said: str, why: str) -> None:
    program(machine, "python3", said)
    done = find(machine, "")
    assert (done.returncode, done.stdout) == (3, "")
    assert "error[no-python]: there is no CPython 3.11 to 3.14 with venv" in done.stderr
    assert why in done.stderr
    assert "to do: install python3.12" in done.stderr


def test_without_any_python_there_is_one_message(machine: Path) -> None:
    done = find(machine, "")
    assert (done.returncode, done.stderr.count("error[")) == (3, 1)


@pytest.mark.parametrize("said", ["git version 2.38.9", "git version 1.99.0", "", None])
def test_an_old_git_or_none_is_named(machine: Path, said: str | None) -> None:
    program(machine, "python3", "3 12 CPython")
    (machine / "git").unlink()
    if said is not None:
        program(machine, "git", said)
    done = find(machine, "")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"error[tool-missing]: git 2.39 or newer is needed; here is {said or 'none'}" in done.stderr


@pytest.mark.parametrize("said", ["git version 2.39.0.windows.1", "git version 2.50.1", "git version 3.0.0"])
def test_a_newer_git_will_do(machine: Path, said: str) -> None:
    program(machine, "python3", "3 12 CPython")
    program(machine, "git", said)
    assert find(machine, "").returncode == 0


def test_nothing_in_the_action_names_a_path_outside_of_the_container() -> None:
    """There, these contexts have the paths of the host (actions/runner#2185)."""
    text = (ACTION / "action.yml").read_text(encoding="utf-8")
    code = re.sub(r"(?m)#.*$", "", text)
    assert not re.search(r"github\.(action_path|workspace)|runner\.(temp|tool_cache|workspace)", code)
    workflow = (ACTION.parents[1] / ".github" / "workflows" / "integrate.yml").read_text(encoding="utf-8")
    probe = re.sub(r"(?m)#.*$", "", workflow.partition("\n  probe:\n")[2].partition("\n  advance:\n")[0])
    assert probe
    assert not re.search(r"github\.(action_path|workspace)|runner\.(temp|tool_cache|workspace)", probe)
