"""Minutes and dollars add up, whatever they are grouped by."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.cost import Spent, add_up, price_of, stage_of, system_of
from mlir_release.targets import Matrix
from tests.release_stage import TARGETS

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
    ("labels", "system", "price"),
    [
        (["ubuntu-24.04"], "linux", 0.006),
        (["ubuntu-24.04-arm"], "linux", 0.005),
        (["macos-15"], "macos", 0.062),
        (["macos-15-intel"], "macos", 0.062),
        (["windows-2022"], "windows", 0.010),
        (["self-hosted", "Linux", "X64"], "linux", None),
        (["ubuntu-24.04-64core"], "linux", None),
        (["buildkite"], "other", None),
    ],
)
def test_labels(labels: list[str], system: str, price: float | None) -> None:
    assert system_of(labels) == system
    assert price_of(labels) == price


def test_stages_are_read_from_the_names_that_the_matrix_makes() -> None:
    matrix = Matrix.parse(TARGETS)
    assert {stage_of(wheel.name) for wheel in matrix.wheels} == {("wheels", wheel.name) for wheel in matrix.wheels}
    assert {stage_of(test.name)[0] for test in matrix.tests} == {"tests"}
    assert stage_of("sdk-linux-x86_64 (resumed)") == ("sdk", "linux-x86_64")
    assert stage_of("Release / sdk-macos-arm64") == ("sdk", "macos-arm64")
    assert stage_of("Verify and publish") == ("other", "")


def test_figures_are_a_weeks() -> None:
    cost = add_up([("release.yml", [Spent(name=NAMES[1], labels=("macos-15",), seconds=7201)])], weeks=4)
    assert cost.to_json()["total"] == {
        "jobs": 0.25,
        "minutes": 30.0,
        "billed_minutes": 30.2,
        "dollars": 1.88,
        "minutes_without_price": 0.0,
    }
    assert cost.rows(cost.stages) == [["sdk", "0.2", "30", "30", "1.88", "100 %"]]
