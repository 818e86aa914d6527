"""Run upstream's own lit tests: their configuration, filled in for an SDK, and their results.

Upstream's build system fills a ``lit.site.cfg.py.in`` in; so do projects, from an SDK instead of a build tree.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from mlir_release.builder.testing.port import TIMEOUT
from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import BUILD_LIMIT, parse_json
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.programs.needs import need
from mlir_release.ground.programs.process import StepFailed, run_logged, tail, whole_log
from mlir_release.ground.storage.files import read_document

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

_VARIABLE = re.compile(r"(?P<quote>\"|')?@(?P<name>\w+)@")

#: lit's result codes. Source: lit/Test.py.
_OUTCOMES = {
    "PASS": TestOutcome.PASS,
    "FLAKYPASS": TestOutcome.PASS,
    "XFAIL": TestOutcome.EXPECTED_FAIL,
    "FAIL": TestOutcome.FAIL,
    "XPASS": TestOutcome.UNEXPECTED_PASS,
    "UNRESOLVED": TestOutcome.FAIL,
    "TIMEOUT": TestOutcome.FAIL,
    "UNSUPPORTED": TestOutcome.UNSUPPORTED,
    "SKIPPED": TestOutcome.UNSUPPORTED,
}

#: Seconds after which one test has failed, whatever the others do.
LIMIT = 2 * TIMEOUT

#: The reason of a failure that the test itself expects.
_EXPECTED = "upstream's test says that it fails here (XFAIL)"


def fill_in(template: str, values: Mapping[str, str]) -> str:
    """Replace ``@NAME@``. A name without a value becomes empty inside quotes and ``0`` outside."""

    def value(match: re.Match[str]) -> str:
        quote = match["quote"] or ""
        return quote + values.get(match["name"], "" if quote else "0")

    return _VARIABLE.sub(value, template)


#: Arguments by which an interpreter runs lit: pip's script has another name on Windows, and lit has no ``__main__``.
RUN_LIT = ("-c", "import sys; from lit.main import main; sys.exit(main())")


def find_lit() -> list[str]:
    """The command that runs lit in the toolkit's own interpreter. :raises MachineError: ``tool-missing``"""
    need("lit", "psutil")
    return [sys.executable, *RUN_LIT]


def run_lit(
    folder: Path,
    *,
    lit: Sequence[str | Path],
    environment: Mapping[str, str],
    title: str,
    only: Collection[str] = (),
    without: Collection[str] = (),
    limit: float | None = LIMIT,
) -> list[TestResult]:
    """Run lit on a configured folder, or a folder in one, and return one result a test, sorted by name.

    A failing test is a result, not an error.

    :param lit: the command that runs lit; upstream's tests take the interpreter that runs it for the one under test
    :param only: run these tests only (names below the folder of tests)
    :param without: leave these tests out
    :param limit: seconds after which a test has failed; None where lit's interpreter lacks psutil, by which it ends one
    :raises VerificationError: ``tests-failed``: lit itself did not get to the end
    """
    workdir = folder
    while workdir.name != "test":
        workdir = workdir.parent
    output = workdir / "lit.json"
    output.unlink(missing_ok=True)
    command = [*lit, "--quiet", "--output", output]
    command += [f"--timeout={limit:.0f}"] if limit else []
    command += ["--filter", _any_of(only)] if only else []
    command += ["--filter-out", _any_of(without)] if without else []
    command.append(folder)
    log = workdir / "lit.log"
    log.unlink(missing_ok=True)
    returncode = 0
    with console.waiting(title):
        try:
            run_logged(command, log=log, environment=environment, cwd=workdir)
        except StepFailed as failed:  # with a test's failure, too
            returncode = failed.returncode
    if not output.is_file():
        raise VerificationError(
            "tests-failed",
            "the test runner stopped before it had run the tests",
            where=str(log),
            why=tail(log, 15),
            remedy=f"lit ended with exit code {returncode}; {whole_log(log)}",
        )
    return read_results(parse_json(read_document(output, limit=BUILD_LIMIT), limit=BUILD_LIMIT))


def _any_of(names: Collection[str]) -> str:
    return f"({'|'.join(map(re.escape, sorted(names)))})$"


def read_results(data: Mapping[str, object]) -> list[TestResult]:
    """The results in lit's ``--output`` file. Names lose the suite's prefix (``MLIR :: ``)."""
    tests = data["tests"]
    assert isinstance(tests, list)
    return [
        TestResult(
            name=test["name"].partition(" :: ")[2].strip() or test["name"],
            outcome=_OUTCOMES.get(test["code"], TestOutcome.FAIL),
            seconds=float(test.get("elapsed") or 0.0),
            message={"PASS": "", "XFAIL": _EXPECTED}.get(test["code"], test.get("output", "")),
        )
        for test in sorted(tests, key=lambda test: str(test["name"]))
        if test["code"] != "EXCLUDED"
    ]
