"""What may be published: required and experimental targets, reports, waivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.release.judging.scorecard import Scorecard, score
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.transaction.assets import Built, read_report, read_wheel
from tests.release.unit.judging.test_scorecard import ABI3, APART, EXPERIMENTAL, REGRESSION, REQUIRED, SHARED
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.builder.model.test_report import TestReport


@pytest.fixture
def wheels(tmp_path: Path) -> list[Built]:
    return [read_wheel(make_wheel(tmp_path, python=python)) for python in ("cp312", "cp313")]


def report(wheel: Built | None, name: str, **options: object) -> TestReport:
    folder = (wheel.path.parent if wheel else options.pop("folder")) / "reports"  # type: ignore[operator]
    path = wheel.path if wheel else None
    return read_report(make_report(folder, path, suite=name.partition("-")[0], target=name, **options))  # type: ignore[arg-type]


def reports(wheels: Sequence[Built]) -> list[TestReport]:
    return [
        report(wheels[0], f"smoke-{REQUIRED}"),
        report(wheels[1], f"smoke-{EXPERIMENTAL}"),
        report(None, REGRESSION, folder=wheels[0].path.parent),
    ]


def weigh(wheels: Sequence[Built], reports: Sequence[TestReport], *waived: str, matrix: Matrix = APART) -> Scorecard:
    found = {wheel.slot: wheel for wheel in wheels}
    return score(matrix, wheels=found, reports={r.target: r for r in reports}, waivers=waived)


def kept_back(card: Scorecard) -> list[str]:
    """The targets whose wheels are there and aren't published."""
    return [name for name in card.files if name not in card.accepted]


def test_a_required_wheel_is_waived(wheels: list[Built]) -> None:
    found = weigh(wheels[1:], reports(wheels)[1:], REQUIRED)
    assert not found.problems
    assert list(found.waivers) == [REQUIRED]


def test_a_required_test_was_not_run(wheels: list[Built]) -> None:
    found = weigh(wheels, reports(wheels)[:2])
    assert found.problems == (f"{REGRESSION}: was not run",)


def test_a_required_test_failed(wheels: list[Built]) -> None:
    failed = report(wheels[0], f"smoke-{REQUIRED}", passed=False, failures=("a", "b", "c", "d"))
    found = weigh(wheels, [failed, *reports(wheels)[1:]])
    assert found.problems == (f"smoke-{REQUIRED}: failed (a, b, c …)",)


def test_a_wheel_of_a_waived_target_that_fails_is_left_out(wheels: list[Built]) -> None:
    failed = report(wheels[0], f"smoke-{REQUIRED}", passed=False)
    found = weigh(wheels, [failed, *reports(wheels)[1:]], REQUIRED)
    assert not found.problems
    assert kept_back(found) == [REQUIRED]
    assert list(found.accepted) == [EXPERIMENTAL]


def test_a_waiver_that_is_not_needed_is_not_recorded(wheels: list[Built]) -> None:
    found = weigh(wheels, reports(wheels), REQUIRED, f"smoke-{REQUIRED}", "unknown")
    assert not found.waivers
    assert len(found.vouching) == 3


def test_a_report_on_a_wheel_must_name_it(wheels: list[Built], tmp_path: Path) -> None:
    nameless = report(None, f"smoke-{REQUIRED}", folder=tmp_path)
    found = weigh(wheels, [nameless, *reports(wheels)[1:]])
    assert found.problems == (f"smoke-{REQUIRED}: does not say which wheel it tested",)


def test_experimental_targets_are_left_out_for_the_same_reason_before_and_after_their_wheel_goes(
    wheels: list[Built],
) -> None:
    failed = report(wheels[1], f"smoke-{EXPERIMENTAL}", passed=False, failures=("x",))
    others = [*reports(wheels)[::2], failed]
    before, after = weigh(wheels, others), weigh(wheels[:1], others)
    assert not before.problems + after.problems
    assert kept_back(before) == [EXPERIMENTAL]
    assert before.left_out == after.left_out
    assert before.left_out[0].reason == f"smoke-{EXPERIMENTAL}: failed (x)"


def test_an_experimental_wheel_without_tests_is_left_out(wheels: list[Built]) -> None:
    found = weigh(wheels, reports(wheels)[::2])
    assert kept_back(found) == [EXPERIMENTAL]
    assert found.left_out[0].reason == "there is no tested wheel"


RELAXED = {"upstream": "numpy<=2.1.2,>=2.1.0", "requirement": "numpy<3,>=2.1.0", "reason": "no wheel for cp314"}


@pytest.mark.parametrize(
    ("installed", "problem"),
    [
        ({"numpy": "2.5.5"}, ""),
        ({}, "does not say which numpy it ran with, though the wheel relaxes upstream's requirement"),
        ({"numpy": "1.26.4"}, "ran with numpy 1.26.4, which the wheel does not admit"),
    ],
)
def test_an_override_counts_only_with_the_bindings_tests(
    tmp_path: Path, installed: dict[str, str], problem: str
) -> None:
    overrides = {"numpy": {"specifier": "<3", "reason": "no wheel for cp314"}}
    row = make_row(suites=["smoke", "bindings"], pythons=["cp312"])
    matrix = Matrix.parse(make_targets(row, requires=overrides))
    wheel = read_wheel(make_wheel(tmp_path, python="cp312", release_info={"relaxed": [RELAXED]}))
    passed = [report(wheel, f"{suite}-{REQUIRED}", installed=installed) for suite in ("smoke", "bindings")]
    found = weigh([wheel], passed, matrix=matrix)
    assert found.problems == ((f"bindings-{REQUIRED}: {problem}",) if problem else ())


def test_a_wheel_that_relaxes_more_than_targets_toml_does(wheels: list[Built], tmp_path: Path) -> None:
    wheel = read_wheel(make_wheel(tmp_path / "other", python="cp312", release_info={"relaxed": [RELAXED]}))
    found = weigh([wheel, wheels[1]], [report(wheel, f"smoke-{REQUIRED}"), *reports(wheels)[1:]])
    assert found.problems == (
        f"{REQUIRED}: its wheel requires numpy<3,>=2.1.0, where upstream requires numpy<=2.1.2,>=2.1.0; "
        "targets.toml has no such override",
    )


def test_a_wheel_that_says_another_target(wheels: list[Built], tmp_path: Path) -> None:
    liar = read_wheel(make_wheel(tmp_path / "liar", python="cp312", target=EXPERIMENTAL))
    found = weigh([liar, wheels[1]], reports(wheels))
    assert found.problems == (f"{liar.name}: says that its target is {EXPERIMENTAL}; here it is {REQUIRED}",)


# -- one wheel for several CPythons ------------------------------------------------------------------------------------


@pytest.fixture
def shared(tmp_path: Path) -> Built:
    return read_wheel(make_wheel(tmp_path, python="cp312", serves=("cp312", "cp313")))


def weigh_shared(wheel: Built | None, reports: Sequence[TestReport], *waived: str) -> Scorecard:
    return weigh([wheel] if wheel is not None else [], reports, *waived, matrix=SHARED)


def reports_of(wheel: Built, *, passed: bool = True) -> list[TestReport]:
    """``passed``: on the CPython that is not required."""
    return [
        report(wheel, f"smoke-{REQUIRED}"),
        report(wheel, f"smoke-{EXPERIMENTAL}", passed=passed),
        report(None, REGRESSION, folder=wheel.path.parent),
    ]


def test_a_cpython_that_is_not_required_does_not_keep_the_wheel_back(shared: Built) -> None:
    found = weigh_shared(shared, reports_of(shared, passed=False))
    assert list(found.accepted) == [ABI3]
    assert not [*found.problems, *kept_back(found)]
    assert [(row.target, row.reason) for row in found.left_out] == [(EXPERIMENTAL, f"smoke-{EXPERIMENTAL}: failed")]


def test_a_required_cpython_keeps_it_back_until_it_is_waived(shared: Built) -> None:
    others = reports_of(shared)[1:]
    assert weigh_shared(shared, others).problems == (f"smoke-{REQUIRED}: was not run",)
    for name in (f"smoke-{REQUIRED}", REQUIRED):
        found = weigh_shared(shared, others, name)
        assert not found.problems
        assert list(found.accepted) == [ABI3]
        assert list(found.waivers) == [name]


def test_a_wheel_for_several_is_missing_or_waived(shared: Built) -> None:
    assert weigh_shared(None, ()).problems[0] == f"{ABI3}: there is no wheel"
    found = weigh_shared(shared, reports_of(shared, passed=False)[1:], ABI3)
    assert found.problems == ("nothing is left to publish: every target is left out or waived",)
    assert kept_back(found) == [ABI3]


def test_a_plain_wheel_does_not_fill_the_place_of_a_shared_one(wheels: list[Built]) -> None:
    found = weigh_shared(wheels[0], reports(wheels))
    assert f"{wheels[0].name}: no target of the build matrix makes such a wheel" in found.problems
