"""Every job of every workflow says its stage, in the name that GitHub shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mlir_release.extras.cost.estimate import OTHERS
from mlir_release.ground.job_names import (
    STAGES,
    canary_job,
    heading,
    is_about,
    is_experimental,
    own_name,
    probe_tag,
    sdk_jobs,
    split_job_name,
    work_of,
)
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.matrix_jobs import job_rows
from mlir_release.release.model.release_settings import TARGETS_FILE
from tests.documents import read_yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = {path.name: read_yaml(path) for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}


def workflow_jobs() -> list[tuple[str, str, dict[str, Any]]]:
    """File name, key and content of every job that a workflow begins with: not of those that are called only."""
    return [
        (file, key, job)
        for file, workflow in WORKFLOWS.items()
        for key, job in workflow["jobs"].items()
        if set(workflow[True]) != {"workflow_call"}  # YAML 1.1 reads `on` as a boolean
    ]


MATRIX = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))


def names_of(key: str, job: dict[str, Any]) -> list[str]:
    """The names that a job of a workflow has when it runs, joined with those of the jobs that it calls."""
    if key == "platform":
        return [f"{row['runtime']} / {name}" for row in job_rows(MATRIX, "platforms") for name in names_in_chain(row)]
    name: str = job["name"]
    rows = job_rows(MATRIX, "sdk")
    if "${{ matrix.runtime }}" in name:
        return [name.replace("${{ matrix.runtime }}", row["runtime"]) for row in rows]
    if choice := re.fullmatch(r"(.*)\$\{\{ inputs\.\w+ && '([^']+)' \|\| '([^']+)' \}\}", name):
        return [choice[1] + choice[2], choice[1] + choice[3]]
    name = name.replace("${{ matrix.commit }}", "a" * 40).replace("${{ matrix.runner }}", "macos-15")
    name = name.replace("${{ matrix.file }}", "tests/e2e/test_kit.py").replace("${{ matrix.room }}", "ground")
    name = name.replace(" (${{ matrix.tag }})", " (snapshot-20261120.02)")
    if name == "${{ matrix.job }}":
        return [canary_job(canary.name, "snapshot-20261120.02") for canary in MATRIX.canaries]
    assert "${{" not in name, f"teach this test what {name!r} becomes"
    return [name]


def names_in_chain(platform: dict[str, str], *keys: str) -> list[str]:
    """The names of the jobs of platform.yml (``keys``: of these only), for a row of the matrix that calls it."""
    found = []
    for key, job in WORKFLOWS["platform.yml"]["jobs"].items():
        name = job["name"].replace("${{ inputs.runtime }}", platform["runtime"])
        rows = json.loads(platform.get(key) or '{"include": [{}]}')["include"]
        names = [name.replace("${{ matrix.name }}", row.get("name", "")) for row in rows]
        assert not [name for name in names if "${{" in name], f"teach this test what {name!r} becomes"
        found += names if not keys or key in keys else []
    return found


@pytest.mark.parametrize(("workflow", "key", "job"), workflow_jobs())
def test_every_job_of_every_workflow_has_a_stage(workflow: str, key: str, job: dict[str, Any]) -> None:
    names = names_of(key, job)
    stages = {split_job_name(name)[0] for name in names}
    assert names
    assert len(stages) == (4 if key == "platform" else 1)
    assert stages <= set(STAGES), f"the job {names[0]!r} of {workflow} has no stage in its name"


def test_every_stage_has_a_job() -> None:
    assert {split_job_name(name)[0] for _, key, job in workflow_jobs() for name in names_of(key, job)} == set(STAGES)


def test_the_check_of_a_release_names_it() -> None:
    (name,) = names_of("probe", WORKFLOWS["probe.yml"]["jobs"]["probe"])
    assert probe_tag(name) == "snapshot-20261120.02"
    assert probe_tag("publish: generate pages") == ""


def test_the_estimate_counts_jobs_that_there_are() -> None:
    names = {(file, name.partition(" (")[0]) for file, key, job in workflow_jobs() for name in names_of(key, job)}
    names |= {(workflow, name) for workflow, key, job in workflow_jobs() for name in names_of(key, job)}
    assert names >= {(workflow, name) for workflow, name, _ in OTHERS}


def test_a_chain_names_its_jobs_as_the_toolkit_looks_for_them() -> None:
    rows = job_rows(MATRIX, "platforms")
    found = [own_name(name) for name in names_of("platform", {})]
    assert {name for runtime in MATRIX.runtimes for name in sdk_jobs(runtime.name)} <= set(found)
    assert [name for row in rows for name in names_in_chain(row, "sdk", "resume")] == [
        name for runtime in MATRIX.runtimes for name in sdk_jobs(runtime.name)
    ]
    for stage in ("wheels", "tests"):
        for row in rows:
            names = names_in_chain(row, stage)
            assert names
            assert {split_job_name(name) for name in names} == {(stage, row["runtime"])}
    assert len(set(found)) == len(found)


def test_names_are_read_back() -> None:
    for name in (*(wheel.name for wheel in MATRIX.wheels), *(test.name for test in MATRIX.tests)):
        assert heading(name) == f"== {name} =="
    assert is_experimental("linux-x86_64 / wheels: linux-x86_64 (experimental, 2)")
    assert not is_experimental("linux-x86_64 / wheels: linux-x86_64 (2)")
    for name in sdk_jobs("linux-x86_64"):
        assert split_job_name(name) == ("sdk", "linux-x86_64")
        assert split_job_name(f"linux-x86_64 / {name}") == ("sdk", "linux-x86_64")
        assert own_name(f"linux-x86_64 / {name}") == own_name(name) == name


@pytest.mark.parametrize(
    ("name", "stage", "details"),
    [
        ("Release / macos-arm64 / sdk: macos-arm64 (resumed)", "sdk", "macos-arm64"),
        ("macos-arm64 / publish: upload wheels (macos-arm64)", "publish", "upload wheels"),
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


def test_a_job_is_about_the_platform_that_it_is_named_for_or_called_by() -> None:
    for row in job_rows(MATRIX, "platforms"):
        runtime = row["runtime"]
        assert all(is_about(f"{runtime} / {name}", runtime) for name in names_in_chain(row))
    of_linux = "sdk: linux-x86_64 (resumed)", "wheels: linux-x86_64 (experimental, 2)", "linux-x86_64 / publish: upload"
    for name in of_linux:
        assert is_about(name, "linux-x86_64")
        assert not is_about(name, "x86_64")
        assert not is_about(name, "linux-x86_64_asserts")
    assert not is_about("publish: verify and publish", "linux-x86_64")


def test_jobs_that_divide_a_work_have_the_work_in_common_and_no_others() -> None:
    first, second = sdk_jobs("x")
    assert work_of(first) == work_of(f"x / {second}") != work_of("sdk: y")
    assert work_of("wheels: x (2)") == work_of("wheels: x") != work_of("wheels: x (experimental, 2)")
    assert work_of("wheels: x (experimental)") == work_of("wheels: x (experimental, 2)")
    assert work_of("wheels: fetch from draft (x)") != work_of("wheels: fetch from draft (y)")
