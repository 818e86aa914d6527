"""What fails, told once: a platform without an SDK is one failure, whatever it takes down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from mlir_release.forge.base import Asset
from mlir_release.model.job_names import sdk_jobs
from mlir_release.model.matrix import Matrix
from mlir_release.model.test_report import TestFailure, TestReport
from mlir_release.release.failing import detail, failing_targets, passing_targets, summary
from mlir_release.release.scorecard import Scorecard, score
from tests.job_factory import make_job
from tests.release_stage import TARGETS
from tests.wheel_factory import OTHER_PYTHON, PYTHON

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mlir_release.forge.services import RunJob

MATRIX = Matrix.parse(TARGETS)
PLATFORM = "linux-x86_64"
WHEEL, OTHER, CORE = f"mlir-{PLATFORM}-{PYTHON}", f"mlir-{PLATFORM}-{OTHER_PYTHON}", f"mlir-core-{PLATFORM}-{PYTHON}"
WHEELS = tuple(wheel.name for wheel in MATRIX.wheels)
TESTS = tuple(test.name for test in MATRIX.tests)
SDK = f"sdk-{PLATFORM}"
FIRST, SECOND = sdk_jobs(PLATFORM)


def judge_draft(
    *,
    wheels: Collection[str],
    tests: Collection[str],
    reports: Mapping[str, TestReport] | None = None,
    waived: Collection[str] = (),
    jobs: Mapping[str, RunJob] | None = None,
) -> Scorecard:
    """Of a draft that has all wheels and passing reports but these and those that are waived."""
    files = {
        wheel.slot: Asset(name=wheel.name, size=1, sha256="0" * 64, complete=True, url="")
        for wheel in MATRIX.wheels
        if wheel.name not in {*wheels, *waived}
    }
    passed = {name: None for name in TESTS if name not in {*tests, *waived}}
    return score(MATRIX, wheels=files, reports={**passed, **(reports or {})}, waivers=waived, jobs=jobs)


def judge(wheels: tuple[str, ...], tests: tuple[str, ...] = TESTS, **ends: str | None) -> Scorecard:
    """``ends``: how the SDK's two jobs ended."""
    names = {"first": FIRST, "second": SECOND}
    jobs = {names[key]: make_job(names[key], end) for key, end in ends.items()}
    return judge_draft(wheels=wheels, tests=tests, jobs=jobs)


def test_what_could_not_be_tried_is_neither_failing_nor_well() -> None:
    found = judge((WHEEL,), (f"smoke-{WHEEL}",))
    assert set(failing_targets(found)) == {WHEEL}
    assert f"smoke-{WHEEL}" not in passing_targets(found)
    assert {OTHER, f"smoke-{OTHER}", SDK} <= passing_targets(found)


def test_an_experimental_target_blocks_nothing() -> None:
    (failure,) = failing_targets(judge((CORE,), (f"smoke-{CORE}",))).values()
    assert (failure.name, failure.required) == (CORE, False)
    (failure,) = failing_targets(judge((), (f"smoke-{CORE}",))).values()
    assert (failure.name, failure.required) == (f"smoke-{CORE}", False)
    assert all(failure.required for failure in failing_targets(judge((WHEEL,), (f"smoke-{OTHER}",))).values())


def test_a_platform_of_which_only_experimental_targets_are_missing_blocks_nothing() -> None:
    (failure,) = failing_targets(judge((CORE,), (), first="failure")).values()
    assert (failure.name, failure.required, failure.takes_down, failure.leaves_out) == (SDK, False, (), (CORE,))
    # Where the required ones are waived, their own issue says more.
    found = judge_draft(wheels=(CORE,), tests=(), waived=(WHEEL, OTHER))
    assert set(failing_targets(found)) == {CORE}
    jobs = {FIRST: make_job(FIRST, "failure")}
    found = judge_draft(wheels=(CORE,), tests=(), waived=(WHEEL, OTHER), jobs=jobs)
    assert failing_targets(found) == {}


def test_a_platform_whose_sdk_fails_is_one_failure() -> None:
    for first, second in (
        ("failure", "skipped"),
        ("failure", "success"),
        ("success", "timed_out"),
        ("cancelled", None),
    ):
        found = judge(WHEELS, first=first, second=second)
        (failure,) = failing_targets(found).values()
        assert failure.name == SDK
        assert set(failure.takes_down) == {WHEEL, OTHER}  # the required ones
        assert (failure.leaves_out, failure.required) == ((CORE,), True)
        assert summary(failure) == "there is no SDK"
        assert passing_targets(found) == frozenset()


def test_wheels_that_fail_by_themselves_are_failures_of_their_own() -> None:
    for second in ("success", "skipped"):  # skipped: the first job was enough
        found = judge(WHEELS, first="success", second=second)
        assert set(failing_targets(found)) == {WHEEL, OTHER, CORE}
        assert passing_targets(found) == {SDK}
    assert passing_targets(judge(WHEELS, first="success")) == frozenset()  # the second job may have more to do
    assert SDK not in failing_targets(judge((WHEEL,), first="success"))


def test_an_sdk_that_fails_only_the_tests_takes_down_those() -> None:
    test = f"smoke-{WHEEL}"
    (failure,) = failing_targets(judge((), (test,), first="failure")).values()
    assert (failure.name, failure.takes_down) == (SDK, (test,))


def test_a_test_that_has_failed_by_itself_is_not_the_sdks_fault() -> None:
    name = f"smoke-{WHEEL}"
    report = TestReport(
        target=name,
        suite="smoke",
        wheel="w",
        wheel_sha256="0" * 64,
        passed=False,
        counts={},
        failures=(TestFailure(name="x" * 5000),),
    )
    jobs = {FIRST: make_job(FIRST, "failure")}
    found = judge_draft(wheels=(OTHER,), tests=(name,), reports={name: report}, jobs=jobs)
    assert set(failing_targets(found)) == {SDK, name}
    assert summary(failing_targets(found)[name]) == "1 test failed"
    assert len(detail(failing_targets(found)[name])) < 1000
    assert failing_targets(found)[SDK].takes_down == (OTHER,)


def test_without_jobs_a_platform_without_a_wheel_is_one_failure() -> None:
    (failure,) = failing_targets(judge(WHEELS)).values()
    assert (failure.name, summary(failure)) == (SDK, "there is no wheel of this platform at all")
    assert set(failing_targets(judge((WHEEL, OTHER), ()))) == {WHEEL, OTHER}  # one that is not required is there
    assert set(failing_targets(judge(WHEELS, first=None))) == {SDK}  # it still runs


def test_who_is_waived_is_neither_failing_nor_well() -> None:
    found = judge_draft(wheels=(), tests=(), waived=(WHEEL, f"smoke-{OTHER}"))
    assert failing_targets(found) == {}
    assert passing_targets(found) == {OTHER, SDK, CORE, f"smoke-{CORE}"}


ENDS = st.sampled_from([None, "success", "failure", "cancelled", "skipped"])


@given(st.sets(st.sampled_from(WHEELS)), st.sets(st.sampled_from(TESTS)), st.sets(st.sampled_from(WHEELS)), ENDS, ENDS)
def test_every_gap_is_told_exactly_once(
    missing: set[str], tests: set[str], waived: set[str], first: str | None, second: str | None
) -> None:
    missing -= waived
    jobs = {name: make_job(name, end) for name, end in ((FIRST, first), (SECOND, second))}
    found = judge_draft(wheels=missing, tests=tests, waived=waived, jobs=jobs)
    told = [
        name
        for failure in failing_targets(found).values()
        for name in (*failure.takes_down, *failure.leaves_out) or (failure.name,)
    ]
    assert len(told) == len(set(told))
    assert not passing_targets(found) & {*told, *failing_targets(found), *waived}
    required = {wheel.name for wheel in MATRIX.wheels if wheel.required}
    assert required & missing == set(told) & required
    assert {failure.name for failure in failing_targets(found).values() if not failure.required} <= {
        CORE,
        f"smoke-{CORE}",
        SDK,
    }
    if not waived & required:  # else the platform's own issue may say it
        assert missing == set(told) & set(WHEELS)


def test_a_failure_names_the_jobs_that_work_on_its_platform() -> None:
    ends = {"wheels: linux-x86_64": "success", "wheels: linux-x86_64 (experimental)": "failure", "wheels: other": None}
    jobs = {name: make_job(name, end) for name, end in ends.items()}
    found = judge_draft(wheels=(CORE,), tests=(), jobs=jobs)
    assert failing_targets(found)[CORE].jobs == tuple(ends)[:2]
