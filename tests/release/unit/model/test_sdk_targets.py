"""Rows of ``targets.toml`` that make wheels of an SDK: targets like any other, but for all CPythons."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlir_release.builder.model.names import WheelKey
from mlir_release.builder.model.orders import TestOrder, read_orders
from mlir_release.ground.errors import UsageError
from mlir_release.release.judging.scorecard import score
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.matrix_jobs import job_rows
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import parse_snapshot
from tests.refusals import refused
from tests.revision_factory import FACTS
from tests.targets_factory import make_row, make_targets

ROOT = Path(__file__).parents[4]
SDK, TOOLS = "mlir-sdk-linux-x86_64-py3", "mlir-sdk-tools-linux-x86_64-py3"
SDK_ROW = make_row("mlir-sdk", suites=["sdk"], required=False)
TOOLS_ROW = make_row("mlir-sdk-tools", suites=["sdk"], required=False)
TEST_TOOLS = "mlir-test-tools-linux-x86_64-py3"
TEST_TOOLS_ROW = make_row("mlir-test-tools", suites=["sdk"], required=False)
NEWER = replace(FACTS, version="23.1.1", minimum_python="3.13", has_stable_abi=True)


@pytest.fixture
def matrix() -> Matrix:
    return Matrix.parse(make_targets(make_row(), SDK_ROW, TOOLS_ROW, TEST_TOOLS_ROW))


def test_a_row_makes_one_wheel_and_one_test_for_all_cpythons(matrix: Matrix) -> None:
    assert [wheel.name for wheel in matrix.wheels][2:] == [SDK, TOOLS, TEST_TOOLS]
    assert [test.name for test in matrix.tests][2:] == [f"sdk-{SDK}", f"sdk-{TOOLS}", f"sdk-{TEST_TOOLS}"]
    assert matrix.wheel(SDK).pythons == ()


def test_no_cpython_that_a_revision_lacks_takes_it_away(matrix: Matrix) -> None:
    due = matrix.of_revision(NEWER).drop_unresolvable({"linux-x86_64-cp313": "no NumPy"}).with_abi3(NEWER)
    assert [wheel.name for wheel in due.wheels] == [SDK, TOOLS, TEST_TOOLS]
    assert [row.name for row in due.excluded] == ["mlir-linux-x86_64-cp312", "mlir-linux-x86_64-cp313"]


def test_the_rows_of_the_guide_fit_the_shipped_file() -> None:
    guide = (ROOT / "docs" / "downstream.md").read_text(encoding="utf-8")
    rows = next(block for block in guide.split("```toml\n")[1:] if '"macos-arm64"' in block).split("```")[0]
    shipped = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))
    matrix = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8") + rows)
    added = {wheel.name for wheel in matrix.wheels} - {wheel.name for wheel in shipped.wheels}
    assert added == {"mlir-sdk-macos-arm64-py3"}
    monday, tuesday = (matrix.for_tag(parse_snapshot(f"snapshot-202611{day}.01")) for day in (23, 24))
    named = [{SDK, TEST_TOOLS} & {wheel.name for wheel in due.wheels} for due in (monday, tuesday)]
    assert named == [{SDK, TEST_TOOLS}, {TEST_TOOLS}], "the programs of tests are in every release"


def test_the_slot_is_that_of_the_wheels_file(matrix: Matrix) -> None:
    found = WheelKey.of_file("mlir_sdk_tools-20261120.2-py3-none-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl")
    assert found == matrix.wheel(TOOLS).slot


def test_a_waiver_of_its_name_is_for_its_test_too(matrix: Matrix) -> None:
    (test,) = matrix.wheel(SDK).tests

    def state(waived: str) -> str:
        return score(matrix, wheels={}, reports={}, waivers={waived}).tests[test.name].state

    assert state(SDK) == "waived"
    assert state(TOOLS) != "waived"


def test_its_jobs_take_the_sdk_with_the_tools(matrix: Matrix) -> None:
    rows = {row["name"]: row for kind in ("wheels", "tests") for row in job_rows(matrix, kind)}
    assert (rows[SDK]["python"], rows[f"sdk-{SDK}"]["python"]) == ("", "")
    (row,) = job_rows(matrix, "platforms", wheels=rows, tests=())
    for job in json.loads(row["wheels"])["include"]:
        assert (job["tools"] == "true") == bool({SDK, TOOLS} & {*job["targets"].split()})


def test_a_wheel_of_an_earlier_run_is_fetched_for_its_test(matrix: Matrix) -> None:
    (row,) = job_rows(matrix, "platforms", wheels=(), tests={f"sdk-{TOOLS}"})
    assert row["fetch"] == TOOLS
    (order,) = read_orders(json.loads(row["tests"])["include"][0]["orders"], list[TestOrder])
    assert order.wheel == TOOLS


def test_filters_choose_it(matrix: Matrix) -> None:
    assert [wheel.name for wheel in matrix.only("profile=sdk").wheels] == [SDK]
    assert [wheel.name for wheel in matrix.only("python=py3 and suite=sdk").wheels] == [SDK, TOOLS, TEST_TOOLS]
    assert [wheel.name for wheel in matrix.only("profile=test-tools").wheels] == [TEST_TOOLS]


def test_overrides_of_requirements_ask_nothing_of_it() -> None:
    requires = {"numpy": {"specifier": "<3", "reason": "newer ones work"}}
    assert Matrix.parse(make_targets(SDK_ROW, requires=requires)).wheels


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (SDK_ROW | {"pythons": ["cp312"]}, "pythons has no use"),
        (SDK_ROW | {"suites": []}, "suites are none"),
        (SDK_ROW | {"suites": ["sdk", "smoke"]}, "suites are 'sdk', 'smoke'"),
        (make_row(suites=["smoke", "sdk"]), "which tests no wheels of bindings"),
    ],
)
def test_rows_that_make_no_sense_are_refused(row: dict[str, Any], why: str) -> None:
    error = refused(lambda: Matrix.parse(make_targets(row)), kind=UsageError)
    assert why in error.why


def test_its_distribution_has_the_name_that_its_files_call_it() -> None:
    text = make_targets(SDK_ROW).replace('distribution = "mlir-sdk"', 'distribution = "my-sdk"')
    error = refused(lambda: Matrix.parse(text), kind=UsageError)
    assert "own CMake files call it mlir-sdk" in error.why
