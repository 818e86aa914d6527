"""Each step of each workflow finds its shell, and that shell the step's programs, on every runner that it may be on."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.python.cpython import DEFAULT_PYTHON
from tests.documents import read_yaml
from tests.platforms.runtimes import ROOT, RUNTIMES
from tools import install

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONS = sorted((ROOT / "actions").glob("*/action.yml"))
RUNNERS = sorted({runtime.runner for runtime in RUNTIMES.values()})

#: GitHub Docs, "Workflow syntax", jobs.<job_id>.steps[*].shell: the default, and what there is.
DEFAULT = {"Linux": "bash", "macOS": "bash", "Windows": "pwsh"}
SHELLS = {
    "Linux": {"bash", "sh", "pwsh", "python"},
    "macOS": {"bash", "sh", "pwsh", "python"},
    "Windows": {"bash", "pwsh", "python", "cmd", "powershell"},
}

#: Of bash itself, and of the toolkit's environment.
EVERYWHERE = {
    ".", ":", "[", "[[", "]", "]]", "case", "cd", "continue", "echo", "esac", "exit", "export", "fi", "done", "for",
    "if", "local", "printf", "read", "return", "set", "shift", "test", "then", "trap", "true", "unset",
    "while", "mlir-release", '"$scripts/mlir-release"', '"$TOOLKIT_PYTHON"',
}  # fmt: skip

#: Beside those: what Git for Windows brings with its bash. Its ``PATH`` has no ``python3``.
PROGRAMS = {
    "Windows": {"ls", "cat", "cp", "mkdir", "mv", "rm", "sed", "grep", "tr", "sort", "head", "tee", "git", "python"}
}

#: What macOS' Bash 3.2 lacks, by the CHANGES of Bash 4.0 to 5.3.
NEWER_THAN_3_2 = re.compile(
    r"\b(?:mapfile|readarray|coproc|EPOCHSECONDS|EPOCHREALTIME|BASHPID)\b"
    r"|\b(?:declare|local|typeset)\s+-\w*[Agnlu]|\bprintf\s+(?:-v\s+\w+\s+)?['\"][^'\"]*%\(|\bwait\s+-n|\[\[?\s+-[vR]\s"
    r"|\$\{\w+(?:\[[@*]\])?(?:\^|,|@[A-Za-z])|\$\{\w+\[-\d|\$\{\s|&>>|\|&|;;?&|\{\d+\.\.\d+\.\.|\*\*/"
)

#: What only bash and its like understand.
POSIX = re.compile(r"\$[A-Za-z_{(]|\\$|\bexport |\bthen\b|\bfi\b|\[ |\|\||&&|<<|2>|/dev/null", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """One ``run`` step on one operating system."""

    where: str
    system: str
    shell: str
    script: str

    def __str__(self) -> str:
        return f"{self.where} on {self.system}"


def system_of(runner: str) -> str:
    return {"ubuntu": "Linux", "macos": "macOS", "windows": "Windows"}[runner.split("-")[0]]


def systems_of(job: dict[str, Any]) -> set[str]:
    """Where a job may run: on the runner that it names, those of its matrix, or every runtime's."""
    label = str(job["runs-on"])
    if "${{" not in label:
        return {system_of(label)}
    if "inputs.runs-on" in label:  # of probes: integrates need locks that Windows does not have
        return {"Linux", "macOS"}
    matrix = job.get("strategy", {}).get("matrix", {})
    listed = matrix.get("runner", RUNNERS) if isinstance(matrix, dict) and "matrix." in label else RUNNERS
    return {system_of(runner) for runner in listed}


def runs_there(step: dict[str, Any], system: str) -> bool:
    named = re.search(r"runner\.os == '(\w+)'", str(step.get("if", "")))
    return named is None or named[1] == system


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each job's place, its default shell, and itself."""
    for path in WORKFLOWS:
        workflow = read_yaml(path)
        shell = workflow.get("defaults", {}).get("run", {}).get("shell", "")
        for name, job in workflow["jobs"].items():
            if "steps" in job:
                yield f"{path.name}: {name}", job.get("defaults", {}).get("run", {}).get("shell", shell), job


def users(action: str) -> set[str]:
    """The systems on which a composite action of this repository is used; by others, on all."""
    found = set()
    for _, _, job in jobs():
        for step in job["steps"]:
            if re.search(rf"(^\./|/)actions/{action}(@|$)", str(step.get("uses", ""))):
                found |= {system for system in systems_of(job) if runs_there(step, system)}
    return found or set(DEFAULT)


def all_steps() -> Iterator[Step]:
    for where, default, job in jobs():
        for system in systems_of(job):
            for step in job["steps"]:
                if "run" in step and runs_there(step, system):
                    shell = step.get("shell") or default or DEFAULT[system]
                    yield Step(f"{where}: {step.get('name', '?')}", system, shell, step["run"])
    for path in ACTIONS:
        for system in users(path.parent.name):
            for step in read_yaml(path)["runs"]["steps"]:
                if "run" in step and runs_there(step, system):
                    yield Step(f"{path.parent.name}: {step['name']}", system, step["shell"], step["run"])


STEPS = sorted(all_steps(), key=str)


def commands(script: str) -> list[str]:
    """The first word of each command of a bash script."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^\s*#.*$|\s#\s.*$", "", script))
    text = re.sub(r'"[^"\n]*"', lambda match: '""' if re.search(r"[\s;|]", match[0]) else match[0], text)  # no command
    text = re.sub(r"\w+\+?=\([^)]*\)", "", text)  # nor is a list
    found = []
    for piece in re.split(r"\n|;(?!;)|&&|\|\|?|\$\(|\b(?:then|else|do)\b", text):
        words = piece.strip().lstrip("(").split()
        while words and (words[0] in {"if", "elif", "while", "!"} or re.match(r"\w+(\[\])?\+?=", words[0])):
            ended = not re.match(r"\w+=\S*$", words[0]) and words[0] not in {"if", "elif", "while", "!"}
            words = [] if ended else words[1:]
        if words:
            found.append(words[0].rstrip(")"))
    return found


def test_all_kinds_of_runners_are_among_the_steps() -> None:
    assert {step.system for step in STEPS} == set(DEFAULT)
    assert {"bash", "pwsh"} <= {step.shell for step in STEPS if step.system == "Windows"}
    assert len([step for step in STEPS if step.system == "Windows"]) >= 8


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_the_shell_is_there(step: Step) -> None:
    assert step.shell.split()[0] in SHELLS[step.system]


@pytest.mark.parametrize("step", [step for step in STEPS if step.shell == "pwsh"], ids=str)
def test_powershell_runs_what_it_understands(step: Step) -> None:
    assert POSIX.search(step.script) is None


@pytest.mark.parametrize("step", [step for step in STEPS if (step.system, step.shell) == ("Windows", "bash")], ids=str)
def test_programs_are_there_on_windows(step: Step) -> None:
    assert set(commands(step.script)) <= EVERYWHERE | PROGRAMS["Windows"]


OLDEST_BASH = {step.where: step.script for step in STEPS if step.system == "macOS" and step.shell.startswith("bash")}
OLDEST_BASH |= {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in ROOT.glob("actions/**/*.sh")}


@pytest.mark.parametrize("where", OLDEST_BASH)
def test_macos_bash_understands_it(where: str) -> None:
    script = re.sub(r"(?m)(^|\s)#\s.*$", "", OLDEST_BASH[where])
    assert not (found := NEWER_THAN_3_2.search(script)), found


@pytest.mark.parametrize("command", ["run", "run\n--title\nwith  spaces and $HOME\n", "\n", "a\n\nb\\n"])
def test_a_command_is_split_into_its_lines_by_any_bash(command: str, tmp_path: Path) -> None:
    (script,) = (text for where, text in OLDEST_BASH.items() if where == "integrate: Run mlir-release integrate")
    program = tmp_path / "mlir-release-integrate/bin/mlir-release"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nshift 3\nprintf '%s|' \"$@\"\n", encoding="utf-8")
    program.chmod(0o755)
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", f"enable -n mapfile readarray\n{script}"]
    given = {"RUNNER_TEMP": str(tmp_path), "DIRECTORY": ".", "COMMAND": command, "PATH": os.environ["PATH"]}
    done = subprocess.run(shell, env=given, capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"{line}|" for line in command.removesuffix("\n").split("\n"))


def test_what_the_checks_above_would_find() -> None:
    newer = (
        "mapfile -t a",
        "declare -A a",
        "${a^^}",
        "${a[@]@Q}",
        "${a[-1]}",
        "a &>> b",
        "a |& b",
        "[[ -v a ]]",
        "{0..9..2}",
    )
    for script in (*newer, "printf '%(%F)T'", "${a,,}", "b) c ;;&", "ls **/a", "wait -n"):
        assert NEWER_THAN_3_2.search(script), script
    for script in (
        '"${a[@]}" "${a%.*}" "$a@b"',
        "a && b; c || d > e 2>&1",
        "[ -n a ]; printf '%s' a",
        "{0..9}",
        "${#a[@]}",
    ):
        assert not NEWER_THAN_3_2.search(script), script
    assert POSIX.search('mlir-release sdk unpack "$RUNNER_TEMP/packed"')
    assert POSIX.search("mlir-release a \\\n  b")
    assert not POSIX.search("python -m pytest -q tests/*/unit")
    script = (
        'options=()\nif [ -n "$A" ]; then df -h | awk 1; fi\nX=1 python3 a.py # comment\nfor a in b; do sudo rm; done\n'
    )
    assert commands(script) == ["[", "df", "awk", "fi", "python3", "for", "sudo", "done"]
    assert not {"df", "awk", "python3", "sudo"} & (EVERYWHERE | PROGRAMS["Windows"])


#: Runs an interpreter that a runner may have, or pip, or what starts one (``make setup``).
INTERPRETER = re.compile(
    r'(?<![\w./-])(?:python[\d.]*|pip[\d.]*|make|\.ci/run)(?=\s|$)|"\$TOOLKIT_PYTHON"', re.MULTILINE
)


def all_sequences() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The steps of each job and of each composite action, with their place."""
    for where, _, job in jobs():
        yield where, job["steps"]
    for path in ACTIONS:
        yield path.parent.name, read_yaml(path)["runs"]["steps"]


SEQUENCES = list(all_sequences())


def without_declared_python(steps: list[dict[str, Any]]) -> Iterator[str]:
    """Steps that run an interpreter which is not the one that an earlier step has set up, for the toolkit."""
    first, named = False, ""  #: whether it is first on the PATH; the output with its path
    for step in steps:
        if step.get("uses") == "./actions/setup":  # its environment, which has an interpreter, comes onto the PATH
            first = True
        elif str(step.get("uses", "")).startswith("actions/setup-python@") and "if" not in step:
            given = step["with"]
            if given["python-version"] == DEFAULT_PYTHON.version:
                first = first or given.get("update-environment", True)
                named = f"steps.{step.get('id')}.outputs.python-path"
        elif INTERPRETER.search(step.get("run", "")):
            taken = step.get("env", {})
            if not first and not (named and named in taken.get("TOOLKIT_PYTHON", taken.get("PYTHON", ""))):
                yield step.get("name", step["run"])


@pytest.mark.parametrize(("where", "steps"), SEQUENCES, ids=[where for where, _ in SEQUENCES])
def test_no_job_depends_on_the_interpreter_of_its_runner(where: str, steps: list[dict[str, Any]]) -> None:
    """windows-2022's first was 3.9, Homebrew's is 3.15: neither runs the toolkit."""
    assert not list(without_declared_python(steps))


def test_what_depends_on_the_interpreter_of_its_runner_is_found() -> None:
    setup = {
        "uses": "actions/setup-python@x",
        "id": "it",
        "with": {"python-version": "3.12", "update-environment": False},
    }
    mine = {"PYTHON": "${{ steps.it.outputs.python-path }}"}
    for command in ("python3 a.py", "A= pip install x", ".ci/run", "cd b\nmake setup", "x=$(python -c 1)"):
        assert list(without_declared_python([{"run": command}, setup])) == [command]
        assert list(without_declared_python([setup, {"run": command}])) == [command]
        assert not list(without_declared_python([setup, {"run": command, "env": mine}]))
        older = setup | {"with": {"python-version": "3.11"}}
        assert list(without_declared_python([older, {"run": command}])) == [command]
    assert not INTERPRETER.search('.venv/bin/python x --python "$A" mlir-release pypi cmake')


def test_one_version_is_declared() -> None:
    """That of a wheel, a test or a canary is its own."""
    every = [step["with"] for _, steps in SEQUENCES for step in steps if "setup-python@" in str(step.get("uses"))]
    own = {"${{ matrix.versions }}", "${{ matrix.python }}"}
    assert {given["python-version"] for given in every} == {DEFAULT_PYTHON.version, *own}
    assert DEFAULT_PYTHON.version == install.PYTHON
    for name in ("setup", "integrate", "setup-mlir"):
        (given,) = (
            step["with"]
            for step in read_yaml(ROOT / "actions" / name / "action.yml")["runs"]["steps"]
            if "with" in step
        )
        assert given["update-environment"] is False, "what the job or its caller has set up is first on the PATH"
