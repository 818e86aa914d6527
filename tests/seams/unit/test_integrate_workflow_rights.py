"""Permissions in the workflow that walks LLVM forward: jobs that run foreign code can't write and see no secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents import read_yaml

FOLDER = Path(__file__).parents[3] / ".github" / "workflows"
WORKFLOW: dict[str, Any] = read_yaml(FOLDER / "integrate.yml")
ISSUE: dict[str, Any] = read_yaml(FOLDER / "roll.yml")


def test_only_the_jobs_that_run_no_foreign_code_write() -> None:
    assert WORKFLOW["permissions"] == {}
    writing = [name for name, job in WORKFLOW["jobs"].items() if "write" in job["permissions"].values()]
    assert writing == ["advance"]
    given = [step.get("with", {}).get("command", "").split() for step in WORKFLOW["jobs"]["advance"]["steps"]]
    assert [words[0] for words in given if words] == ["start", "gather", "run", "roll"]
    gathering, running = (next(words for words in given if words[:1] == [name]) for name in ("gather", "run"))
    assert "--run" in gathering  # and believes no file of a probe
    assert "--no-probes" in running


@pytest.mark.parametrize("name", ["plan", "probe"])
def test_the_other_jobs_have_no_secrets(name: str) -> None:
    job = WORKFLOW["jobs"][name]
    assert job["permissions"] == {"contents": "read"}
    assert "secrets" not in job
    assert "secrets." not in yaml.safe_dump(job)
    assert not [step for step in job["steps"] if "token" in step.get("with", {})]


def test_the_image_of_probes_has_no_credentials() -> None:
    container = WORKFLOW["jobs"]["probe"]["container"]
    assert "credentials" not in container
    assert "container" not in {*WORKFLOW["jobs"]["plan"], *WORKFLOW["jobs"]["advance"]}


def test_the_right_to_write_issues_is_asked_for_by_a_workflow_of_its_own() -> None:
    """GitHub refuses to start a called workflow whose jobs ask for more than its caller grants."""
    assert not [name for name, job in WORKFLOW["jobs"].items() if "issues" in job["permissions"]]
    assert [job["permissions"] for job in ISSUE["jobs"].values()] == [{"issues": "write"}]
    assert "secrets." not in yaml.safe_dump(ISSUE)


def test_every_job_that_heeds_the_roller_sees_its_variable() -> None:
    assert WORKFLOW["env"]["MLIR_RELEASE_ROLL"] == "${{ vars.MLIR_RELEASE_ROLL }}"
    commands = [
        step["with"]["command"].split()
        for job in WORKFLOW["jobs"].values()
        for step in job["steps"]
        if step.get("uses", "").endswith("/actions/integrate")
    ]
    heeding = {words[0] for words in commands if "--roll" in words}
    assert heeding == {"plan", "start", "run"}
    assert {words[0] for words in commands} - heeding == {"probe", "gather", "roll"}
