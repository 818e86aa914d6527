from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir.suites.behaviours import CASES, Case, MlirError, UnsupportedError, run_cases
from mlir_release.builder.testing.report import TestOutcome, TestRun

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What mlir-translate of LLVM 22.1.8 prints, without what says no place, by a word that only this module has.
UNIT = '!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1)\n!1 = !DIFile(filename: "a.py", directory: "")\n'
CALLS = """\
define void @callee() !dbg !3 {
  ret void, !dbg !6
define void @caller() !dbg !7 {
  call void @callee(), !dbg !8
  ret void, !dbg !10
!3 = distinct !DISubprogram(name: "callee", scope: !1, file: !1, line: 1, type: !4, scopeLine: 1, unit: !0)
!6 = !DILocation(line: 1, column: 2, scope: !3)
!7 = distinct !DISubprogram(name: "caller", scope: !1, file: !1, line: 3, type: !4, scopeLine: 3, unit: !0)
!10 = !DILocation(line: 4, column: 2, scope: !7)
"""
RECORDED = {
    'callsite(fused<#callee>["a.py":1:9] at "a.py":4:5)': f"""\
{UNIT}{CALLS}!8 = !DILocation(line: 1, column: 9, scope: !3, inlinedAt: !9)
!9 = !DILocation(line: 4, column: 5, scope: !7)
""",
    'loc(fused["x.py":7:8, "a.py":4:1])': f"{UNIT}{CALLS}!8 = !DILocation(line: 0, scope: !7)\n",
    'loc(fused["a.py":4:1])': f"{UNIT}{CALLS}!8 = !DILocation(line: 4, column: 1, scope: !7)\n",
    "b.py": f"""\
{UNIT}define i32 @f(i32 %0) !dbg !3 {{
  %2 = add i32 %0, %0, !dbg !7
  ret i32 %2, !dbg !8
!3 = distinct !DISubprogram(name: "f", linkageName: "f", scope: !1, file: !1, line: 1, type: !5, unit: !0)
!7 = !DILocation(line: 2, column: 3, scope: !3)
!8 = !DILocation(line: 4, column: 5, scope: !9)
!9 = distinct !DILexicalBlockFile(scope: !3, file: !10, discriminator: 0)
!10 = !DIFile(filename: "b.py", directory: "")
""",
    "llvm.mul": f"""\
{UNIT}define i32 @f(i32 %0) !dbg !3 {{
  %2 = add i32 %0, %0, !dbg !7
  %3 = mul i32 %2, %0
  ret i32 %3, !dbg !8
!3 = distinct !DISubprogram(name: "f", linkageName: "f", scope: !1, file: !1, line: 1, type: !5, unit: !0)
!7 = !DILocation(line: 2, column: 3, scope: !3)
!8 = !DILocation(line: 4, column: 5, scope: !3)
""",
}


@dataclass
class FakeMlir:
    """An MLIR that prints back what it reads, and translates as recorded; a fault is what it writes for what."""

    in_bytecode: Mapping[str, str] = field(default_factory=dict)
    in_llvm_ir: Mapping[str, str] = field(default_factory=dict)

    def round_trip(self, text: str) -> tuple[str, str]:
        return text, faulty(text, self.in_bytecode)

    def run(self, text: str, pipeline: str, *, print_locations: bool) -> str:
        return text if print_locations else "module {}"

    def to_llvm_ir(self, text: str) -> str:
        return faulty(next((ir for word, ir in RECORDED.items() if word in text), ""), self.in_llvm_ir)


def faulty(text: str, fault: Mapping[str, str]) -> str:
    for pattern, written in fault.items():
        text, count = re.subn(pattern, written, text)
        assert count, pattern
    return text


INLINED, TWO_FILES = "call/callsite-of-an-inlined-function", "call/fused-of-two-files"
NAMES, SCOPES = "names-around-places-give-lines", "all-with-subprogram"


@pytest.mark.parametrize(
    ("name", "bytecode", "ir"),
    [
        pytest.param(INLINED, {}, {", inlinedAt: !9": ""}, id="the place of the inlined call is lost"),
        pytest.param(INLINED, {}, {"inlinedAt: !9": "inlinedAt: !10"}, id="it is another"),
        pytest.param(INLINED, {}, {"9, scope: !3": "9, scope: !7"}, id="an inlined line is in the function around it"),
        pytest.param(INLINED, {}, {"line: 1, column: 9": "line: 2, column: 9"}, id="another line"),
        pytest.param(INLINED, {}, {"column: 5": "column: 6"}, id="another column"),
        pytest.param(INLINED, {}, {r'filename: "a.py"': 'filename: "b.py"'}, id="another file"),
        pytest.param(INLINED, {}, {r"(caller.*)line: 3": r"\1line: 4"}, id="another line of a function"),
        pytest.param(INLINED, {r'1:9\] at "a.py":4:5': "1:9]"}, {}, id="bytecode loses a callsite"),
        pytest.param("call/fused", {}, {r"callee\(\), !dbg !8": "callee()"}, id="a fused location is lost"),
        pytest.param(TWO_FILES, {}, {"line: 0": "line: 7, column: 8"}, id="the first of two files wins"),
        pytest.param(NAMES, {}, {"scope: !9": "scope: !3"}, id="a place is given its function's file"),
        pytest.param(NAMES, {}, {r"line: 4, column: 5": "line: 1, column: 1"}, id="a name is its function's place"),
        pytest.param(SCOPES, {}, {"%2, %0": "%2, %0, !dbg !7"}, id="an unknown place takes its neighbour's"),
        pytest.param(SCOPES, {}, {r"\) !dbg !3": ")"}, id="a function has no place"),
    ],
)
def test_a_fault_in_debug_info_is_noticed(name: str, bytecode: Mapping[str, str], ir: Mapping[str, str]) -> None:
    (case,) = [case for case in CASES if case.name == f"debug-info/{name}"]
    outcomes = [run_cases(mlir, "22.1.8", [case])[0].outcome for mlir in (FakeMlir(), FakeMlir(bytecode, ir))]
    assert outcomes == [TestOutcome.PASS, TestOutcome.FAIL]


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
    symptoms = ("error: no !dbg here", "exit code -11", "")
    found = [judge(case(seen, fails=">=19", symptom="no !dbg")) for seen in symptoms]
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
    bad = run_cases(FakeMlir({r"loc\(": "("}), "22.1.8", kinds)
    assert {result.outcome for result in bad} == {TestOutcome.FAIL}
