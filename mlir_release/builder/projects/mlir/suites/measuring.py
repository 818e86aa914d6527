"""The suite ``performance``: instructions that a fixed amount of work takes with an installed wheel, memory and sizes.

Not seconds, which vary by half on shared runners. valgrind's cachegrind counts: in one folder the same wheel gives the
same numbers, to the last digit. ``perf`` would be faster, but virtual machines such as GitHub's have no such counters.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.builder.model.test_report import PEAK_MEMORY, Measure
from mlir_release.builder.projects.mlir import MEASURE
from mlir_release.builder.testing.report import TestOutcome, TestResult, cut_short, read_lines
from mlir_release.ground.programs.process import capture
from mlir_release.ground.storage.archives import open_zip
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.ground.programs.process import Captured
    from mlir_release.ground.python.venv import VirtualEnvironment

#: Sizes of blocks and hashes of addresses depend on the environment's length; its content may change what is loaded.
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}

#: The count in cachegrind's file. Source: valgrind's manual, "Cachegrind: Output File Format".
_SUMMARY = re.compile(r"^summary: (\d{1,15})$", re.MULTILINE)

_LIBRARY = re.compile(r"(?:lib)?MLIRPythonCAPI-\w+\.(?:so|dylib|dll)")


class _MeasureLine(Struct, frozen=True):
    """A line of the measuring program's."""

    name: str
    process: Measure = 0
    problem: str = ""
    missing: str = ""
    peak: Measure = 0


def measure(
    environment: VirtualEnvironment, wheel: Path, workdir: Path, program: Path = MEASURE, limit: float = 600.0
) -> Iterator[TestResult]:
    """Measure a wheel that is installed; each measure is a result.

    :param wheel: its file, which was inspected before
    :param workdir: the program runs in it
    :param limit: seconds of a run. It takes 20 under valgrind on one busy core, and one without.
    """
    with open_zip(wheel) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    yield _result("wheel-bytes", wheel.stat().st_size)
    yield _result("unpacked-bytes", sum(sizes.values()))
    for name, size in sizes.items():
        if _LIBRARY.fullmatch(PurePosixPath(name).name):
            yield _result("capi-library-bytes", size)
    variables = {name: value for name, value in environment.variables().items() if name == "LD_LIBRARY_PATH"}
    command: list[str | Path] = [environment.python, "-s", "-B", program]
    done = capture(command, environment=variables | _ENVIRONMENT, cwd=workdir, timeout=limit)
    lines = read_lines(done.stdout, _MeasureLine)
    if not _ended_well(lines, done):
        yield cut_short(lines, done)
    elif lines[-1].peak:
        yield _result(PEAK_MEMORY, lines[-1].peak)
    valgrind = shutil.which("valgrind")
    if valgrind is None or not sys.platform.startswith("linux"):
        why = "there is no valgrind" if sys.platform.startswith("linux") else "they are counted on Linux only"
        yield TestResult(name="instructions", outcome=TestOutcome.UNSUPPORTED, message=why)
        return
    with scratch_folder("count") as scratch:
        counting = [valgrind, "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={scratch}/%p"]
        done = capture(
            [*counting, *command, "counting"], environment=variables | _ENVIRONMENT, cwd=workdir, timeout=limit
        )
        yield from _counts(done, scratch)


def _counts(done: Captured, folder: Path) -> Iterator[TestResult]:
    """The instructions of each phase: what was counted up to its end, without what was up to the end of the one before.

    :param folder: of cachegrind's files, each named after its process
    """
    lines = read_lines(done.stdout, _MeasureLine)
    if not lines:  # not even the interpreter ran
        why = f"valgrind can't run it: {done.ending}\n{done.stderr}"
        yield TestResult(name="instructions", outcome=TestOutcome.UNSUPPORTED, message=why)
        return
    before = _count(folder, lines[0])
    for line in lines[1:]:
        if line.name == "end":
            continue
        count = _count(folder, line)
        if line.missing:
            yield TestResult(name=line.name, outcome=TestOutcome.UNSUPPORTED, message=line.missing)
        elif line.problem or count is None or before is None or count < before:
            why = line.problem or "valgrind left no count of it"
            yield TestResult(name=line.name, outcome=TestOutcome.FAIL, message=why)
        else:
            yield _result(line.name, count - before)
        before = count
    if not _ended_well(lines, done):
        yield cut_short(lines, done)


def _count(folder: Path, line: _MeasureLine) -> int | None:
    """What was counted until a process was forked; None if its file has no count."""
    try:
        found = _SUMMARY.search((folder / str(line.process)).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return int(found[1]) if found else None


def _ended_well(lines: list[_MeasureLine], done: Captured) -> bool:
    return done.ok and bool(lines) and lines[-1].name == "end"


def _result(name: str, value: int) -> TestResult:
    return TestResult(name=name, outcome=TestOutcome.PASS, measure=value)
