from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from mlir_release.builder.model.test_report import TestFailure, TestReport
from mlir_release.builder.testing.report import MESSAGE_LIMIT, TestOutcome, TestResult, TestRun, shorten

if TYPE_CHECKING:
    from pathlib import Path


def result(name: str, outcome: TestOutcome, message: str = "", *, seconds: float = 0.5, link: str = "") -> TestResult:
    return TestResult(name=name, outcome=outcome, message=message, seconds=seconds, link=link)


def report(*results: TestResult, target: str = "bindings-mlir-linux-x86_64-cp312") -> TestRun:
    wheel, digest = "mlir-1-cp312-cp312-x.whl", "ab" * 32
    return TestRun(target=target, wheel=wheel, wheel_sha256=digest, suite="bindings", results=results, seconds=12.34)


GOOD = (
    result("python/a.py", TestOutcome.PASS),
    result("python/b.py", TestOutcome.EXPECTED_FAIL, "a reason", link="https://upstream.example/b"),
    result("python/c.py", TestOutcome.UNSUPPORTED, "Test requires x\nmore"),
)


def test_the_json_has_the_agreed_form(tmp_path: Path) -> None:
    path = report(*GOOD).write(tmp_path)
    assert path.name == "bindings-mlir-linux-x86_64-cp312.tests.json"
    assert json.loads(path.read_text()) == {
        "schema": 1,
        "target": "bindings-mlir-linux-x86_64-cp312",
        "suite": "bindings",
        "wheel": "mlir-1-cp312-cp312-x.whl",
        "wheel_sha256": "ab" * 32,
        "passed": True,
        "counts": {"pass": 1, "fail": 0, "expected_fail": 1, "unsupported": 1, "unexpected_pass": 0},
        "seconds": 12.3,
        "failures": [],
        "known_failures": [{"tests": ["python/b.py"], "reason": "a reason", "link": "https://upstream.example/b"}],
    }
    assert list(tmp_path.glob("*.json")) == [path]


def test_failures_and_unexpected_passes_fail() -> None:
    for outcome in (TestOutcome.FAIL, TestOutcome.UNEXPECTED_PASS):
        bad = report(*GOOD, result("python/d.py", outcome, "said"))
        assert not bad.passed
        assert bad.report.failures == (TestFailure(name="python/d.py", message="said"),)


def test_nothing_run_is_no_pass() -> None:
    assert not report().passed
    assert not report(result("a", TestOutcome.UNSUPPORTED)).passed


def test_junit(tmp_path: Path) -> None:
    report(*GOOD, result("python/ir/d.py", TestOutcome.FAIL, "bad\x00\x1b[31m < & output")).write(tmp_path)
    suite = ET.parse(tmp_path / "bindings-mlir-linux-x86_64-cp312.junit.xml").getroot().find("testsuite")
    assert suite is not None
    assert suite.attrib["name"] == "bindings-mlir-linux-x86_64-cp312.bindings"
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["skipped"]) == ("4", "1", "2")
    cases = {f"{case.attrib['classname']}/{case.attrib['name']}": case for case in suite}
    failure = cases["bindings.python.ir/d.py"].find("failure")
    assert failure is not None
    assert failure.text is not None
    assert "< & output" in failure.text
    skipped = cases["bindings.python/b.py"].find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "known failure: a reason (https://upstream.example/b)"


def test_markdown_shows_what_failed_and_what_is_known() -> None:
    text = report(*GOOD, result("python/d.py", TestOutcome.FAIL, "a ``` fence")).markdown()
    assert text.startswith("### ❌ bindings-mlir-linux-x86_64-cp312")
    assert "| bindings | 1 | 1 | 1 | 0 | 1 | 12 s |" in text
    assert "<code>python/d.py</code>" in text
    assert "````\na ``` fence\n````" in text
    assert "- `python/b.py`: a reason ([details](https://upstream.example/b))" in text
    assert report(*GOOD).markdown().startswith("### ✅")


def test_a_terminal_shows_the_same_without_markup() -> None:
    good, bad = report(*GOOD), report(*GOOD, result("python/d.py", TestOutcome.FAIL, "error: no\nmore"))
    assert good.text().splitlines()[0] == (
        "passed: bindings-mlir-linux-x86_64-cp312: pass: 1, known failures: 1, unsupported: 1, in 12 s"
    )
    assert "  known to fail: python/b.py: a reason (https://upstream.example/b)" in good.text().splitlines()
    assert bad.text().startswith("FAILED: bindings-mlir-linux-x86_64-cp312: pass: 1, fail: 1,")
    assert "  python/d.py: fail\n      error: no\n      more\n" in bad.text()
    assert report().text().startswith("FAILED: bindings-mlir-linux-x86_64-cp312: no test, in ")
    assert "<" not in bad.text()


def test_known_failures_stand_in_the_report_by_their_reasons() -> None:
    names = ("CAPI/a.c", "CAPI/b.c", "python/c.py")
    reasons = ("needs a program", "needs a program", "a line\nand\x1b[31m more " + "x" * 2000)
    run = report(*(result(name, TestOutcome.EXPECTED_FAIL, why) for name, why in zip(names, reasons, strict=True)))
    program, other = run.report.known_failures
    assert (program.tests, program.reason, program.link) == (names[:2], "needs a program", "")
    assert other.reason.startswith("a line and more xxx")
    again = TestReport.from_text(run.report.to_text(), name=run.report.filename, where="here")
    assert again == run.report
    assert again.entry().known_failures == run.known_failures
    assert "known_failures" not in report(result("a", TestOutcome.PASS)).report.to_text()


def test_long_messages_keep_their_end() -> None:
    text = shorten("x" * 10 * MESSAGE_LIMIT + "the reason")
    assert text.endswith("the reason")
    assert len(text) < MESSAGE_LIMIT + 10
    assert shorten("short\n") == "short"
