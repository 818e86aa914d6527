"""The suites of clang's Python bindings: see :mod:`mlir_release.builder.testing.port`.

``bindings`` are upstream's ``clang/bindings/python/tests``, on the installed wheel. Each module has a process of its
own, so that a crash loses the rest of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.builder.projects.clang import PROJECT
from mlir_release.builder.sdk.parts import TOOLS
from mlir_release.builder.sdk.sources.upstream import copy_sources
from mlir_release.builder.testing.port import TIMEOUT, Suite
from mlir_release.builder.testing.report import TestOutcome, TestResult, cut_short, read_lines
from mlir_release.ground.programs.process import capture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from mlir_release.builder.testing.port import SuiteSubject

#: Runs one module of the tests.
_RUNNER = PROJECT.folder / "tests" / "bindings.py"

_TESTS = "clang/bindings/python/tests"


class _TestLine(Struct, frozen=True):
    """A line of the runner's."""

    name: str
    outcome: TestOutcome
    message: str
    seconds: float


def bindings(subject: SuiteSubject) -> list[TestResult]:
    """Run upstream's tests. The package itself is not copied with them: it would be imported instead of the wheel's."""
    tree = subject.workdir / "bindings"
    copy_sources(subject.sdk.root / "source", tree, (_TESTS, "clang/include/clang-c"))
    modules = sorted(file.stem for file in (tree / _TESTS / "cindex").glob("test_*.py"))
    results = [result for module in modules for result in _run(subject, tree / _TESTS, module)]
    return sorted(results, key=lambda result: result.name)


def _run(subject: SuiteSubject, tests: Path, module: str) -> Iterator[TestResult]:
    assert subject.environment is not None
    # As upstream does: a configuration file of the machine's clang must not change what is parsed.
    environment = subject.environment.variables({"CLANG_NO_DEFAULT_CONFIG": "1"})
    done = capture(
        [subject.environment.python, _RUNNER, tests.parent, module],
        environment=environment,
        cwd=subject.workdir,
        timeout=TIMEOUT,
    )
    lines = read_lines(done.stdout, _TestLine)
    for line in lines:
        if line.name != "end":
            yield TestResult(name=line.name, outcome=line.outcome, seconds=line.seconds, message=line.message)
    if not lines or lines[-1].name != "end":
        yield cut_short(lines, done, name=f"{module}.runs-to-the-end")


SUITES: Mapping[str, Suite] = {"bindings": Suite(run=bindings, parts=(TOOLS,))}
