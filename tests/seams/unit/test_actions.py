"""What the actions run: integrate finds a CPython and git or says what is missing; setup-mlir names a release."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.documents import read_yaml
from tools import install

ACTIONS = Path(__file__).resolve().parents[3] / "actions"
SCRIPT = ACTIONS / "integrate" / "find-python.sh"
BASH = shutil.which("bash") or "bash"
FOLDER = "actions/setup-mlir"
OUTER = "example/kit"  # what github.action_repository is inside another repository's action
SIGNER = "https://github.com/o/n"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="NOT TRIED: the stand-ins for programs have a shebang")


def program(folder: Path, name: str, said: str, *, code: int = 0) -> None:
    path = folder / name
    path.write_text(f'#!{BASH}\necho "{said}"\nexit {code}\n')
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """All programs that there are."""
    if Path("/opt/python").exists():
        pytest.skip("NOT TRIED: this machine has CPythons that would be found")
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
    text = (ACTIONS / "integrate" / "action.yml").read_text(encoding="utf-8")
    code = re.sub(r"(?m)#.*$", "", text)
    assert not re.search(r"github\.(action_path|workspace)|runner\.(temp|tool_cache|workspace)", code)
    workflow = (ACTIONS.parent / ".github" / "workflows" / "integrate.yml").read_text(encoding="utf-8")
    probe = re.sub(r"(?m)#.*$", "", workflow.partition("\n  probe:\n")[2].partition("\n  advance:\n")[0])
    assert probe
    assert not re.search(r"github\.(action_path|workspace)|runner\.(temp|tool_cache|workspace)", probe)


# -- setup-mlir: which repository releases are taken from, also inside another action, and which release ---------------


@pytest.mark.parametrize(
    ("given", "path", "action_repository", "expected"),
    [
        ("", f"/home/runner/work/_actions/llvm/wheels/{'a' * 40}/{FOLDER}", "llvm/wheels", "llvm/wheels"),
        ("", f"/home/runner/work/_actions/llvm/wheels/{'a' * 40}/{FOLDER}", OUTER, "llvm/wheels"),
        ("", f"/home/runner/work/_actions/llvm/wheels/branch/with/slash/{FOLDER}", OUTER, "llvm/wheels"),
        ("", r"D:\a\_actions\llvm\wheels\v1\actions\setup-mlir", OUTER, "llvm/wheels"),
        ("", f"/__w/_actions/llvm/wheels/v1/{FOLDER}", OUTER, "llvm/wheels"),  # a job in a container
        ("", f"/home/runner/work/user/user/{FOLDER}", "llvm/wheels", "llvm/wheels"),  # ./actions/setup-mlir
        ("given/name", f"/home/runner/work/_actions/llvm/wheels/v1/{FOLDER}", OUTER, "given/name"),
    ],
)
def test_the_repository(tmp_path: Path, given: str, path: str, action_repository: str, expected: str) -> None:
    given_words = run_action(tmp_path, REPOSITORY=given, ACTION_PATH=path, ACTION_REPOSITORY=action_repository)
    assert given_words[given_words.index("--forge") + 1] == f"github:{expected}"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TAG": "latest"}, ["--", "latest"]),
        ({"REVISION": "a" * 40}, [f"--revision={'a' * 40}"]),
        ({"REVISION": "before:2026-11-20"}, ["--revision=before:2026-11-20"]),
        ({"REVISION": "--sdk $(touch evil)"}, ["--revision=--sdk $(touch evil)"]),
        ({"TAG": "--dry-run"}, ["--", "--dry-run"]),
        ({"TAG": "latest", "REVISION": "head"}, ["--revision=head", "--", "latest"]),  # which the command refuses
        ({}, []),  # this, too
        ({"TAG": "latest", "DISTRIBUTION": "llvm-libclang"}, ["--distribution", "llvm-libclang", "--", "latest"]),
        ({"TAG": "latest", "DISTRIBUTION": "$(touch evil)"}, ["--distribution", "$(touch evil)", "--", "latest"]),
        ({"TAG": "latest", "SIGNED_BY": SIGNER}, ["--signed-by", SIGNER, "--", "latest"]),
        ({"REVISION": "head", "TRUSTED_ROOT": "a root.jsonl"}, ["--trusted-root", "a root.jsonl", "--revision=head"]),
        ({"SIGNED_BY": SIGNER, "TRUSTED_ROOT": "root"}, ["--signed-by", SIGNER, "--trusted-root", "root"]),
    ],
)
def test_the_release_is_named_by_its_tag_or_by_a_revision_and_who_must_have_signed_it(
    tmp_path: Path, variables: dict[str, str], expected: list[str]
) -> None:
    words = run_action(tmp_path, **({"TAG": "", "REPOSITORY": "a/b"} | variables))
    assert words[0] == "install"
    assert words[words.index("skip") + 1 :] == expected
    assert not (tmp_path / "evil").exists()


def run_action(folder: Path, **given: str) -> list[str]:
    """The arguments that the action's last step gives the toolkit."""
    (step,) = (s for s in read_yaml(ACTIONS / "setup-mlir" / "action.yml")["runs"]["steps"] if s.get("id") == "install")
    program = folder / "mlir-release-install" / "bin" / "mlir-release"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    variables = {"REPOSITORY": "", "ACTION_PATH": "", "ACTION_REPOSITORY": "", "TAG": "latest", "REVISION": "",
                 "PYTHON": "python", "DISTRIBUTION": "", "SDK": "false", "PROVENANCE": "skip",
                 "SIGNED_BY": "", "TRUSTED_ROOT": ""}  # fmt: skip
    assert step["env"].keys() == {*variables, "GITHUB_TOKEN"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], capture_output=True, text=True,
        env=variables | given | {"RUNNER_TEMP": str(folder), "RUNNER_OS": "Linux", "PATH": os.environ["PATH"]},
        check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
