"""Every job of every workflow says its stage, in the name that GitHub shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlir_release.cost.estimate import OTHERS
from mlir_release.model.job_names import STAGES, calling_job, sdk_jobs, split_job_name, suite_job, wheel_job
from mlir_release.model.matrix import Matrix
from mlir_release.model.matrix_jobs import job_rows
from mlir_release.model.targets import TARGETS_FILE
from tests.release_stage import TARGETS

ROOT = Path(__file__).parents[3]
WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
CALLED = "./.github/workflows/"

#: Which rows of the matrix name the jobs of release.yml that it makes.
KINDS = {"sdk": "sdk", "wheels": "wheels", "tests": "tests"}


def workflow_jobs() -> list[tuple[str, str, dict[str, Any]]]:
    """File name, key and content of every job that a workflow begins with: not of those that are called only."""
    return [
        (file, key, job)
        for file, workflow in WORKFLOWS.items()
        for key, job in workflow["jobs"].items()
        if set(workflow[True]) != {"workflow_call"}  # YAML 1.1 reads `on` as a boolean
    ]


def names_of(key: str, job: dict[str, Any]) -> list[str]:
    """The names that a job of a workflow has when it runs, joined with those of the jobs that it calls."""
    name: str = job["name"]
    rows = job_rows(Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8")), KINDS.get(key, "sdk"))  # type: ignore[arg-type]
    if "${{ matrix.runtime }}" in name or "${{ matrix.name }}" in name:
        names = [re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda match, row=row: row[match[1]], name) for row in rows]  # type: ignore[misc]
    elif choice := re.fullmatch(r"(.*)\$\{\{ inputs\.\w+ && '([^']+)' \|\| '([^']+)' \}\}", name):
        names = [choice[1] + choice[2], choice[1] + choice[3]]
    else:
        names = [name.replace("${{ matrix.commit }}", "a" * 40).replace("${{ matrix.runner }}", "macos-15")]
    assert not [name for name in names if "${{" in name], f"teach this test what {name!r} becomes"
    if "uses" not in job:
        return names
    called = WORKFLOWS[job["uses"].removeprefix(CALLED)]["jobs"].values()
    return [f"{name} / {inner['name']}" for name in names for inner in called]


@pytest.mark.parametrize(("workflow", "key", "job"), workflow_jobs())
def test_every_job_of_every_workflow_has_a_stage(workflow: str, key: str, job: dict[str, Any]) -> None:
    names = names_of(key, job)
    stages = {split_job_name(name)[0] for name in names}
    assert names
    assert len(stages) == 1
    assert stages <= set(STAGES), f"the job {names[0]!r} of {workflow} has no stage in its name"
    if key in KINDS and workflow == "release.yml":
        assert stages == {KINDS[key]}


def test_every_stage_has_a_job() -> None:
    assert {split_job_name(name)[0] for _, key, job in workflow_jobs() for name in names_of(key, job)} == set(STAGES)


def test_the_estimate_counts_jobs_that_there_are() -> None:
    names = {(workflow, name) for workflow, key, job in workflow_jobs() for name in names_of(key, job)}
    assert names >= {(workflow, name) for workflow, name, _ in OTHERS}


def test_release_yml_names_its_jobs_as_the_toolkit_looks_for_them() -> None:
    matrix = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))
    jobs = WORKFLOWS["release.yml"]["jobs"]
    assert set(names_of("sdk", jobs["sdk"])) == {name for runtime in matrix.runtimes for name in sdk_jobs(runtime.name)}
    assert names_of("wheels", jobs["wheels"]) == [wheel_job(wheel.name) for wheel in matrix.wheels]
    assert names_of("tests", jobs["tests"]) == [suite_job(test.name) for test in matrix.tests]


def test_names_are_read_back() -> None:
    matrix = Matrix.parse(TARGETS)
    assert [split_job_name(wheel_job(wheel.name)) for wheel in matrix.wheels] == [
        ("wheels", wheel.name) for wheel in matrix.wheels
    ]
    assert {split_job_name(suite_job(test.name)) for test in matrix.tests} == {
        ("tests", test.name) for test in matrix.tests
    }
    for name in sdk_jobs("linux-x86_64"):
        assert split_job_name(name) == ("sdk", "linux-x86_64")
        assert calling_job(name) == "sdk: linux-x86_64"


@pytest.mark.parametrize(
    ("name", "stage", "details"),
    [
        ("Release / sdk: macos-arm64 / build", "sdk", "macos-arm64"),
        ("LLVM / integrate: advance", "integrate", "advance"),
        (f"integrate: probe {'0f' * 20}", "integrate", "probe"),
        ("publish: deploy pages", "publish", "deploy pages"),
        ("sdk-linux-x86_64 (resumed)", "other", ""),  # as older workflows named it
        ("Deploy", "other", ""),
        ("deploy: production", "other", ""),
        ("sdk:linux", "other", ""),
        ("", "other", ""),
    ],
)
def test_other_peoples_jobs_have_no_stage_of_ours(name: str, stage: str, details: str) -> None:
    assert split_job_name(name) == (stage, details)
