"""Minutes and dollars add up, whatever they are grouped by."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.cost.measured import JOB_STAGES, WORKFLOW_STAGES, Spent, add_up, price_of, stage_of, system_of
from mlir_release.model.matrix_jobs import job_rows
from mlir_release.model.targets import TARGETS_FILE, Matrix
from tests.release_stage import TARGETS

ROOT = Path(__file__).parents[3]
LABELS = [("ubuntu-24.04",), ("ubuntu-24.04-arm",), ("macos-15",), ("windows-2022",), ("self-hosted", "linux")]
NAMES = ["What is missing", "sdk-linux-x86_64", "mlir-linux-x86_64-cp312", "bindings-mlir-linux-x86_64-cp314t"]

jobs = st.lists(
    st.builds(
        Spent, name=st.sampled_from(NAMES), labels=st.sampled_from(LABELS), seconds=st.integers(1, 20000).map(float)
    ),
    max_size=12,
)


@given(jobs)
def test_every_grouping_has_the_same_total(found: list[Spent]) -> None:
    cost = add_up([("release.yml", found)], weeks=2)
    assert cost.total.billed == sum(math.ceil(job.seconds / 60) for job in found)
    for group in (cost.systems, cost.stages, cost.targets, cost.workflows):
        assert sum(entry.jobs for entry in group.values()) == len(found)
        assert sum(entry.billed for entry in group.values()) == cost.total.billed
        assert sum(entry.dollars for entry in group.values()) == pytest.approx(cost.total.dollars)
        assert sum(entry.unpriced for entry in group.values()) == cost.total.unpriced


@pytest.mark.parametrize(
    ("labels", "system", "price", "free_in_public"),
    [
        (["ubuntu-24.04"], "linux", 0.006, True),
        (["ubuntu-slim"], "linux", 0.002, True),
        (["ubuntu-24.04-arm"], "linux", 0.005, True),
        (["macos-15"], "macos", 0.062, True),
        (["macos-15-intel"], "macos", 0.062, True),
        (["macos-15-large"], "macos", 0.077, False),
        (["macos-latest-xlarge"], "macos", 0.102, False),
        (["windows-2022"], "windows", 0.010, True),
        (["windows-11-arm"], "windows", 0.008, True),
        (["self-hosted", "Linux", "X64"], "linux", None, False),
        (["self-hosted", "macos-15"], "macos", None, False),
        (["ubuntu-24.04-64core"], "linux", None, False),
        (["buildkite"], "other", None, False),
    ],
)
def test_labels(labels: list[str], system: str, price: float | None, *, free_in_public: bool) -> None:
    assert system_of(labels) == system
    found = price_of(labels)
    assert (found.dollars if found else None) == price
    assert (found.standard if found else False) == free_in_public


def test_what_has_no_price_is_named() -> None:
    jobs = [
        Spent(name=NAMES[1], labels=("ubuntu-24.04-16core",), seconds=120),
        Spent(name=NAMES[1], labels=("macos-15-large",), seconds=60),
    ]
    cost = add_up([("release.yml", jobs)], weeks=1)
    found = cost.to_json()
    assert isinstance(without := found["runners_without_price"], dict)
    assert without["ubuntu-24.04-16core"]["minutes_without_price"] == 2
    assert isinstance(total := found["total"], dict)
    assert total["dollars"] == total["dollars_in_public"] == 0.08
    assert "no price: 2 minutes on ubuntu-24.04-16core" in cost.text()
    for word in ("self-hosted", "larger", "read on"):
        assert word in cost.text()


def test_stages_are_read_from_the_names_that_the_matrix_makes() -> None:
    matrix = Matrix.parse(TARGETS)
    workflow = "anything.yml"
    found = {stage_of(wheel.name, workflow) for wheel in matrix.wheels}
    assert found == {("wheels", wheel.name) for wheel in matrix.wheels}
    assert {stage_of(test.name, workflow)[0] for test in matrix.tests} == {"tests"}
    assert stage_of("sdk-linux-x86_64 (resumed)", workflow) == ("sdk", "linux-x86_64")
    assert stage_of("Release / sdk-macos-arm64", workflow) == ("sdk", "macos-arm64")
    assert stage_of("LLVM / Gather, advance, go on", workflow) == ("integrate", "")
    assert stage_of("Deploy", workflow) == ("other", "")


#: Which rows of the matrix name the jobs of release.yml that it makes.
KINDS = {"sdk": "sdk", "sdk-resumed": "sdk", "wheels": "wheels", "tests": "tests"}


def names_of(workflow: str, key: str, job: dict[str, Any]) -> list[str]:
    """The names that a job of a workflow has when it runs."""
    name: str = job["name"]
    if "${{ matrix.name }}" in name:
        matrix = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))
        rows = job_rows(matrix, KINDS.get(key, "sdk"))  # type: ignore[arg-type]
        return [name.replace("${{ matrix.name }}", row["name"]) for row in rows]
    if choice := re.fullmatch(r"\$\{\{ inputs\.\w+ && '([^']+)' \|\| '([^']+)' \}\}", name):
        return list(choice.groups())
    name = name.replace("${{ matrix.commit }}", "a" * 40).replace("${{ matrix.runner }}", "macos-15")
    assert "${{" not in name, f"teach this test what {name!r} becomes"
    return [name]


def workflow_jobs() -> list[tuple[str, str, dict[str, Any]]]:
    """File name, key and content of every job that there is."""
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    texts = [(file.name, yaml.safe_load(file.read_text(encoding="utf-8"))) for file in files]
    return [(file, key, job) for file, text in texts for key, job in text["jobs"].items()]


@pytest.mark.parametrize(("workflow", "key", "job"), workflow_jobs())
def test_every_job_of_every_workflow_has_a_stage(workflow: str, key: str, job: dict[str, Any]) -> None:
    names = names_of(workflow, key, job)
    stages = {stage_of(name, workflow)[0] for name in names}
    assert names
    assert "other" not in stages, f"cost.py does not know the job {names[0]!r} of {workflow}"
    if key in KINDS and workflow == "release.yml":
        assert stages == {KINDS[key]}
    if workflow in ("release.yml", "integrate.yml"):  # these run under other file names, too
        assert {stage_of(name, "another.yml")[0] for name in names} == stages


def test_no_name_is_left_over() -> None:
    names = {name for workflow, key, job in workflow_jobs() for name in names_of(workflow, key, job)}
    assert names >= JOB_STAGES.keys()
    assert {workflow for workflow, _, _ in workflow_jobs()} == {*WORKFLOW_STAGES, "release.yml"}


def test_figures_are_a_weeks() -> None:
    cost = add_up([("release.yml", [Spent(name=NAMES[1], labels=("macos-15",), seconds=7201)])], weeks=4)
    assert cost.to_json()["total"] == {
        "jobs": 0.25,
        "minutes": 30.0,
        "billed_minutes": 30.2,
        "dollars": 1.88,
        "dollars_in_public": 0.0,
        "minutes_without_price": 0.0,
    }
    assert cost.rows(cost.stages) == [["sdk", "0.2", "30", "30", "1.88", "100 %"]]
