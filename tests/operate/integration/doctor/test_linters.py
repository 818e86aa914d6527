"""What the doctor left to zizmor and actionlint: each bad workflow that it found itself fails there.

The doctor runs zizmor on a release repository's workflows, and shows what it finds as the check ``workflow-lint``.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.programs.process import installed_program
from mlir_release.operate.doctor import actions
from mlir_release.operate.doctor.checks import look
from mlir_release.operate.doctor.results import Answer, Finding
from tests.healthy import CI_PATH, FILES, ROOT, WELL, read_used

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = "on: push\npermissions: {}\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - "
ACTION = "actions/checkout@0123456789012345678901234567890123456789 # v7"

#: What the doctor said until it left this to others; a workflow; zizmor's rule, and actionlint's.
LEFT = {
    "it lacks triggers (on)": ("jobs: {a: {runs-on: x, steps: [{run: x}]}}\n", '"on" is a required', "[syntax-check]"),
    "it lacks jobs": ("on: push\n", '"jobs" is a required', "[syntax-check]"),
    "it lacks jobs: none": ("on: push\njobs: {}\n", "", "[syntax-check]"),
    "it lacks jobs: a list": ("on: push\njobs: [a]\n", "not of type", "[syntax-check]"),
    "it is not a table": ("- a list\n", "expected a YAML mapping", "[syntax-check]"),
    "a job without steps or a call": ("on: push\njobs: {a: {}}\n", "is a required", "[syntax-check]"),
    "a job that says nothing": (STEPS.replace("permissions: {}\n", "") + "run: x\n", "excessive-permissions", ""),
    "not named by a full commit": (STEPS + "uses: actions/checkout@v6\n", "unpinned-uses", ""),
    "an old Node, by its tag": (STEPS + "uses: actions/checkout@v2\n", "", "[action]"),
}

#: What the doctor never looked for, and shows now.
NEW = {
    "template-injection": STEPS + 'run: echo "${{ github.event.issue.title }}"\n',
    "dangerous-triggers": STEPS.replace("push", "pull_request_target") + "run: x\n",
    "excessive-permissions": STEPS.replace("permissions: {}\n", "") + "run: x\n",
    "unpinned-uses": STEPS + "uses: owner/tool@main\n",
}


def zizmor(content: str, folder: Path) -> str:
    file = folder / CI_PATH
    file.parent.mkdir(parents=True)
    file.write_text(content)
    program = Path(sys.executable).with_name("zizmor")
    ran = subprocess.run(
        [program, "--offline", "--quiet", "--strict-collection", "--min-severity=medium", "."],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode != 0
    return ran.stdout + ran.stderr


def actionlint(content: str) -> str:
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "go_tool.py", "actionlint"], capture_output=True, text=True, check=True
    )
    ran = subprocess.run(
        [made.stdout.strip(), "-oneline", "-"], input=content, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    return ran.stdout


@pytest.mark.parametrize("said", LEFT)
def test_what_the_doctor_left_to_linters_fails_there(said: str, tmp_path: Path) -> None:
    content, by_zizmor, by_actionlint = LEFT[said]
    assert by_zizmor or by_actionlint
    if by_zizmor:
        assert by_zizmor in zizmor(content, tmp_path)
    if by_actionlint:
        assert by_actionlint in actionlint(content)


def linted(find: Callable[[str], str | None] = installed_program, **workflows: str) -> list[Answer]:
    """What the doctor shows of zizmor's findings."""
    files = {**FILES, **{f".github/workflows/{name}.yml": text.encode() for name, text in workflows.items()}}
    return list(actions.lint(look(replace(WELL, files=files), read_used), find))


def test_this_repositorys_own_workflows_are_well() -> None:
    (found,) = linted()
    assert isinstance(found, Finding)
    assert (found.level, found.text.startswith("zizmor finds nothing in ")) == ("ok", True)


@pytest.mark.parametrize("rule", NEW)
def test_the_doctor_shows_what_zizmor_finds(rule: str) -> None:
    (found,) = linted(bad=NEW[rule], good=STEPS + f"uses: {ACTION}\n")
    assert isinstance(found, Finding)
    assert (found.level, found.text.partition(":")[0]) == ("problem", rule)
    assert "bad.yml:" in found.text
    assert "good.yml" not in found.text
    assert f"#{rule}" in found.remedy


def test_the_repositorys_own_settings_for_zizmor_count() -> None:
    bad = NEW["unpinned-uses"]
    assert len(linted(bad=bad)) == 1
    settings = b"rules: {unpinned-uses: {disable: true}, self-repository: {disable: true}}\n"
    files = {**FILES, CI_PATH: bad.encode(), ".github/zizmor.yml": settings}
    (found,) = actions.lint(look(replace(WELL, files=files), read_used))
    assert isinstance(found, Finding)
    assert found.level == "ok"


def test_a_workflow_that_github_refuses_is_a_problem_in_one_line() -> None:
    (found,) = linted(bad="on: push\njobs: {a: {permissions: {}}}\n")
    assert isinstance(found, Finding)
    assert found.level == "problem"
    assert "bad.yml" in found.text
    assert "backtrace" not in found.text
    assert "\n" not in found.text


def make_program(folder: Path, script: str) -> str:
    """In the place of zizmor."""
    program = folder / "zizmor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("printed", ["", "[1]", '[{"ident": "a", "desc": "b", "url": "c", "locations": [{}]}]', "{}"])
def test_an_answer_that_can_not_be_read_is_unknown(printed: str, tmp_path: Path) -> None:
    program = make_program(tmp_path, f"echo '{printed}'")
    (found,) = linted(lambda _: program)
    assert isinstance(found, Finding)
    assert found.level == "unknown"


def test_without_zizmor_the_doctor_says_where_to_get_it() -> None:
    (found,) = linted(lambda _: None, bad=NEW["unpinned-uses"])
    assert isinstance(found, Finding)
    assert (found.level, "'.[lint]'" in found.remedy) == ("unknown", True)


def test_zizmor_sees_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    program = make_program(tmp_path, f"env >{tmp_path}/seen; echo '[]'")
    linted(lambda _: program)
    seen = (tmp_path / "seen").read_text()
    assert ("PATH=" in seen, "secret" in seen) == (True, False)  # the listed variables alone
