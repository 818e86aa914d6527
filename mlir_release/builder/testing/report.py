"""Results of tests: counted, and written as a test report, JUnit XML and Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from mlir_release.builder.model.test_report import ExpectedFailures, TestFailure, TestReport, title_of
from mlir_release.ground.console import format_seconds
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.foreign import code, code_block, html, link, markdown, table, visible
from mlir_release.ground.storage.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.ground.programs.process import Captured

T = TypeVar("T", bound=Struct)

#: Characters that XML 1.0 does not allow, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: A failing compiler can print megabytes; the report keeps the end, which has the reason.
MESSAGE_LIMIT = 4000


class TestOutcome(StrEnum):
    """The end of a test. ``EXPECTED_FAIL``: it is on the list of known failures and did fail."""

    __test__ = False  # not a pytest class, whatever its name

    PASS = "pass"
    FAIL = "fail"
    EXPECTED_FAIL = "expected_fail"
    UNSUPPORTED = "unsupported"
    UNEXPECTED_PASS = "unexpected_pass"

    @property
    def good(self) -> bool:
        """Does not make the suite fail."""
        return self not in (TestOutcome.FAIL, TestOutcome.UNEXPECTED_PASS)


#: The outcomes in the order of reports, as those call them.
_HEADINGS = {
    TestOutcome.PASS: "pass",
    TestOutcome.FAIL: "fail",
    TestOutcome.EXPECTED_FAIL: "known failures",
    TestOutcome.UNEXPECTED_PASS: "unexpected passes",
    TestOutcome.UNSUPPORTED: "unsupported",
}


@dataclass(frozen=True, kw_only=True)
class TestResult:
    """One test."""

    __test__ = False

    name: str
    outcome: TestOutcome
    seconds: float = 0.0  #: wall time
    message: str = ""  #: the output of a failing or unsupported test; the reason, for an expected failure
    measure: int | None = None  #: of a test that measures: instructions, or bytes if its name says so
    link: str = ""  #: of an expected failure: where upstream, or the packager, knows of it


def read_lines(printed: str, kind: type[T]) -> list[T]:
    """The lines of JSON that a program of tests printed, without what others printed in between."""
    found = []
    for line in printed.splitlines():
        try:
            found.append(from_json(line, kind))
        except MalformedError:
            continue
    return found


def cut_short(lines: Sequence[Any], done: Captured, *, name: str = "runs-to-the-end") -> TestResult:
    """The failure of such a program that ended early, as in a crash: what follows its last line never ran.

    :param lines: those that it printed, each with a ``name``
    """
    message = f"the interpreter ended after {lines[-1].name if lines else 'nothing'}: {done.ending}\n{done.stderr}"
    return TestResult(name=name, outcome=TestOutcome.FAIL, message=message)


@dataclass(frozen=True, kw_only=True)
class TestRun:
    """The results of one test target: of its suite, on a wheel or, where that is ``None``, on the SDK."""

    __test__ = False

    target: str  #: ``bindings-mlir-linux-x86_64-cp312``
    suite: str
    wheel: str | None  #: file name
    wheel_sha256: str | None
    results: tuple[TestResult, ...]
    seconds: float  #: wall time
    #: Versions of the wheel's requirements, by canonical name.
    installed: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Number of results by outcome; every outcome is there."""
        return {outcome.value: sum(result.outcome is outcome for result in self.results) for outcome in TestOutcome}

    @property
    def passed(self) -> bool:
        """At least one test ran, and none ended in a bad way."""
        ran = any(result.outcome is not TestOutcome.UNSUPPORTED for result in self.results)
        return ran and all(result.outcome.good for result in self.results)

    @property
    def failures(self) -> tuple[TestResult, ...]:
        """The results that make the suite fail."""
        return tuple(result for result in self.results if not result.outcome.good)

    @property
    def known_failures(self) -> tuple[ExpectedFailures, ...]:
        """The expected failures, one row for each reason."""
        found: dict[tuple[str, str], list[str]] = {}
        for result in self.results:
            if result.outcome is TestOutcome.EXPECTED_FAIL:
                found.setdefault((_line(result.message), _line(result.link)), []).append(_line(result.name))
        return tuple(
            ExpectedFailures(tests=tuple(names), reason=reason, link=link) for (reason, link), names in found.items()
        )

    @property
    def measures(self) -> dict[str, int]:
        """The values of tests that measure, by name."""
        return {result.name: result.measure for result in self.results if result.measure is not None}

    @property
    def report(self) -> TestReport:
        """The report that a release keeps."""
        return TestReport(
            target=self.target,
            suite=self.suite,
            wheel=self.wheel,
            wheel_sha256=self.wheel_sha256,
            passed=self.passed,
            counts=self.counts,
            seconds=round(self.seconds, 1),
            installed=self.installed,
            failures=tuple(
                TestFailure(name=result.name, message=shorten(result.message) or result.outcome.value)
                for result in self.failures
            ),
            known_failures=self.known_failures,
            measures=self.measures,
        )

    def write(self, folder: Path) -> Path:
        """Write ``<target>.junit.xml``, and the report, ``<target>.tests.json``, whose path is returned."""
        path = folder / self.report.filename
        write_atomically(folder / f"{self.target}.junit.xml", junit(self))
        write_atomically(path, self.report.to_text())
        return path

    def text(self) -> str:
        """The same as :meth:`markdown` for a terminal."""
        counts = [
            f"{heading}: {self.counts[outcome]}" for outcome, heading in _HEADINGS.items() if self.counts[outcome]
        ]
        verdict = "passed" if self.passed else "FAILED"
        lines = [f"{verdict}: {self.target}: {', '.join(counts) or 'no test'}, in {format_seconds(self.seconds)}"]
        if self.wheel:
            versions = ", ".join(f"{name} {version}" for name, version in self.installed.items())
            lines.append(f"  {self.wheel}" + (f" with {versions}" if versions else ""))
        lines += [f"  {title_of(name)}: {value:,}" for name, value in self.measures.items()]
        for result in self.failures:
            lines.append(f"  {result.name}: {_HEADINGS[result.outcome]}")
            lines += [f"      {line}" for line in shorten(result.message).splitlines()]
        for row in self.known_failures:
            lines.append(
                f"  known to fail: {', '.join(row.tests)}: {row.reason}" + (f" ({row.link})" if row.link else "")
            )
        return "\n".join(lines)

    def markdown(self) -> str:
        """A summary for people, as GitHub renders it: counts, then what failed, then what is known to fail."""
        lines = [f"### {'✅' if self.passed else '❌'} {markdown(self.target)}", ""]
        if self.wheel:
            versions = markdown(", ".join(f"{name} {version}" for name, version in self.installed.items()))
            lines += [code(self.wheel) + (f" with {versions}" if versions else ""), ""]
        columns = ("suite", *(f">{heading}" for heading in _HEADINGS.values()), ">time")
        counts = (self.counts[outcome] for outcome in _HEADINGS)
        lines.append(table(columns, [(markdown(self.suite), *counts, f"{self.seconds:.0f} s")]))
        if measures := self.measures:
            rows = [(markdown(title_of(name)), f"{value:,}") for name, value in measures.items()]
            lines += ["", table(("instructions, or bytes", ">measured"), rows)]
        for result in self.failures:
            summary = f"❌ <code>{html(result.name)}</code> ({result.outcome.value})"
            lines += ["", f"<details><summary>{summary}</summary>", ""]
            lines += [code_block(shorten(result.message).splitlines(), ""), "</details>"]
        if known := self.known_failures:
            lines += ["", "<details><summary>Known failures</summary>", ""]
            for row in known:
                why = markdown(row.reason) + (f" ({link('details', row.link)})" if row.link else "")
                lines.append(f"- {', '.join(map(code, row.tests))}: {why}")
            lines += ["", "</details>"]
        return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    """Text of a report on one line, as long as :data:`~mlir_release.ground.documents.decode.Line` allows."""
    return " ".join(visible(text).split())[:1000]


def shorten(message: str) -> str:
    """The end of a long message."""
    text = message.strip()
    return text if len(text) <= MESSAGE_LIMIT else f"[…]\n{text[-MESSAGE_LIMIT:]}"


def junit(run: TestRun) -> str:
    """JUnit XML as CI systems read it: an expected failure counts as skipped, an unexpected pass as a failure."""
    from xml.etree import ElementTree as ET

    root = ET.Element("testsuites", name=run.target)
    counts = run.counts
    node = ET.SubElement(
        root,
        "testsuite",
        name=f"{run.target}.{run.suite}",
        tests=str(len(run.results)),
        failures=str(counts[TestOutcome.FAIL] + counts[TestOutcome.UNEXPECTED_PASS]),
        skipped=str(counts[TestOutcome.UNSUPPORTED] + counts[TestOutcome.EXPECTED_FAIL]),
        time=f"{run.seconds:.3f}",
    )
    for result in run.results:
        folder, _, name = result.name.rpartition("/")
        classname = ".".join(filter(None, [run.suite, *folder.split("/")]))
        case = ET.SubElement(node, "testcase", classname=classname, name=name, time=f"{result.seconds:.3f}")
        text = _NOT_XML.sub("�", shorten(result.message))
        if not result.outcome.good:
            kind = "unexpected pass" if result.outcome is TestOutcome.UNEXPECTED_PASS else "failure"
            ET.SubElement(case, "failure", message=kind).text = text
        elif result.outcome is TestOutcome.EXPECTED_FAIL:
            at = _NOT_XML.sub("�", result.link)
            ET.SubElement(case, "skipped", message=f"known failure: {text}" + (f" ({at})" if at else ""))
        elif result.outcome is TestOutcome.UNSUPPORTED:
            ET.SubElement(case, "skipped", message=text.splitlines()[0] if text else "unsupported")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
