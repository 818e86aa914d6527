"""The type information of a wheel (PEP 561), as mypy sees it from outside.

An ordinary program must run and have no type errors; a wrong one must be refused, error by error, so that a package
that type checkers ignore does not pass. mypy runs with the toolkit's own CPython, so that one environment serves the
wheels of all CPythons, and reads the wheel where it is installed.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.builder.model.orders import LOCAL_TAG
from mlir_release.builder.projects.mlir import TYPES
from mlir_release.builder.testing.port import TIMEOUT
from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.llvm.llvm_version import base_version
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python import venv
from mlir_release.ground.storage.cache import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.builder.model.wheel_info import WheelInfo
    from mlir_release.ground.programs.process import Captured
    from mlir_release.ground.python.venv import VirtualEnvironment

#: In a wrong program, at the end of a line: the code of the error that mypy must report for it.
_EXPECTED = re.compile(r"  # type-error: ([a-z-]+)$")

#: The first LLVM whose wheels are typed.
_FIRST_TYPED = 22

#: A program that needs the execution engine.
_ENGINE = "engine.py"


class _Finding(Struct, frozen=True):
    """A line of ``mypy --output json``."""

    line: int
    message: str
    severity: str
    code: str | None = None


def check_types(
    environment: VirtualEnvironment,
    workdir: Path,
    *,
    llvm_version: str,
    release: WheelInfo | None,
    checker: VirtualEnvironment | None = None,
) -> Iterator[TestResult]:
    """Check an installed wheel's stubs, then with mypy the programs in
    :data:`~mlir_release.builder.projects.mlir.TYPES`.

    :param workdir: folder for the programs and for what mypy keeps
    :param checker: has mypy; default: one in the cache
    :raises MachineError: what :mod:`mlir_release.ground.python.venv` raises
    """
    package = environment.site_packages() / "mlir"
    if reason := _untyped(package, llvm_version, release):
        yield TestResult(name="types", outcome=TestOutcome.UNSUPPORTED, message=reason)
        return
    missing = modules_without_stubs(package)
    yield _result("types/stubs", f"extension modules without a stub: {', '.join(missing)}" if missing else "")
    folder = workdir / "types"
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier run
    shutil.copytree(TYPES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    checker = checker or venv.cached(cache_directory() / "environments", Path(sys.executable), ["mypy"])
    for program in sorted(folder.glob("*.py")):
        if program.name == _ENGINE and not (package / "execution_engine.py").is_file():
            continue
        start = time.monotonic()
        # Without any configuration of this machine.
        variables = checker.variables({"MYPY_CACHE_DIR": str(folder / "cache")})
        command: list[str | Path] = [checker.python, "-I", "-m", "mypy", "--config-file=", "--output=json"]
        command += ["--python-executable", environment.python, program.name]
        problem = _judge(program, capture(command, environment=variables, cwd=folder, timeout=TIMEOUT))
        if not problem and not _expected(program):
            done = capture([environment.python, "-I", program], environment=environment.variables(), timeout=TIMEOUT)
            problem = "" if done.ok else f"mypy accepts it, and it does not run: {done.ending}\n{done.stderr}"
        yield _result(f"types/{program.stem}", problem, time.monotonic() - start)


def modules_without_stubs(package: Path) -> list[str]:
    """The names of extension modules in the installed package that have no stub."""
    libraries = package / "_mlir_libs"
    names = {path.name.partition(".")[0] for path in libraries.glob("_mlir*.*") if path.suffix in {".so", ".pyd"}}
    described = {path.stem for path in libraries.glob("*.pyi")} | {
        path.parent.name for path in libraries.glob("*/__init__.pyi")
    }
    return sorted(names - described)


def _untyped(package: Path, llvm_version: str, release: WheelInfo | None) -> str:
    """Why the wheel need not have type information; empty if it must (``MLIRReleaseStubs.cmake``)."""
    if base_version(llvm_version)[0] < _FIRST_TYPED:
        return f"wheels of LLVM {llvm_version} are not marked as typed: upstream's stubs describe the core module only"
    local = release is not None and release.tag == LOCAL_TAG
    if local and not (package / "py.typed").exists() and len(modules_without_stubs(package)) > 1:
        return "this local build has no stubs, as cross builds have none"
    return ""


def _expected(program: Path) -> set[tuple[int, str]]:
    """The errors that mypy must report: line and code."""
    lines = program.read_text(encoding="utf-8").splitlines()
    found = ((number, _EXPECTED.search(line)) for number, line in enumerate(lines, 1))
    return {(number, match[1]) for number, match in found if match}


def _judge(program: Path, done: Captured) -> str:
    """What is wrong with mypy's answer; empty if it is as expected."""
    try:
        findings = [from_json(line, _Finding) for line in done.stdout.splitlines()]
    except MalformedError:
        findings = []
    errors = {(finding.line, finding.code or ""): finding for finding in findings if finding.severity == "error"}
    if done.returncode not in (0, 1) or (done.returncode == 1) != bool(errors):
        return f"mypy did not check {program.name}: {done.ending}\n{done.stdout}{done.stderr}"
    expected = _expected(program)
    false = [f"{program.name}:{line}: {errors[line, code].message} [{code}]" for line, code in errors]
    problems = [text for text, key in zip(false, errors, strict=True) if key not in expected]
    missed = [f"{program.name}:{line}: mypy does not report {code}" for line, code in sorted(expected - errors.keys())]
    return "\n".join([*problems, *missed])


def _result(name: str, problem: str, seconds: float = 0.0) -> TestResult:
    outcome = TestOutcome.FAIL if problem else TestOutcome.PASS
    return TestResult(name=name, outcome=outcome, seconds=seconds, message=problem)
