from __future__ import annotations

from dataclasses import dataclass

import pytest

from mlir_release.builder.projects.mlir.suites.behaviours import CASES, Case, MlirError, UnsupportedError, run_cases
from mlir_release.builder.testing.report import TestOutcome, TestRun


@dataclass
class FakeMlir:
    """An MLIR that prints back what it reads, and translates to LLVM IR with debug info everywhere."""

    loses_locations: bool = False

    def round_trip(self, text: str) -> tuple[str, str]:
        return text, text.replace("loc(", "(") if self.loses_locations else text

    def run(self, text: str, pipeline: str, *, print_locations: bool) -> str:
        return text if print_locations else "module {}"

    def to_llvm_ir(self, text: str) -> str:
        if "loc(" not in text:
            return ""
        raise MlirError("no")


def judge(case: Case, version: str = "22.1.8") -> TestOutcome:
    (result,) = run_cases(FakeMlir(), version, [case])
    return result.outcome


def case(seen: str, **versions: str) -> Case:
    return Case(name="x", check=lambda mlir: seen, reason="known", **versions)


@pytest.mark.parametrize(
    ("seen", "versions", "expected"),
    [
        ("", {"holds": ">=19"}, TestOutcome.PASS),
        ("bad", {"holds": ">=19"}, TestOutcome.FAIL),
        ("bad", {"fails": ">=19"}, TestOutcome.EXPECTED_FAIL),
        ("", {"fails": ">=19"}, TestOutcome.UNEXPECTED_PASS),
        ("", {"holds": ">=23", "fails": "<20"}, TestOutcome.UNSUPPORTED),
        ("bad", {"holds": ">=23", "fails": "<20"}, TestOutcome.UNSUPPORTED),
    ],
)
def test_a_case_is_pinned_to_versions(seen: str, versions: dict[str, str], expected: TestOutcome) -> None:
    assert judge(case(seen, **versions)) is expected


def test_only_the_known_symptom_is_a_known_failure() -> None:
    found = [
        judge(case(seen, fails=">=19", symptom="no !dbg")) for seen in ("error: no !dbg here", "exit code -11", "")
    ]
    assert found == [TestOutcome.EXPECTED_FAIL, TestOutcome.FAIL, TestOutcome.UNEXPECTED_PASS]


def test_users_learn_which_behaviours_fail_and_where_upstream_knows_of_it() -> None:
    known = [Case(name=name, check=lambda mlir: "bad", fails=">=19", reason="why", link="https://x") for name in "ab"]
    results = run_cases(FakeMlir(), "22.1.8", [*known, case("")])
    run = TestRun(target="smoke-t", suite="smoke", wheel=None, wheel_sha256=None, results=results, seconds=1.0)
    (row,) = run.report.known_failures
    assert (row.tests, row.reason, row.link) == (("regressions/a", "regressions/b"), "why", "https://x")


def test_a_crash_is_a_failure_with_its_message() -> None:
    def crash(mlir: object) -> str:
        raise MlirError("exit code -6")

    (result,) = run_cases(FakeMlir(), "22.1.8", [Case(name="x", check=crash, holds=">=19")])
    assert (result.outcome, result.message, result.name) == (TestOutcome.FAIL, "exit code -6", "regressions/x")


def test_what_an_interface_cannot_do_is_neither_right_nor_wrong() -> None:
    def unable(mlir: object) -> str:
        raise UnsupportedError("the SDK's tools part is not here")

    (result,) = run_cases(FakeMlir(), "22.1.8", [Case(name="x", check=unable, holds=">=19")])
    assert (result.outcome, result.message) == (TestOutcome.UNSUPPORTED, "the SDK's tools part is not here")


def test_names_are_unique_and_every_case_is_pinned_for_the_proven_versions() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    for version in ("19.1.7", "22.1.8"):
        assert all(case.expected(version) is not None for case in CASES)


def test_eight_kinds_of_location() -> None:
    kinds = [case for case in CASES if case.name.startswith("location-survives-bytecode/")]
    assert len(kinds) == 8
    good = run_cases(FakeMlir(), "22.1.8", kinds)
    assert {result.outcome for result in good} == {TestOutcome.PASS}
    bad = run_cases(FakeMlir(loses_locations=True), "22.1.8", kinds)
    assert {result.outcome for result in bad} == {TestOutcome.FAIL}


def test_what_changed_between_versions_and_what_did_not() -> None:
    by_name = {case.name: case for case in CASES}
    distinct = by_name["debug-info/one-compile-unit-stays-one"]
    assert (distinct.expected("19.1.7"), distinct.expected("21.1.8"), distinct.expected("22.1.8")) == (
        False,
        None,
        True,
    )
    call = by_name["debug-info/unlocated-call-translates"]
    assert (call.expected("19.1.7"), call.expected("22.1.8")) == (False, False)
