"""The doctor runs zizmor on a release repository's workflows: the check ``workflow-lint``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.programs.process import installed_program
from mlir_release.operate.doctor import actions
from mlir_release.operate.doctor.checks import look
from mlir_release.operate.doctor.results import Finding
from tests.healthy import FILES, WELL, read_used

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = "on: push\npermissions: {}\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - "
ACTION = "actions/checkout@0123456789012345678901234567890123456789 # v7"

#: A workflow for each rule.
BAD = {
    "template-injection": STEPS + 'run: echo "${{ github.event.issue.title }}"\n',
    "dangerous-triggers": STEPS.replace("push", "pull_request_target") + "run: x\n",
    "excessive-permissions": STEPS.replace("permissions: {}\n", "") + "run: x\n",
    "unpinned-uses": STEPS + "uses: owner/tool@main\n",
}


def linted(find: Callable[[str], str | None] = installed_program, settings: bytes = b"", **workflows: str) -> Finding:
    """What the doctor shows of zizmor's findings: one thing.

    :param settings: the repository's own for zizmor
    """
    files = {**FILES, **{f".github/workflows/{name}.yml": text.encode() for name, text in workflows.items()}}
    if settings:
        files[".github/zizmor.yml"] = settings
    (found,) = actions.lint(look(replace(WELL, files=files), read_used), find)
    assert isinstance(found, Finding)
    return found


def test_this_repositorys_own_workflows_are_well() -> None:
    found = linted()
    assert (found.level, found.text.startswith("zizmor finds nothing in ")) == ("ok", True)


@pytest.mark.parametrize("rule", BAD)
def test_the_doctor_shows_what_zizmor_finds(rule: str) -> None:
    found = linted(bad=BAD[rule], good=STEPS + f"uses: {ACTION}\n")
    assert (found.level, found.text.partition(":")[0]) == ("problem", rule)
    assert "bad.yml:" in found.text
    assert "good.yml" not in found.text
    assert f"#{rule}" in found.remedy


def test_the_repositorys_own_settings_for_zizmor_count() -> None:
    settings = b"rules: {unpinned-uses: {disable: true}, self-repository: {disable: true}}\n"
    assert linted(settings=settings, bad=BAD["unpinned-uses"]).level == "ok"


def test_a_workflow_that_github_refuses_is_a_problem_in_one_line() -> None:
    found = linted(bad="on: push\njobs: {a: {permissions: {}}}\n")
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
    assert linted(lambda _: program).level == "unknown"


def test_without_zizmor_the_doctor_says_where_to_get_it() -> None:
    found = linted(lambda _: None, bad=BAD["unpinned-uses"])
    assert (found.level, "'.[lint]'" in found.remedy) == ("unknown", True)


def test_zizmor_sees_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    program = make_program(tmp_path, f"env >{tmp_path}/seen; echo '[]'")
    linted(lambda _: program)
    seen = (tmp_path / "seen").read_text()
    assert ("PATH=" in seen, "secret" in seen) == (True, False)  # the listed variables alone
