"""The suites of MLIR's Python bindings: see :mod:`mlir_release.builder.testing.port`.

- ``smoke``: besides the smoke test, the wheel's type information, and our pinned behaviours
- ``bindings``: upstream's ``mlir/test/python`` on the installed wheel, and, where a test needs it, a test-only add-on
- ``regression``: upstream's whole ``mlir/test`` and our pinned behaviours, with the SDK's tools; needs no wheel
- ``sdk``: a wheel of the SDK alone in an empty environment: a program is built against it, or its programs run
- ``performance``: instructions, memory and sizes of the wheel; a failure keeps nothing from being published
- ``beside``: what people install next to the wheel, before and after it in one process; keeps nothing back, either
- ``source``: a source distribution makes a wheel with ``mlir-sdk``; without, the build says what is missing
"""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.model.sdk_wheel_info import SDK_TOOLS, package_of
from mlir_release.builder.projects.mlir.sdk_members import PACKAGE
from mlir_release.builder.projects.mlir.suites.behaviours import ToolsMlir, WheelMlir, run_cases
from mlir_release.builder.projects.mlir.suites.beside import run_beside
from mlir_release.builder.projects.mlir.suites.builds import build_against, build_from, run_programs, run_test_programs
from mlir_release.builder.projects.mlir.suites.lit_site import LitSetup, write_site_configuration
from mlir_release.builder.projects.mlir.suites.measuring import measure
from mlir_release.builder.projects.mlir.suites.type_checks import check_types
from mlir_release.builder.sdk.parts import BUILD, TOOLS
from mlir_release.builder.sdk.programs import link_or_copy
from mlir_release.builder.testing import lit
from mlir_release.builder.testing.port import Suite
from mlir_release.builder.testing.report import TestOutcome, TestResult
from mlir_release.ground.errors import MachineError
from mlir_release.ground.llvm.llvm_version import base_version
from mlir_release.ground.programs.surroundings import foreign_environment
from mlir_release.ground.python.locked import choose
from mlir_release.ground.python.requirements import of_other_names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mlir_release.builder.testing.port import SuiteSubject
    from mlir_release.ground.python.platforms import Platform
    from mlir_release.ground.python.venv import VirtualEnvironment

#: Tests that use upstream's test dialect, which is not in the wheel.
NEED_TEST_DIALECT = (
    "python/dialects/python_test.py",
    "python/ir/diagnostic_handler.py",
    "python/multithreaded_tests.py",
)


def smoke(subject: SuiteSubject) -> list[TestResult]:
    """The checks of types and the pinned behaviours, with the installed wheel."""
    assert subject.environment is not None
    version = subject.sdk.info.llvm_version
    types = check_types(subject.environment, subject.workdir, llvm_version=version, release=subject.release)
    mlir = WheelMlir(
        python=subject.environment.python,
        environment=subject.environment.variables(),
        tools=subject.sdk.tools if subject.sdk.has(TOOLS) else None,
    )
    return [*types, *run_cases(mlir, version)]


def bindings(subject: SuiteSubject) -> list[TestResult]:
    """Upstream's Python tests, with FileCheck, at the SDK's revision, on the wheel as it is shipped.

    Only the few tests that use upstream's test dialect run with the add-on laid over a copy: it brings a C API library
    of its own, so whatever runs with it does not test the shipped one.
    """
    assert subject.environment is not None
    needing = [name for name in NEED_TEST_DIALECT if (subject.sdk.source / "test" / name).is_file()]
    results = _bindings(subject, subject.environment, "bindings", without=needing)
    if subject.addon is not None:
        copy = subject.with_addon()
        results += _bindings(subject, copy, "bindings-with-addon", only=needing)
    else:
        why = "needs upstream's test dialect: the add-on was not given"
        results += [TestResult(name=name, outcome=TestOutcome.UNSUPPORTED, message=why) for name in needing]
    return sorted(results, key=lambda result: result.name)


def _bindings(
    subject: SuiteSubject,
    environment: VirtualEnvironment,
    name: str,
    *,
    only: Collection[str] = (),
    without: Collection[str] = (),
) -> list[TestResult]:
    from importlib.metadata import version

    # lit runs in the environment, too: upstream's configuration asks the interpreter that runs it what there is.
    # What came with the wheel stays, so that the tests run with what users get.
    beyond = of_other_names(subject.project.test_requirements, environment.installed())
    environment.install_locked(choose([f"lit=={version('lit')}", *beyond]))
    with suppress(MachineError):  # no wheel of it for every CPython, by whose psutil lit ends a test
        environment.install_locked(choose([f"psutil=={version('psutil')}"]))
    libraries = environment.site_packages() / "mlir" / "_mlir_libs"
    generators = subject.project.profile(subject.profile or "host").code_generators
    setup = LitSetup(
        sdk=subject.sdk,
        python=environment.python,
        bindings=True,
        code_generators=generators or (),
        execution_engine=generators is not None,
        stable_abi=subject.release is not None and bool(subject.release.serves),
        libraries=libraries,
    )
    build = subject.workdir / name / "build"
    folder = write_site_configuration(setup, build / "tools" / "mlir")
    place_libraries(libraries, build, subject.sdk.info.platform)
    return lit.run_lit(
        folder / "python",
        lit=[environment.python, *lit.RUN_LIT],
        environment=environment.variables(),
        title="upstream's tests of the Python bindings",
        only=only,
        without=without,
        limit=lit.LIMIT if "psutil" in environment.installed() else None,
    )


def place_libraries(libraries: Path, build: Path, platform: Platform) -> None:
    """Put the package's libraries where upstream's tests look: ``../../../../lib``, on Windows ``../../../../bin``.

    :param build: as deep as upstream's build tree
    """
    shared = build / platform.system.shared_folder
    shutil.rmtree(shared, ignore_errors=True)
    for library in filter(Path.is_file, libraries.iterdir()):
        link_or_copy(library, shared / library.name)  # no symbolic links: on Windows those take a privilege


def regression(subject: SuiteSubject) -> list[TestResult]:
    """Upstream's whole ``mlir/test`` (but the Python tests) and our pinned behaviours, with the SDK's tools."""
    info = subject.sdk.info
    setup = LitSetup(sdk=subject.sdk, python=Path(sys.executable), bindings=False, code_generators=info.code_generators)
    folder = write_site_configuration(setup, subject.workdir / "regression")
    results = lit.run_lit(
        folder, lit=lit.find_lit(), environment=foreign_environment(), title="upstream's regression tests of MLIR"
    )
    return [*results, *run_cases(ToolsMlir(tools=subject.sdk.tools), info.llvm_version)]


def sdk(subject: SuiteSubject) -> list[TestResult]:
    """Use an installed wheel of an SDK: build a program against ``mlir-sdk``, or run the programs of another."""
    assert subject.environment is not None
    # Without what follows the numbers, which programs may spell otherwise: 23.1.0-rc1, 23.1.0rc1.
    version = ".".join(map(str, base_version(subject.sdk.info.llvm_version)))
    if (subject.environment.site_packages() / PACKAGE).is_dir():
        return list(build_against(subject.environment, subject.workdir, version))
    if (subject.environment.site_packages() / package_of(SDK_TOOLS)).is_dir():
        return list(run_programs(subject.environment, version))
    return list(run_test_programs(subject.environment, version))


def source(subject: SuiteSubject) -> list[TestResult]:
    """Build a wheel from a source distribution, without an SDK and with one."""
    assert subject.wheel is not None
    assert subject.python is not None
    return list(build_from(subject.wheel, sdk=subject.sdk, python=subject.python, workdir=subject.workdir))


def performance(subject: SuiteSubject) -> list[TestResult]:
    """Count instructions, memory and bytes of an installed wheel."""
    assert subject.environment is not None
    assert subject.wheel is not None
    return list(measure(subject.environment, subject.wheel, subject.workdir))


def beside(subject: SuiteSubject) -> list[TestResult]:
    """Use the installed wheel and others' packages in one process."""
    assert subject.environment is not None
    return list(run_beside(subject.environment, subject.workdir))


SUITES: Mapping[str, Suite] = {
    "smoke": Suite(run=smoke),
    "bindings": Suite(run=bindings, parts=(BUILD, TOOLS), addon=True),
    "regression": Suite(run=regression, parts=(BUILD, TOOLS)),
    "sdk": Suite(run=sdk),
    "source": Suite(run=source, parts=(BUILD, TOOLS)),
    "performance": Suite(run=performance),
    "beside": Suite(run=beside),
}
