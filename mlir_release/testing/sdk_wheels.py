"""The suite ``sdk``: what the wheels of an SDK are for, tried in an empty environment without another LLVM."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.host.build_tools import cmake_and_ninja
from mlir_release.host.cache import cache_directory
from mlir_release.host.compiler import find_compiler
from mlir_release.host.process import capture
from mlir_release.model.platforms import executable_name
from mlir_release.projects.mlir import AGAINST_SDK
from mlir_release.testing.mlir import TIMEOUT
from mlir_release.testing.report import TestOutcome, TestResult
from mlir_release.wheels.sdk_members import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from mlir_release.host.venv import VirtualEnvironment

#: Compiling and linking the example may take long on a busy machine.
_BUILD_TIMEOUT = 10 * TIMEOUT


@dataclass(frozen=True)
class _Step:
    """A command that must succeed and print something."""

    name: str
    command: Sequence[str | Path]
    prints: str = ""
    reads: str = ""  #: standard input


def build_against(environment: VirtualEnvironment, workdir: Path, llvm_version: str) -> Iterator[TestResult]:
    """Configure a CMake project by the installed ``mlir-sdk``, compile and link it, and run what comes of it.

    Ends with the first step that fails, as each needs those before it.

    :raises MachineError: ``tool-missing``, and what :mod:`mlir_release.host.venv` raises
    """
    find_compiler()
    cmake, ninja = cmake_and_ninja(cache_directory())
    installed = environment.site_packages() / PACKAGE
    packages, build = installed / "lib" / "cmake" / "mlir", workdir / "against-sdk"
    shutil.rmtree(build, ignore_errors=True)  # of an earlier run, perhaps with another SDK
    settings = (f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DMLIR_DIR={packages}")
    steps = (
        _Step("tells-where", [environment.python, "-I", "-m", PACKAGE, "--cmakedir"], str(packages.resolve())),
        _Step("generates-code", [installed / "bin" / executable_name("mlir-tblgen"), "--version"], llvm_version),
        _Step("configures", [cmake, "-G", "Ninja", "-S", AGAINST_SDK, "-B", build, *settings]),
        _Step("builds", [cmake, "--build", build]),
        _Step("runs", [build / executable_name("against-sdk")], "module {"),
    )
    for step in steps:
        result = _run(step, environment)
        yield result
        if not result.outcome.good:
            return


def run_programs(environment: VirtualEnvironment, llvm_version: str) -> Iterator[TestResult]:
    """Run programs of the installed ``mlir-sdk-tools``."""
    opt, translate, check = (
        environment.scripts / executable_name(name) for name in ("mlir-opt", "mlir-translate", "FileCheck")
    )
    for step in (
        _Step("mlir-opt", [opt, "--version"], llvm_version),
        _Step("mlir-translate", [translate, "--version"], llvm_version),
        _Step("FileCheck", [check, "--version"], llvm_version),
        _Step("round-trip", [opt, "--canonicalize"], "module {", reads="module {}"),
    ):
        yield _run(step, environment)


def _run(step: _Step, environment: VirtualEnvironment) -> TestResult:
    start = time.monotonic()
    variables = environment.variables()
    done = capture(step.command, environment=variables, text=step.reads, timeout=_BUILD_TIMEOUT)
    passed = done.ok and step.prints in done.stdout
    said = f"{done.ending}\n{done.stdout}{done.stderr}"
    return TestResult(
        name=step.name,
        outcome=TestOutcome.PASS if passed else TestOutcome.FAIL,
        seconds=time.monotonic() - start,
        message="" if passed else f"{f'did not print {step.prints!r}: ' if done.ok else ''}{said}",
    )
