"""Results of tests: counted, and written as a test report, JUnit XML and Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from mlir_release.host.files import write_atomically
from mlir_release.model.test_report import TestFailure, TestReport

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Characters that XML 1.0 does not allow, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: A failing compiler can print megabytes; the report keeps the end, which has the reason.
MESSAGE_LIMIT = 4000


class Outcome(StrEnum):
    """How a test ended. ``EXPECTED_FAIL``: it is on the list of known failures and did fail."""

    PASS = "pass"
    FAIL = "fail"
    EXPECTED_FAIL = "expected_fail"
    UNSUPPORTED = "unsupported"
    UNEXPECTED_PASS = "unexpected_pass"

    @property
    def good(self) -> bool:
        """Does not make the suite fail."""
        return self not in (Outcome.FAIL, Outcome.UNEXPECTED_PASS)


@dataclass(frozen=True, kw_only=True)
class TestResult:
    """One test.

    :param seconds: wall time
    :param message: the output of a failing or unsupported test; the reason, for an expected failure
    """

    __test__ = False  # not a pytest class, whatever its name

    name: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class SuiteReport:
    """The results of one suite."""

    suite: str
    results: tuple[TestResult, ...]
    seconds: float

    @property
    def counts(self) -> dict[str, int]:
        """Number of results by outcome; every outcome is there."""
        return {outcome.value: sum(result.outcome is outcome for result in self.results) for outcome in Outcome}

    @property
    def passed(self) -> bool:
        """At least one test ran, and none ended in a bad way."""
        ran = any(result.outcome is not Outcome.UNSUPPORTED for result in self.results)
        return ran and all(result.outcome.good for result in self.results)

    @property
    def failures(self) -> tuple[TestResult, ...]:
        """The results that make the suite fail."""
        return tuple(result for result in self.results if not result.outcome.good)


@dataclass(frozen=True, kw_only=True)
class TestRun:
    """The results of one test target.

    :param target: the test target's name (``bindings-mlir-linux-x86_64-cp312``)
    :param wheel: file name of the wheel that was tested, and its digest; ``None`` where the SDK was
    """

    __test__ = False

    target: str
    wheel: str | None
    wheel_sha256: str | None
    suites: tuple[SuiteReport, ...]

    @property
    def suite(self) -> str:
        """The suites' names, ``+`` between them."""
        return "+".join(suite.suite for suite in self.suites)

    @property
    def passed(self) -> bool:
        """All suites passed."""
        return bool(self.suites) and all(suite.passed for suite in self.suites)

    @property
    def counts(self) -> dict[str, int]:
        """Number of results by outcome, over all suites."""
        return {outcome.value: sum(suite.counts[outcome.value] for suite in self.suites) for outcome in Outcome}

    @property
    def seconds(self) -> float:
        """Wall time of all suites."""
        return sum(suite.seconds for suite in self.suites)

    @property
    def report(self) -> TestReport:
        """What a release keeps of the run."""
        return TestReport(
            target=self.target,
            suite=self.suite,
            wheel=self.wheel,
            wheel_sha256=self.wheel_sha256,
            passed=self.passed,
            counts=self.counts,
            seconds=round(self.seconds, 1),
            failures=tuple(
                TestFailure(name=result.name, message=shorten(result.message) or result.outcome.value)
                for suite in self.suites
                for result in suite.failures
            ),
        )

    def write(self, path: Path) -> Path:
        """Write the report (``<target>.tests.json`` in it, if ``path`` is a folder) and return its path."""
        return _write(path, self.report.filename, self.report.to_text())

    def write_junit(self, path: Path) -> Path:
        """Write JUnit XML (``<target>.junit.xml`` in it, if ``path`` is a folder) and return its path."""
        return _write(path, f"{self.target}.junit.xml", junit(self))

    def markdown(self) -> str:
        """A summary for people, as GitHub renders it: counts, then what failed, then what is known to fail."""
        return markdown(self)


def shorten(message: str) -> str:
    """The end of a long message."""
    text = message.strip()
    return text if len(text) <= MESSAGE_LIMIT else f"[…]\n{text[-MESSAGE_LIMIT:]}"


def _write(path: Path, name: str, text: str) -> Path:
    if path.is_dir() or not path.suffix:
        path = path / name
    write_atomically(path, text)
    return path


def junit(run: TestRun) -> str:
    """JUnit XML as CI systems read it: an expected failure counts as skipped, an unexpected pass as a failure."""
    from xml.etree import ElementTree as ET

    root = ET.Element("testsuites", name=run.target)
    for suite in run.suites:
        counts = suite.counts
        node = ET.SubElement(
            root,
            "testsuite",
            name=f"{run.target}.{suite.suite}",
            tests=str(len(suite.results)),
            failures=str(counts[Outcome.FAIL] + counts[Outcome.UNEXPECTED_PASS]),
            skipped=str(counts[Outcome.UNSUPPORTED] + counts[Outcome.EXPECTED_FAIL]),
            time=f"{suite.seconds:.3f}",
        )
        for result in suite.results:
            folder, _, name = result.name.rpartition("/")
            classname = ".".join(filter(None, [suite.suite, *folder.split("/")]))
            case = ET.SubElement(node, "testcase", classname=classname, name=name, time=f"{result.seconds:.3f}")
            text = _NOT_XML.sub("�", shorten(result.message))
            if not result.outcome.good:
                kind = "unexpected pass" if result.outcome is Outcome.UNEXPECTED_PASS else "failure"
                ET.SubElement(case, "failure", message=kind).text = text
            elif result.outcome is Outcome.EXPECTED_FAIL:
                ET.SubElement(case, "skipped", message=f"known failure: {text}")
            elif result.outcome is Outcome.UNSUPPORTED:
                ET.SubElement(case, "skipped", message=text.splitlines()[0] if text else "unsupported")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def markdown(run: TestRun) -> str:
    """See :meth:`TestRun.markdown`."""
    mark = "✅" if run.passed else "❌"
    lines = [f"### {mark} {run.target}", ""]
    if run.wheel:
        lines += [f"`{run.wheel}`", ""]
    lines += ["| suite | pass | fail | known failures | unexpected passes | unsupported | time |"]
    lines += ["|---|--:|--:|--:|--:|--:|--:|"]
    for suite in run.suites:
        counts = suite.counts
        order = (Outcome.PASS, Outcome.FAIL, Outcome.EXPECTED_FAIL, Outcome.UNEXPECTED_PASS, Outcome.UNSUPPORTED)
        cells = " | ".join(str(counts[outcome]) for outcome in order)
        lines.append(f"| {suite.suite} | {cells} | {suite.seconds:.0f} s |")
    for suite in run.suites:
        for result in suite.failures:
            lines += ["", f"<details><summary>❌ <code>{result.name}</code> ({result.outcome.value})</summary>", ""]
            lines += [_fence(shorten(result.message)), "</details>"]
    known = [result for suite in run.suites for result in suite.results if result.outcome is Outcome.EXPECTED_FAIL]
    if known:
        lines += ["", "<details><summary>Known failures</summary>", ""]
        lines += _by_reason(known)
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def _by_reason(results: Sequence[TestResult]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for result in results:
        reasons.setdefault(result.message, []).append(f"`{result.name}`")
    return [f"- {', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _fence(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
