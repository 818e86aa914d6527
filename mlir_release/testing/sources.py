"""The suite ``source``: a source distribution, built in empty environments as its users would."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.host import venv
from mlir_release.host.archives import ArchiveError
from mlir_release.host.build_tools import BUILD_TOOLS
from mlir_release.host.locked import choose
from mlir_release.host.process import Captured, capture
from mlir_release.host.surroundings import foreign_environment
from mlir_release.model.decode import MalformedError, from_toml
from mlir_release.model.names import parse_source, source_root
from mlir_release.testing.mlir import TIMEOUT
from mlir_release.testing.report import TestOutcome, TestResult
from mlir_release.wheels.inspect import corrupt
from mlir_release.wheels.sdk_wheels import write_sdk_wheel
from mlir_release.wheels.source import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.host.venv import VirtualEnvironment
    from mlir_release.sdk.info import Sdk

#: Compiling all bindings with one compiler at a time, on a busy machine.
_BUILD_TIMEOUT = 60 * TIMEOUT

#: What begins the message of a build without an SDK (``MLIRReleaseFindSdk.cmake``).
_NEEDS_SDK = "[source-needs-sdk]"

_FIRST_STEPS = "import mlir.ir as ir; print(ir.Module.parse('module {}', ir.Context()))"


def build_from(source: Path, *, sdk: Sdk, python: Path, workdir: Path) -> Iterator[TestResult]:
    """Check the metadata; build without an SDK, which must say what is missing; then with ``mlir-sdk``; then import.

    Ends with the first step that fails, as each needs those before it.
    """
    _, version = parse_source(source.name)
    pip = ("-I", "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    built = workdir / "built"
    start = time.monotonic()
    yield _result("metadata", start, _run([Path(sys.executable), "-m", "twine", "check", "--strict", source]))

    start = time.monotonic()
    environment = venv.create(workdir / "build", python, pip=True)
    environment.install_locked(choose((*BUILD_TOOLS, *requirements_of(source))))
    command: list[str | Path] = [environment.python, *pip, "--wheel-dir", built, source]
    refused = _run(command, environment)
    yield _result("says-what-is-missing", start, refused, passed=not refused.ok and _NEEDS_SDK in _said(refused))
    if refused.ok:
        return

    start = time.monotonic()
    environment.install("--no-deps", write_sdk_wheel(sdk, str(version), output=workdir / "sdk"))
    done = _run(command, environment)
    yield _result("builds-with-mlir-sdk", start, done)
    if not done.ok:
        return

    start = time.monotonic()
    user = venv.create(workdir / "environment", python)
    user.install(*built.glob("*.whl"))
    imported = _run([user.python, "-I", "-c", _FIRST_STEPS], user)
    yield _result("imports", start, imported, passed=imported.ok and "module {" in imported.stdout)


class _BuildSystem(Struct, frozen=True):
    requires: tuple[str, ...]


class _Project(Struct, frozen=True, rename="kebab"):
    """What is read of ``pyproject.toml``."""

    build_system: _BuildSystem


def requirements_of(source: Path) -> list[str]:
    """What building a source distribution needs: ``[build-system] requires``.

    :raises VerificationError: ``file-damaged``
    """
    root = source_root(source.name)
    try:
        with open_source(source) as archive:
            texts = [archive.read(member) for member in archive if member.name == f"{root}/pyproject.toml"]
        return list(from_toml(texts[0] if texts else b"", _Project).build_system.requires)
    except (ArchiveError, MalformedError) as error:
        raise corrupt(source, f"pyproject.toml: {error}") from error


def _run(command: Sequence[str | Path], environment: VirtualEnvironment | None = None) -> Captured:
    variables = environment.variables() if environment else foreign_environment()
    variables.pop("MLIR_RELEASE_SDK", None)  # users have none
    return capture(command, environment=variables, timeout=_BUILD_TIMEOUT)


def _said(done: Captured) -> str:
    return f"{done.ending}\n{done.stdout}{done.stderr}"


def _result(name: str, start: float, done: Captured, *, passed: bool | None = None) -> TestResult:
    passed = done.ok if passed is None else passed
    return TestResult(
        name=name,
        outcome=TestOutcome.PASS if passed else TestOutcome.FAIL,
        seconds=time.monotonic() - start,
        message="" if passed else _said(done),
    )
