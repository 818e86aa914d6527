"""One card for all who judge a release: drafts on which its readers used to differ, and what is decided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.builder.model.test_report import TestFailure, TestReport
from mlir_release.ground.job_names import sdk_jobs
from mlir_release.operate.issues import failed_tests
from mlir_release.release.forge.base import Asset
from mlir_release.release.judging.scorecard import Scorecard, merge_jobs, score
from mlir_release.release.model.matrix import Matrix
from tests.job_factory import make_job
from tests.release_stage import TARGETS
from tests.revision_factory import FACTS
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mlir_release.ground.hosting import RunJob

#: A required wheel, and an experimental one; a suite of the platform, and one of each wheel.
PLAIN = Matrix.parse(
    make_targets(
        make_row(suites=["smoke", "regression"], pythons=["cp312"]),
        make_row(suites=["smoke", "regression"], pythons=["cp313"], required=False),
    )
)
#: The same, but only the required one's row has the platform's suite.
APART = Matrix.parse(
    make_targets(
        make_row(suites=["smoke", "regression"], pythons=["cp312"]),
        make_row(suites=["smoke"], pythons=["cp313"], required=False),
    )
)
#: One wheel for both CPythons.
SHARED = APART.with_abi3(replace(FACTS, has_stable_abi=True))
REQUIRED, EXPERIMENTAL, ABI3 = (f"mlir-linux-x86_64-{python}" for python in ("cp312", "cp313", "cp312-abi3"))
#: A suite that measures the required wheel, and gates nothing.
MEASURED = Matrix.parse(make_targets(make_row(suites=["smoke", "performance"], pythons=["cp312"])))
PERFORMANCE = f"performance-{REQUIRED}"
REGRESSION = "regression-mlir-linux-x86_64"
NOTHING_LEFT = "nothing is left to publish: every target is left out or waived"
OTHER_BUILD = "the report tells of another build of the wheel than the draft has"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A draft, and what is decided for each reader."""

    matrix: Matrix = PLAIN
    wheels: tuple[str, ...] = (REQUIRED, EXPERIMENTAL)
    untested: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    about: str = ""  #: the digest that the required wheel's report names, if it is another
    waived: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    accepted: tuple[str, ...] = (REQUIRED, EXPERIMENTAL)
    missing: tuple[str, ...] = ()  #: wheels and tests to be made
    lacking: tuple[str, ...] = ()  #: for which a person or a build has to do something before publication
    failing: tuple[tuple[str, bool], ...] = ()  #: issues, and whether publication waits


CASES = {
    "a wheel for several is absent, and its one required CPython is waived: nothing required is lacking": Case(
        matrix=SHARED, wheels=(), untested=(REGRESSION, f"smoke-{EXPERIMENTAL}"), waived=(REQUIRED,),
        problems=(NOTHING_LEFT,), accepted=(), missing=(ABI3, f"smoke-{EXPERIMENTAL}"), failing=((ABI3, False),),
    ),
    "a suite on which only a waived CPython rests is waived with it": Case(
        matrix=SHARED, wheels=(ABI3,), untested=(REGRESSION,), waived=(REQUIRED,), accepted=(ABI3,),
    ),
    "all CPythons of a wheel are waived one by one: the same as its own waiver": Case(
        matrix=SHARED, wheels=(), untested=(REGRESSION, f"smoke-{REQUIRED}", f"smoke-{EXPERIMENTAL}"),
        waived=(REQUIRED, EXPERIMENTAL), problems=(NOTHING_LEFT,), accepted=(),
    ),
    "a suite that only an experimental wheel still rests on keeps nothing back": Case(
        wheels=(EXPERIMENTAL,), untested=(f"smoke-{REQUIRED}",), failed=(REGRESSION,), waived=(REQUIRED,),
        problems=(NOTHING_LEFT,), accepted=(), missing=(REGRESSION,), failing=((REGRESSION, False),),
    ),
    "a waived wheel that is there and good is published, and is well again": Case(waived=(REQUIRED,)),
    "a waived test that passes is well again": Case(waived=(f"smoke-{REQUIRED}",)),
    "a waived test of a wheel that is there takes no wheel away": Case(
        failed=(f"smoke-{REQUIRED}",), waived=(f"smoke-{REQUIRED}",),
    ),
    "a report about another wheel of the draft says nothing about this one": Case(
        about="cp313", accepted=(EXPERIMENTAL,), missing=(f"smoke-{REQUIRED}",), lacking=(f"smoke-{REQUIRED}",),
        problems=(f"smoke-{REQUIRED}: tested another build of the wheel than the draft has",),
        failing=((f"smoke-{REQUIRED}", True),),
    ),
    "a failing report about another build is stale, not failed": Case(
        about="gone", failed=(f"smoke-{REQUIRED}",), accepted=(EXPERIMENTAL,), missing=(f"smoke-{REQUIRED}",),
        problems=(f"smoke-{REQUIRED}: tested another build of the wheel than the draft has",),
        lacking=(f"smoke-{REQUIRED}",), failing=((f"smoke-{REQUIRED}", True),),
    ),
    "a wheel that was deleted for its failed test has the test's issue, published or not": Case(
        wheels=(REQUIRED,), failed=(f"smoke-{EXPERIMENTAL}",), accepted=(REQUIRED,),
        missing=(EXPERIMENTAL, f"smoke-{EXPERIMENTAL}"), failing=((f"smoke-{EXPERIMENTAL}", False),),
    ),
    "a suite that only measures keeps nothing back if it fails": Case(
        matrix=MEASURED, wheels=(REQUIRED,), failed=(PERFORMANCE,), accepted=(REQUIRED,), missing=(PERFORMANCE,),
        failing=((PERFORMANCE, False),),
    ),
    "nor if it was not run, and publication waits for the tests that gate alone": Case(
        matrix=MEASURED, wheels=(REQUIRED,), untested=(PERFORMANCE, f"smoke-{REQUIRED}"), accepted=(),
        problems=(f"smoke-{REQUIRED}: was not run",), missing=(PERFORMANCE, f"smoke-{REQUIRED}"),
        lacking=(f"smoke-{REQUIRED}",), failing=((f"smoke-{REQUIRED}", True), (PERFORMANCE, False)),
    ),
    "a waiver of an SDK is none": Case(
        wheels=(EXPERIMENTAL,), waived=("sdk-linux-x86_64",), problems=(f"{REQUIRED}: there is no wheel",),
        accepted=(EXPERIMENTAL,), missing=(REQUIRED,), lacking=(REQUIRED,), failing=((REQUIRED, True),),
    ),
}  # fmt: skip


def card_of(case: Case) -> Scorecard:
    def digest(name: str) -> str:
        return name.encode().hex().rjust(64, "0")

    def report(name: str, wheel: str) -> TestReport:
        passed = name not in case.failed
        if name == REGRESSION:
            return TestReport(target=name, suite="regression", passed=passed)
        sha256 = digest(case.about if case.about and name == f"smoke-{REQUIRED}" else wheel)
        return TestReport(
            target=name, suite=name.partition("-")[0], wheel=f"{wheel}.whl", wheel_sha256=sha256, passed=passed
        )

    files = {
        wheel.slot: Asset(name=f"{wheel.name}.whl", size=1, sha256=digest(wheel.name), complete=True, url="")
        for wheel in case.matrix.wheels
        if wheel.name in case.wheels
    }
    reports = {
        test.name: report(test.name, test.wheels[0]) for test in case.matrix.tests if test.name not in case.untested
    }
    return score(case.matrix, wheels=files, reports=reports, waivers=case.waived)


@pytest.mark.parametrize("name", CASES)
def test_all_who_judge_a_draft_agree(name: str) -> None:
    case = CASES[name]
    card = card_of(case)
    assert card.problems == case.problems
    assert card.accepted == case.accepted
    assert sorted((*card.lacking_wheels, *card.lacking_tests)) == sorted(case.missing)
    assert card.lacking_required == case.lacking
    found = card.failing
    assert {(row.name, row.required) for row in found.values()} == set(case.failing)
    # Publication waits for something if, and only if, a build or a waiver can help.
    assert bool(card.lacking_required) == bool(set(card.problems) - {NOTHING_LEFT})
    assert any(row.required for row in found.values()) == bool(card.lacking_required)
    assert not set(card.waivers) - set(case.waived)
    assert not {report.target for report in card.vouching} & set(case.failed)


def test_what_was_measured_is_in_the_manifest_if_it_succeeded() -> None:
    good = card_of(Case(matrix=MEASURED, wheels=(REQUIRED,)))
    assert [row.target for row in good.vouching] == [f"smoke-{REQUIRED}", PERFORMANCE]
    bad = card_of(Case(matrix=MEASURED, wheels=(REQUIRED,), failed=(PERFORMANCE,)))
    assert [row.target for row in bad.vouching] == [f"smoke-{REQUIRED}"]


def test_a_wheel_that_no_target_makes_is_seen_without_its_content() -> None:
    slot = replace(PLAIN.wheels[0].slot, python="cp310")
    stray = Asset(name="stray.whl", size=1, sha256="0" * 64, complete=True, url="")
    card = score(PLAIN, wheels={slot: stray}, reports={}, waivers=())
    assert card.problems[0] == "stray.whl: no target of the build matrix makes such a wheel"


def test_a_stale_report_is_told_as_such() -> None:
    found = card_of(Case(about="gone")).failing
    assert found[f"smoke-{REQUIRED}"].summary == OTHER_BUILD


# -- what fails, told once: a platform without an SDK is one failure, whatever it takes down --------------------------

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
    assert set(found.failing) == {WHEEL}
    assert f"smoke-{WHEEL}" not in found.passing
    assert {OTHER, f"smoke-{OTHER}", SDK} <= found.passing


def test_an_experimental_target_blocks_nothing() -> None:
    (failure,) = judge((CORE,), (f"smoke-{CORE}",)).failing.values()
    assert (failure.name, failure.required) == (CORE, False)
    (failure,) = judge((), (f"smoke-{CORE}",)).failing.values()
    assert (failure.name, failure.required) == (f"smoke-{CORE}", False)
    assert all(failure.required for failure in judge((WHEEL,), (f"smoke-{OTHER}",)).failing.values())


def test_a_platform_of_which_only_experimental_targets_are_missing_blocks_nothing() -> None:
    (failure,) = judge((CORE,), (), first="failure").failing.values()
    assert (failure.name, failure.required, failure.takes_down, failure.leaves_out) == (SDK, False, (), (CORE,))
    # Where the required ones are waived, their own issue says more.
    found = judge_draft(wheels=(CORE,), tests=(), waived=(WHEEL, OTHER))
    assert set(found.failing) == {CORE}
    jobs = {FIRST: make_job(FIRST, "failure")}
    found = judge_draft(wheels=(CORE,), tests=(), waived=(WHEEL, OTHER), jobs=jobs)
    assert found.failing == {}


def test_a_platform_whose_sdk_fails_is_one_failure() -> None:
    for first, second in (
        ("failure", "skipped"),
        ("failure", "success"),
        ("success", "timed_out"),
        ("cancelled", None),
    ):
        found = judge(WHEELS, first=first, second=second)
        (failure,) = found.failing.values()
        assert failure.name == SDK
        assert set(failure.takes_down) == {WHEEL, OTHER}  # the required ones
        assert (failure.leaves_out, failure.required) == ((CORE,), True)
        assert failure.summary == "there is no SDK"
        assert found.passing == frozenset()


def test_wheels_that_fail_by_themselves_are_failures_of_their_own() -> None:
    for second in ("success", "skipped"):  # skipped: the first job was enough
        found = judge(WHEELS, first="success", second=second)
        assert set(found.failing) == {WHEEL, OTHER, CORE}
        assert found.passing == {SDK}
    assert judge(WHEELS, first="success").passing == frozenset()  # the second job may have more to do
    assert SDK not in judge((WHEEL,), first="success").failing


def test_an_sdk_that_fails_only_the_tests_takes_down_those() -> None:
    test = f"smoke-{WHEEL}"
    (failure,) = judge((), (test,), first="failure").failing.values()
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
    assert set(found.failing) == {SDK, name}
    assert found.failing[name].summary == "1 test failed"
    assert len(failed_tests(found.failing[name])) < 1000
    assert found.failing[SDK].takes_down == (OTHER,)


def test_without_jobs_a_platform_without_a_wheel_is_one_failure() -> None:
    (failure,) = judge(WHEELS).failing.values()
    assert (failure.name, failure.summary) == (SDK, "there is no wheel of this platform at all")
    assert set(judge((WHEEL, OTHER), ()).failing) == {WHEEL, OTHER}  # one that is not required is there
    assert set(judge(WHEELS, first=None).failing) == {SDK}  # it still runs


def test_who_is_waived_is_neither_failing_nor_well() -> None:
    found = judge_draft(wheels=(), tests=(), waived=(WHEEL, f"smoke-{OTHER}"))
    assert found.failing == {}
    assert found.passing == {OTHER, SDK, CORE, f"smoke-{CORE}"}


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
        for failure in found.failing.values()
        for name in (*failure.takes_down, *failure.leaves_out) or (failure.name,)
    ]
    assert len(told) == len(set(told))
    assert not found.passing & {*told, *found.failing, *waived}
    required = {wheel.name for wheel in MATRIX.wheels if wheel.required}
    assert required & missing == set(told) & required
    assert {failure.name for failure in found.failing.values() if not failure.required} <= {
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
    assert found.failing[CORE].jobs == tuple(ends)[:2]


def test_the_latest_job_of_a_name_counts_and_an_sdks_two_are_of_one_run() -> None:
    first, second = sdk_jobs("x")
    new = [make_job(f"x / {first}", "success", number=9, minutes=5), make_job(f"x / {first}", "failure", number=10)]
    old = [make_job(f"x / {second}", "failure"), make_job("tests: a", "failure"), make_job(first, "cancelled")]
    found = merge_jobs([new, old])
    assert {name: job.conclusion for name, job in found.items()} == {first: "success", "tests: a": "failure"}
    assert found[first].id == "9"


def test_a_newer_run_takes_the_place_of_the_work_that_it_repeats_and_of_no_other() -> None:
    first, second = sdk_jobs("x")
    older = [make_job(name, "success") for name in (first, second, "wheels: x", "wheels: x (experimental, 2)")]
    older += [make_job(f"{name} / publish: upload ({name})", "failure") for name in ("x", "y")]
    newer = [make_job(name, None) for name in (first, "wheels: x (experimental)", "x / publish: upload (x)")]
    found = merge_jobs([newer, older])
    assert set(found) == {first, "wheels: x", "wheels: x (experimental)", "publish: upload (x)", "publish: upload (y)"}
    assert found["publish: upload (x)"].conclusion is None
