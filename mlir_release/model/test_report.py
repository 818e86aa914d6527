"""``<test target>.tests.json``: what came of a test target's run, as ``wheels test`` writes and a release keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct

from mlir_release.errors import VerificationError
from mlir_release.model.decode import Count, MalformedError, Sha256, builtins, from_json
from mlir_release.model.manifest import ExpectedFailures, Measures, TestEntry
from mlir_release.model.suites import needs_wheel

#: Suffix of test reports: ``<test target>.tests.json``.
REPORT_SUFFIX = ".tests.json"


class TestFailure(Struct, frozen=True, kw_only=True):
    """A test that made its suite fail, and the end of its output."""

    __test__ = False  # not a pytest class, whatever its name

    name: str
    message: str = ""


class TestReport(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """A test target's run."""

    __test__ = False

    target: str  #: ``bindings-mlir-linux-x86_64-cp312``
    suite: str  #: several in one run have ``+`` between them
    wheel: str | None = None  #: file name; None for a suite that tests the SDK's tools
    wheel_sha256: Sha256 | None = None  #: None likewise
    passed: bool
    counts: Mapping[str, Count] = {}  #: number of tests by outcome
    seconds: float = 0.0  #: wall time
    failures: tuple[TestFailure, ...] = ()
    known_failures: tuple[ExpectedFailures, ...] = ()  #: the tests that ``counts`` has as ``expected_fail``
    measures: Measures = {}  #: instructions, and bytes, by name
    installed: Mapping[str, str] = {}  #: versions of what the wheel requires, as the tests ran, by canonical name

    @property
    def filename(self) -> str:
        """The report's name among the release's assets."""
        return f"{self.target}{REPORT_SUFFIX}"

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the tests that failed."""
        return tuple(failure.name for failure in self.failures)

    @property
    def needs_wheel(self) -> bool:
        """Whether the suite runs on a wheel; else it tests the SDK's tools, once a platform."""
        return any(map(needs_wheel, self.suite.split("+")))

    def entry(self) -> TestEntry:
        """The report's row in the manifest."""
        return TestEntry(
            name=self.target,
            suite=self.suite,
            wheel=self.wheel or "",
            counts=self.counts,
            known_failures=self.known_failures,
            measures=self.measures,
        )

    def to_text(self) -> str:
        """The file's content."""
        return json.dumps(builtins(self, optional=("installed", "known_failures", "measures")), indent=2) + "\n"

    @classmethod
    def from_text(cls, content: str | bytes, *, name: str, where: str) -> TestReport:
        """Read :meth:`to_text`'s text.

        :param name: of the file, which the report must agree with
        :param where: the source, in errors
        :raises VerificationError: ``file-damaged``
        """
        try:
            report = from_json(content, cls)
            report.check(name)
        except MalformedError as error:
            raise VerificationError(
                "file-damaged",
                f"{name} is not a test report",
                where=where,
                why=str(error),
                remedy="run the tests again: mlir-release wheels test",
            ) from error
        return report

    def check(self, name: str) -> None:
        """Compare what the report says about itself. :raises MalformedError:"""
        if self.filename != name:
            raise MalformedError("target", f"is {self.target!r}, which the file name contradicts")
        if self.target.partition("-")[0] not in self.suite.split("+"):
            raise MalformedError("suite", f"is {self.suite!r}, which the target {self.target!r} contradicts")
        if self.wheel and not self.wheel_sha256:
            raise MalformedError("wheel_sha256", "is missing, so nobody knows which build was tested")
