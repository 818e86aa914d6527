"""Counting with the real valgrind, on a made-up wheel and a small program in the place of the corpus."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from mlir_release.builder.projects.mlir.suites import measuring
from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.ground.python import venv
from tests.wheel_factory import make_wheel

needs_valgrind = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("valgrind") is None, reason="NOT COUNTED: there is no valgrind"
)

PROGRAM = """
import json, os, sys
def tell(name, **found):
    process = 0
    if sys.argv[1:] == ["counting"] and name != "end":
        process = os.fork()
        if process == 0:
            os._exit(0)
        os.waitpid(process, 0)
    print(json.dumps(dict(found, name=name, process=process)), flush=True)
tell("start")
print("what a library prints")
sum(range(COUNT))
tell("parse")
SECOND
tell("lower")
tell("jit", missing="no such module")
tell("end", peak=123456)
"""


@pytest.fixture
def environment(tmp_path: Path) -> venv.VirtualEnvironment:
    return venv.create(tmp_path / "environment", Path(sys.executable))


def measure(
    environment: venv.VirtualEnvironment,
    folder: Path,
    *,
    count: int = 10_000,
    second: str = "",
    limit: float = 600.0,
) -> dict[str, TestResult]:
    program = folder / "measure.py"
    program.write_text(PROGRAM.replace("COUNT", str(count)).replace("SECOND", second))
    library = "mlir/_mlir_libs/libMLIRPythonCAPI-mlir_release.so"
    wheel = make_wheel(folder / "wheel", files={"mlir/ir.py": b"", library: b"x" * 5000})
    return {result.name: result for result in measuring.measure(environment, wheel, folder, program, limit)}


@needs_valgrind
def test_the_same_work_is_the_same_number_and_more_work_a_larger_one(
    environment: venv.VirtualEnvironment, tmp_path: Path
) -> None:
    found = [measure(environment, tmp_path, count=count) for count in (20_000, 20_000, 40_000)]
    first, again, twice = (results["parse"].measure or 0 for results in found)
    assert first > 20_000
    assert abs(first - again) <= first / 1000
    assert 1.5 < twice / first < 2.5
    results = found[0]
    assert results["jit"].outcome is TestOutcome.UNSUPPORTED
    assert results["jit"].message == "no such module"
    assert results["capi-library-bytes"].measure == 5000
    assert results["peak-memory-bytes"].measure == 123456
    assert all(result.outcome.good for result in results.values())


@needs_valgrind
@pytest.mark.parametrize(
    ("second", "said"), [("os.abort()", "ended after parse: exit code -"), ("raise SystemExit(3)", "exit code 3")]
)
def test_a_phase_that_ends_the_process_leaves_the_counts_before_it(
    environment: venv.VirtualEnvironment, tmp_path: Path, second: str, said: str
) -> None:
    results = measure(environment, tmp_path, second=second)
    assert results["parse"].measure
    assert "lower" not in results
    assert results["runs-to-the-end"].outcome is TestOutcome.FAIL
    assert said in results["runs-to-the-end"].message


@needs_valgrind
def test_a_phase_that_fails_says_why_and_the_next_is_measured(
    environment: venv.VirtualEnvironment, tmp_path: Path
) -> None:
    results = measure(environment, tmp_path, second='tell("print", problem="Traceback: it broke")')
    assert (results["print"].outcome, results["print"].message) == (TestOutcome.FAIL, "Traceback: it broke")
    assert results["lower"].measure


def test_without_valgrind_the_rest_is_measured_and_the_suite_says_so(
    environment: venv.VirtualEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    results = measure(environment, tmp_path)
    assert results["instructions"].outcome is TestOutcome.UNSUPPORTED
    assert results["wheel-bytes"].measure
    assert results["peak-memory-bytes"].measure
    assert all(result.outcome.good for result in results.values())


@pytest.mark.parametrize(
    ("script", "name", "said"),
    [
        ("exec sleep 60", "instructions", "no answer within"),
        ("echo it needs a newer kernel >&2; exit 1", "instructions", "it needs a newer kernel"),
        ('echo \'{"name": "start"}\'; kill -9 $$', "runs-to-the-end", "ended after start: exit code -9"),
        # Counts that go backwards, files that are not there, and numbers that nobody counted.
        (
            "out=${3#--cachegrind-out-file=}; out=${out%/*}; echo 'summary: 9' > $out/1; echo 'summary: 5' > $out/2\n"
            'echo \'{"name": "start", "process": 1}\'; echo \'{"name": "parse", "process": 2}\'',
            "parse",
            "valgrind left no count of it",
        ),
        (
            'echo \'{"name": "start", "process": 1}\'; echo \'{"name": "parse", "process": 7}\'',
            "parse",
            "valgrind left no count of it",
        ),
        (  # a line with such numbers counts as what others print
            'echo \'{"name": "start"}\'; echo \'{"name": "parse", "process": -7}\'\n'
            'echo \'{"name": "end", "peak": 1e99}\'',
            "runs-to-the-end",
            "ended after start",
        ),
    ],
)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts on Linux only")
def test_a_valgrind_that_hangs_dies_or_lies(
    environment: venv.VirtualEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    name: str,
    said: str,
) -> None:
    valgrind = tmp_path / "bin" / "valgrind"
    valgrind.parent.mkdir()
    valgrind.write_text(f"#!/bin/sh\n{script}\n")
    valgrind.chmod(0o755)
    monkeypatch.setenv("PATH", f"{valgrind.parent}:/usr/bin:/bin")
    results = measure(environment, tmp_path, limit=3.0)
    assert said in results[name].message
    assert results[name].measure is None
    assert results["peak-memory-bytes"].measure == 123456  # which needs no valgrind
