"""``<test target>.tests.json``: what came of a test target's run, as ``wheels test`` writes and a release keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from mlir_release.builder.model.suites import needs_wheel
from mlir_release.ground.documents.decode import (
    Count,
    Line,
    MalformedError,
    PlainName,
    PlainNameOrEmpty,
    Sha256,
    builtins,
    doc,
    from_json,
)
from mlir_release.ground.errors import VerificationError

PEAK_MEMORY = "peak-memory-bytes"

#: Names for people, in the order of tables; a measure that is not here is called by its own name.
TITLES: Mapping[str, str] = {
    "import": "import mlir.ir",
    "context": "make a context",
    "parse": "parse",
    "build": "build operations",
    "verify": "verify",
    "print": "print",
    "canonicalize": "canonicalize",
    "lower": "lower to LLVM",
    "jit": "compile (JIT)",
    PEAK_MEMORY: "peak memory",
    "wheel-bytes": "wheel",
    "unpacked-bytes": "wheel, unpacked",
    "capi-library-bytes": "C API library",
}


def title_of(measure: str) -> str:
    """A measure's name for people."""
    return TITLES.get(measure, measure)


#: What a run measured. JSON's readers in other languages keep no larger numbers exact.
Measure = Annotated[int, Meta(ge=0, le=2**53, title="a number from 0 to 2**53")]

#: The same, by name.
Measures = Annotated[Mapping[PlainName, Measure], Meta(max_length=100)]


class ExpectedFailures(Struct, frozen=True, kw_only=True):
    """Tests of one run that failed as expected, all for one reason."""

    tests: Annotated[tuple[Line, ...], doc("Names of tests, `python/multithreaded_tests.py`")]
    reason: Annotated[Line, doc("Why they fail, for people")]
    link: Annotated[Line, doc("Where upstream, or the packager, knows of it; or empty")] = ""


class TestEntry(Struct, frozen=True, kw_only=True):
    """A test target's passing run on what is published."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    name: Annotated[PlainName, doc("The test target, `bindings-mlir-linux-x86_64-cp312`")]
    suite: Line
    wheel: Annotated[
        PlainNameOrEmpty, doc("File name of the tested wheel; empty for a suite that tests the SDK's tools")
    ] = ""
    counts: Annotated[Mapping[str, Count], doc("`pass`, `expected_fail`, `unsupported`, …")] = {}
    known_failures: Annotated[
        tuple[ExpectedFailures, ...], doc("The tests that `counts` has as `expected_fail`; releases of before lack it")
    ] = ()
    measures: Annotated[
        Measures, doc("Instructions counted in each phase, and bytes (`…-bytes`), of the suite `performance`")
    ] = {}


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
