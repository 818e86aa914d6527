"""Its suites: see :mod:`mlir_release.builder.testing.port`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.builder.projects.api import TIMEOUT, TOOLS, Suite, TestOutcome, TestResult, capture

if TYPE_CHECKING:
    from mlir_release.builder.projects.api import SuiteSubject


def _upstreams_tests(subject: SuiteSubject) -> list[TestResult]:
    """Each file of upstream's tests is a program."""
    assert subject.environment is not None
    results = []
    for path in sorted((subject.sdk.source / "python" / "tests").glob("*.py")):
        done = capture([subject.environment.python, "-I", path], timeout=TIMEOUT)
        outcome = TestOutcome.PASS if done.ok else TestOutcome.FAIL
        results.append(TestResult(name=path.name, outcome=outcome, message="" if done.ok else done.complaint))
    return results


SUITES = {"bindings": Suite(run=_upstreams_tests, parts=(TOOLS,))}
