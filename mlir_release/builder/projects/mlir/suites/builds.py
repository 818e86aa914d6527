"""The suites that build something: ``sdk`` against an installed SDK, ``source`` from a source distribution.

Both do what users do, in an empty environment without another LLVM, and end with the first step that fails, as each
step needs those before it.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.builder.model.names import parse_source, source_root
from mlir_release.builder.projects.mlir import AGAINST_SDK
from mlir_release.builder.projects.mlir.sdk_members import PACKAGE
from mlir_release.builder.projects.mlir.sdk_wheels import write_sdk_wheel
from mlir_release.builder.testing.port import TIMEOUT
from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.builder.tools.build_tools import BUILD_TOOLS, cmake_and_ninja
from mlir_release.builder.tools.compiler import find_compiler
from mlir_release.builder.wheels.inspect import corrupt
from mlir_release.builder.wheels.source import open_source
from mlir_release.ground.documents.decode import MalformedError, from_toml
from mlir_release.ground.programs.process import capture
from mlir_release.ground.programs.surroundings import foreign_environment
from mlir_release.ground.python import venv
from mlir_release.ground.python.locked import choose
from mlir_release.ground.python.platforms import executable_name
from mlir_release.ground.storage.archives import ArchiveError
from mlir_release.ground.storage.cache import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.ground.python.venv import VirtualEnvironment

#: Compiling and linking the example may take long on a busy machine; so may all bindings with one compiler at a time.
_EXAMPLE_TIMEOUT, _BINDINGS_TIMEOUT = 10 * TIMEOUT, 60 * TIMEOUT

#: Begins the message of a build without an SDK (``MLIRReleaseFindSdk.cmake``).
_NEEDS_SDK = "[source-needs-sdk]"

_FIRST_STEPS = "import mlir.ir as ir; print(ir.Module.parse('module {}', ir.Context()))"


def build_against(environment: VirtualEnvironment, workdir: Path, llvm_version: str) -> Iterator[TestResult]:
    """Configure a CMake project by the installed ``mlir-sdk``, compile and link it, and run the program.

    :raises MachineError: ``tool-missing``, and what :mod:`mlir_release.ground.python.venv` raises
    """
    find_compiler()
    cmake, ninja = cmake_and_ninja(cache_directory())
    installed = environment.site_packages() / PACKAGE
    packages, build = installed / "lib" / "cmake" / "mlir", workdir / "against-sdk"
    shutil.rmtree(build, ignore_errors=True)  # of an earlier run, perhaps with another SDK
    settings = (f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DMLIR_DIR={packages}")
    steps: tuple[tuple[str, list[str | Path], str], ...] = (
        ("tells-where", [environment.python, "-I", "-m", PACKAGE, "--cmakedir"], str(packages.resolve())),
        ("generates-code", [installed / "bin" / executable_name("mlir-tblgen"), "--version"], llvm_version),
        ("llvm-config", [environment.scripts / executable_name("llvm-config"), "--libs", "MLIRCAPIIR"], "MLIRCAPIIR"),
        ("configures", [cmake, "-G", "Ninja", "-S", AGAINST_SDK, "-B", build, *settings], ""),
        ("builds", [cmake, "--build", build], ""),
        ("runs", [build / executable_name("against-sdk")], "module {"),
    )
    for name, command, prints in steps:
        result = _step(name, command, environment, prints=prints)
        yield result
        if not result.outcome.good:
            return


def run_test_programs(environment: VirtualEnvironment, llvm_version: str) -> Iterator[TestResult]:
    """Run the programs of the installed ``mlir-test-tools``, as tests do."""
    check, count, invert, split = (
        environment.scripts / executable_name(name) for name in ("FileCheck", "count", "not", "split-file")
    )
    expects = environment.root / "mlir-test-tools.txt"
    expects.write_text("CHECK: one\nCHECK-NEXT: two\n", encoding="utf-8")
    yield _step("FileCheck", [check, "--version"], environment, prints=llvm_version)
    yield _step("finds", [check, expects], environment, reads="one\ntwo\n")
    yield _step("misses", [invert, check, expects], environment, reads="one\n")
    yield _step("counts", [count, "2"], environment, reads="one\ntwo\n")
    yield _step("split-file", [split, "--version"], environment, prints=llvm_version)


def run_programs(environment: VirtualEnvironment, llvm_version: str) -> Iterator[TestResult]:
    """Run programs of the installed ``mlir-sdk-tools``."""
    for name in ("mlir-opt", "mlir-translate", "FileCheck"):
        program = environment.scripts / executable_name(name)
        yield _step(name, [program, "--version"], environment, prints=llvm_version)
    opt: list[str | Path] = [environment.scripts / executable_name("mlir-opt"), "--canonicalize"]
    yield _step("round-trip", opt, environment, prints="module {", reads="module {}")


def build_from(source: Path, *, sdk: Sdk, python: Path, workdir: Path) -> Iterator[TestResult]:
    """Check the metadata; build without an SDK, which must say what is missing; then with ``mlir-sdk``; then import."""
    check: list[str | Path] = [sys.executable, "-m", "twine", "check", "--strict", source]
    yield _step("metadata", check, None)

    environment = venv.create(workdir / "build", python, pip=True)
    environment.install_locked(choose((*BUILD_TOOLS, *requirements_of(source))))
    built = workdir / "built"
    shutil.rmtree(built, ignore_errors=True)  # of an earlier run
    pip = ("-I", "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    command: list[str | Path] = [environment.python, *pip, "--wheel-dir", built, source]
    refused = _step("says-what-is-missing", command, environment, refuses=_NEEDS_SDK, timeout=_BINDINGS_TIMEOUT)
    yield refused
    if any(built.glob("*.whl")):  # built without an SDK
        return

    _, version = parse_source(source.name)
    environment.install("--no-deps", write_sdk_wheel(sdk, str(version), output=workdir / "sdk"))
    done = _step("builds-with-mlir-sdk", command, environment, timeout=_BINDINGS_TIMEOUT)
    yield done
    if not done.outcome.good:
        return

    user = venv.create(workdir / "environment", python)
    user.install(*built.glob("*.whl"))
    yield _step("imports", [user.python, "-I", "-c", _FIRST_STEPS], user, prints="module {")


class _BuildSystem(Struct, frozen=True):
    requires: tuple[str, ...]


class _Project(Struct, frozen=True, rename="kebab"):
    """The part of ``pyproject.toml`` that is read."""

    build_system: _BuildSystem


def requirements_of(source: Path) -> list[str]:
    """The requirements of building a source distribution: ``[build-system] requires``.

    :raises VerificationError: ``file-damaged``
    """
    root = source_root(source.name)
    try:
        with open_source(source) as archive:
            texts = [archive.read(member) for member in archive if member.name == f"{root}/pyproject.toml"]
        return list(from_toml(texts[0] if texts else b"", _Project).build_system.requires)
    except (ArchiveError, MalformedError) as error:
        raise corrupt(source, f"pyproject.toml: {error}") from error


def _step(
    name: str,
    command: Sequence[str | Path],
    environment: VirtualEnvironment | None,
    *,
    prints: str = "",
    reads: str = "",
    refuses: str = "",
    timeout: float = _EXAMPLE_TIMEOUT,
) -> TestResult:
    """Run a command, which must succeed and print something, or fail and say why.

    :param reads: its standard input
    :param refuses: it must fail, and say this; empty: it must not fail
    """
    variables = environment.variables() if environment else foreign_environment()
    variables.pop("MLIR_RELEASE_SDK", None)  # users have none
    start = time.monotonic()
    done = capture(command, environment=variables, text=reads, timeout=timeout)
    said = f"{done.ending}\n{done.stdout}{done.stderr}"
    passed = (not done.ok and refuses in said) if refuses else (done.ok and prints in done.stdout)
    silent = f"did not print {prints!r}: " if done.ok and not refuses else ""
    return TestResult(
        name=name,
        outcome=TestOutcome.PASS if passed else TestOutcome.FAIL,
        seconds=time.monotonic() - start,
        message="" if passed else silent + said,
    )
