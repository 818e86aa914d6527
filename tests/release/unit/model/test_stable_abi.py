"""One wheel for CPython's stable ABI in the place of several: which, and what is asked of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlir_release.builder.model.names import WheelKey
from mlir_release.ground.errors import UsageError
from mlir_release.ground.python.cpython import CPython, split_target
from mlir_release.release.judging.scorecard import Scorecard, score
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.matrix_jobs import job_rows
from tests.refusals import refused
from tests.revision_factory import FACTS
from tests.targets_factory import make_row, make_targets

NEW = replace(FACTS, version="23.1.4", has_stable_abi=True)
PYTHONS = ("cp311", "cp312", "cp313", "cp314", "cp314t")
SHARED = "mlir-linux-x86_64-cp312-abi3"


def matrix(*rows: dict[str, object], pythons: tuple[str, ...] = PYTHONS, abi3: str = "") -> Matrix:
    text = make_targets(*(rows or (make_row(suites=["smoke", "regression"]),)), pythons=pythons)
    return Matrix.parse(text.replace("[llvm.mlir]\n", f"[llvm.mlir]\n{abi3}\n"))


def names(found: Matrix) -> list[str]:
    return [wheel.name for wheel in found.wheels]


def test_one_wheel_serves_all_from_312_on_that_have_the_gil() -> None:
    found = matrix().with_abi3(NEW)
    assert names(found) == ["mlir-linux-x86_64-cp311", SHARED, "mlir-linux-x86_64-cp314t"]
    wheel = found.wheel(SHARED)
    assert [python.tag for python in wheel.pythons] == ["cp312", "cp313", "cp314"]
    assert wheel.python == CPython(3, 12)
    assert wheel.slot == WheelKey.of_file("mlir-1-cp312-abi3-manylinux_2_28_x86_64.whl")
    assert wheel.slot != WheelKey.of_file("mlir-1-cp312-cp312-manylinux_2_28_x86_64.whl")
    assert split_target(SHARED) == ("mlir-linux-x86_64", CPython(3, 12))


def test_each_cpython_that_it_serves_is_tested_and_a_platform_once() -> None:
    found = matrix().with_abi3(NEW)
    tests = {test.name: test for test in found.tests}
    assert tests.keys() == {test.name for test in matrix().tests}, "as without sharing"
    assert tests["smoke-mlir-linux-x86_64-cp313"].wheels == (SHARED,)
    assert len(tests["regression-mlir-linux-x86_64"].wheels) == 3
    built = {row["name"]: row for row in job_rows(found, "wheels")}
    assert (built[SHARED]["python"], len(built)) == ("cp312", 3)
    tested = {row["name"]: row for row in job_rows(found, "tests")}
    row = tested["smoke-mlir-linux-x86_64-cp313"]
    assert (row["python"], row["wheels"]) == ("cp313", SHARED)


@pytest.mark.parametrize(
    ("facts", "abi3"), [(FACTS, ""), (FACTS, 'abi3 = "auto"'), (NEW, "abi3 = false"), (None, "abi3 = true")]
)
def test_where_nothing_is_shared(facts: object, abi3: str) -> None:
    plain = matrix(abi3=abi3)
    assert names(plain.with_abi3(facts)) == names(plain)  # type: ignore[arg-type]


def test_a_single_cpython_has_a_wheel_of_its_own() -> None:
    assert names(matrix(pythons=("cp311", "cp312")).with_abi3(NEW)) == [f"mlir-linux-x86_64-{p}" for p in PYTHONS[:2]]


def test_it_is_an_error_where_it_must_be_and_can_not_be() -> None:
    refused(lambda: matrix(abi3="abi3 = true").with_abi3(FACTS), "revision-unsuitable", "22.1.8")
    with pytest.raises(UsageError, match=r"mistake in llvm\.mlir"):
        matrix(abi3='abi3 = "yes"')


def test_rows_of_one_platform_share_and_stay_required_one_by_one() -> None:
    rows = make_row(pythons=["cp312", "cp313"]), make_row(pythons=["cp314"], required=False, tags=["new"])
    found = matrix(*rows).with_abi3(NEW)
    assert names(found) == [SHARED]
    assert {test.name[-5:]: test.required for test in found.tests} == {"cp312": True, "cp313": True, "cp314": False}
    assert not found.only("experimental").wheels[0].required
    with pytest.raises(UsageError, match="two rows make it"):
        matrix(make_row(pythons=["cp312"]), make_row(pythons=["cp312", "cp313"]))


def test_what_is_excluded_is_not_served() -> None:
    found = matrix().drop_unresolvable({"linux-x86_64-cp312": "no numpy"}).with_abi3(NEW)
    assert names(found)[1] == "mlir-linux-x86_64-cp313-abi3"
    assert [str(row) for row in found.excluded] == ["mlir-linux-x86_64-cp312: no numpy"]


def test_filters_choose_among_those_that_it_serves() -> None:
    found = matrix().with_abi3(NEW)
    narrowed = found.only("python=cp313")
    assert names(narrowed) == [SHARED]
    assert [test.name for test in narrowed.tests if test.python] == ["smoke-mlir-linux-x86_64-cp313"]
    assert names(found.only("name=mlir-linux-x86_64-cp314")) == [SHARED]
    assert found.only("python!=cp311").wheels[0].pythons == found.wheel(SHARED).pythons


def test_a_target_that_is_served_by_another_is_told_by_name() -> None:
    error = refused(lambda: matrix().with_abi3(NEW).wheel("mlir-linux-x86_64-cp313"), "option-invalid")
    assert SHARED in error.remedy


def test_waivers_of_the_wheel_or_of_one_cpython() -> None:
    found = matrix().with_abi3(NEW)

    def card(*waived: str) -> Scorecard:
        return score(found, wheels={}, reports={}, waivers=waived)

    one = card("mlir-linux-x86_64-cp313")
    assert SHARED in one.lacking_wheels
    assert SHARED not in card(SHARED).lacking_wheels
    assert SHARED not in card(*(f"mlir-linux-x86_64-{python}" for python in ("cp312", "cp313", "cp314"))).lacking_wheels
    assert one.tests["smoke-mlir-linux-x86_64-cp313"].state == "waived"
    assert one.tests["smoke-mlir-linux-x86_64-cp312"].state != "waived"
    assert card(SHARED).tests["smoke-mlir-linux-x86_64-cp312"].state == "waived"
