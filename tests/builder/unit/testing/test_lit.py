from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.builder.model.orders import TARGET_MINUTES
from mlir_release.builder.testing.lit import LIMIT, RUN_LIT, fill_in, find_lit, read_results, run_lit
from mlir_release.builder.testing.report import TestOutcome
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.testing.report import TestResult


def test_names_without_a_value_are_empty_or_off() -> None:
    template = 'a = "@A@"\nb = @B@\nc = "x@C@y"\nd = @D@\ne = r"@E@"\n'
    assert fill_in(template, {"A": "one", "D": "1"}) == 'a = "one"\nb = 0\nc = "x0y"\nd = 1\ne = r""\n'


def test_results_are_read() -> None:
    codes = ["PASS", "FAIL", "XFAIL", "XPASS", "UNSUPPORTED", "UNRESOLVED", "TIMEOUT", "NEWCODE", "EXCLUDED"]
    tests = [{"name": f"MLIR :: python/{code}.py", "code": code, "elapsed": 1.5, "output": "said"} for code in codes]
    results = {result.name: result for result in read_results({"tests": tests})}
    assert {name: result.outcome for name, result in results.items()} == {
        "python/PASS.py": TestOutcome.PASS,
        "python/FAIL.py": TestOutcome.FAIL,
        "python/XFAIL.py": TestOutcome.EXPECTED_FAIL,
        "python/XPASS.py": TestOutcome.UNEXPECTED_PASS,
        "python/UNSUPPORTED.py": TestOutcome.UNSUPPORTED,
        "python/UNRESOLVED.py": TestOutcome.FAIL,
        "python/TIMEOUT.py": TestOutcome.FAIL,
        "python/NEWCODE.py": TestOutcome.FAIL,
    }
    assert results["python/FAIL.py"].message == "said"
    assert results["python/PASS.py"].message == ""
    assert results["python/XFAIL.py"].message == "upstream's test says that it fails here (XFAIL)"


CONFIGURATION = """
import lit.formats
config.name = "Own"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".txt"]
config.excludes = []
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "test"
    folder.mkdir()
    (folder / "lit.site.cfg.py").write_text(CONFIGURATION)
    (folder / "good.txt").write_text("RUN: echo good\n")
    (folder / "bad.txt").write_text("RUN: echo the reason\nRUN: false\n")
    return folder


def run_own(suite: Path, **options: Any) -> list[TestResult]:
    return run_lit(suite, lit=find_lit(), environment=os.environ, title="own", **options)


def test_lit_really_runs(suite: Path) -> None:
    results = run_own(suite)
    assert [(result.name, result.outcome) for result in results] == [
        ("bad.txt", TestOutcome.FAIL),
        ("good.txt", TestOutcome.PASS),
    ]
    assert "the reason" in results[0].message


def test_some_tests_only_and_all_others(suite: Path) -> None:
    assert [result.name for result in run_own(suite, only=["good.txt"])] == ["good.txt"]
    assert [result.name for result in run_own(suite, without=["good.txt"])] == ["bad.txt"]


def test_a_test_that_hangs_is_one_failure_and_the_others_run(suite: Path) -> None:
    (suite / "hangs.txt").write_text("RUN: echo begun\nRUN: sleep 600\n")
    results = run_own(suite, limit=2)
    assert [result.name for result in results] == ["bad.txt", "good.txt", "hangs.txt"]
    assert results[2].outcome is TestOutcome.FAIL
    assert "Reached timeout of 2 seconds" in results[2].message
    assert results[2].seconds < 60
    assert LIMIT < 60 * TARGET_MINUTES / 4  # so that several tests may hang within a target's limit


def test_lit_that_stumbles(suite: Path) -> None:
    (suite / "lit.site.cfg.py").write_text("raise ValueError('broken configuration')")
    error = refused(lambda: run_own(suite), "tests-failed", "stopped")
    assert "broken configuration" in error.why


def test_an_interpreter_runs_lit_where_there_is_no_script() -> None:
    done = subprocess.run([sys.executable, *RUN_LIT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("lit ")
    failed = subprocess.run([sys.executable, *RUN_LIT, "there-is-no-such-folder"], capture_output=True, check=False)
    assert failed.returncode != 0
