"""The test suites of a release.

- ``smoke``: the wheel alone in an empty environment: the first things that a user does, its type information, and our
  pinned behaviours
- ``bindings``: upstream's ``mlir/test/python`` on the installed wheel, and, where a test needs it, a test-only add-on
- ``regression``: upstream's whole ``mlir/test`` and our pinned behaviours, with the SDK's tools; needs no wheel
- ``sdk``: a wheel of the SDK alone in an empty environment: a program is built against it, or its programs run
- ``performance``: instructions, memory and sizes of the wheel; a failure keeps nothing from being published
- ``source``: a source distribution makes a wheel with ``mlir-sdk``; without, the build says what is missing
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.host import venv
from mlir_release.host.locked import choose
from mlir_release.host.process import capture
from mlir_release.host.surroundings import foreign_environment
from mlir_release.host.venv import VirtualEnvironment
from mlir_release.model.decode import parse_json
from mlir_release.model.release_tags import base_version
from mlir_release.model.requirements import of_other_names
from mlir_release.model.sdk_wheel_info import SDK_TOOLS, package_of
from mlir_release.model.suites import PERFORMANCE
from mlir_release.projects.mlir import SMOKE, TEST_REQUIREMENTS
from mlir_release.sdk.parts import BUILD, TOOLS
from mlir_release.sdk.programs import link_or_copy
from mlir_release.testing import lit
from mlir_release.testing.behaviours import TIMEOUT, ToolsMlir, WheelMlir, run_cases
from mlir_release.testing.builds import build_against, build_from, run_programs, run_test_programs
from mlir_release.testing.known_failures import Situation
from mlir_release.testing.performance import measure
from mlir_release.testing.report import TestOutcome, TestResult
from mlir_release.testing.types import check_types
from mlir_release.wheels.sdk_members import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from mlir_release.model.platforms import Platform
    from mlir_release.model.wheel_info import WheelInfo
    from mlir_release.sdk.info import Sdk

#: Tests that use upstream's test dialect, which is not in the wheel.
NEED_TEST_DIALECT = (
    "python/dialects/python_test.py",
    "python/ir/diagnostic_handler.py",
    "python/multithreaded_tests.py",
)

#: Folder of the environment that has the test-only parts, too.
_WITH_ADDON = "environment-with-addon"

#: The code generators that the profiles link in, besides the machine's own.
_PROFILE_GENERATORS: Mapping[str, tuple[str, ...]] = {"full": ("NVPTX", "AMDGPU"), "all": ("NVPTX", "AMDGPU")}


#: The parts of the SDK that each suite uses; ``smoke``, ``sdk`` and ``performance`` read its description only.
NEEDED_PARTS: Mapping[str, tuple[str, ...]] = {
    "smoke": (),
    "bindings": (BUILD, TOOLS),
    "regression": (BUILD, TOOLS),
    "sdk": (),
    "source": (BUILD, TOOLS),
    "performance": (),
}


@dataclass(frozen=True, kw_only=True)
class SuiteSubject:
    """A wheel installed in an environment, with the SDK that it was built from; or the SDK alone."""

    sdk: Sdk
    workdir: Path
    environment: VirtualEnvironment | None = None
    wheel: Path | None = None  #: the file that is tested: a wheel, or a source distribution
    python: Path | None = None  #: the interpreter that the environment was made with
    python_version: str = ""
    release: WheelInfo | None = None  #: the release that the wheel belongs to
    addon: Path | None = None  #: wheel of the test-only parts (:func:`mlir_release.wheels.build.build_addon`)

    @property
    def profile(self) -> str:
        """The wheel's (``host``, ``sdk``, …); empty where no wheel is tested."""
        return self.release.profile if self.release else ""

    def installed(self) -> dict[str, str]:
        """The versions of the packages that the tests ran with, by canonical name; empty without a wheel."""
        with_addon = VirtualEnvironment(root=self.workdir / _WITH_ADDON)
        environment = with_addon if self.addon and with_addon.root.exists() else self.environment
        return environment.installed() if environment else {}

    def with_addon(self) -> VirtualEnvironment:
        """Another environment with the wheel, and the add-on laid over it."""
        assert self.wheel is not None
        assert self.python is not None
        assert self.addon is not None
        environment = venv.create(self.workdir / _WITH_ADDON, self.python)
        environment.install(self.wheel)
        # One for the stable ABI says that it is for the CPython that built it, and serves newer ones all the same.
        environment.install("--no-deps", "--ignore-requires-python", self.addon)
        return environment

    def situation(self) -> Situation:
        """As the known failures tell situations apart."""
        info = self.sdk.info
        return Situation(
            llvm_version=info.llvm_version,
            python=self.python_version,
            profile=self.profile,
            provider=info.provider,
            platform=info.platform,
        )


def smoke(subject: SuiteSubject) -> list[TestResult]:
    """Run the smoke test, the checks of types and the pinned behaviours with the installed wheel."""
    assert subject.environment is not None
    results = _first_steps(subject, subject.environment)
    if all(result.outcome.good for result in results):
        version = subject.sdk.info.llvm_version
        results += check_types(subject.environment, subject.workdir, llvm_version=version, release=subject.release)
        mlir = WheelMlir(
            python=subject.environment.python,
            environment=subject.environment.variables(),
            tools=subject.sdk.tools if subject.sdk.has(TOOLS) else None,
        )
        results += run_cases(mlir, version)
    return results


def _first_steps(subject: SuiteSubject, environment: VirtualEnvironment) -> list[TestResult]:
    """Run the smoke test, which prints a line of JSON for each of its checks, the last with the name ``end``."""
    info = subject.sdk.info
    expected = {"revision": info.revision, "llvm_version": info.llvm_version}
    if subject.release is not None:
        expected |= {"tag": subject.release.tag, "target": subject.release.target}
    command: list[str | Path] = [environment.python, "-I", SMOKE, subject.profile or "host", json.dumps(expected)]
    done = capture(command, environment=environment.variables(), cwd=subject.workdir, timeout=TIMEOUT * 2)
    lines = [parse_json(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    results = [
        TestResult(
            name=line["name"],
            outcome=TestOutcome.PASS if line["ok"] else TestOutcome.FAIL,
            seconds=line["seconds"],
            message=line["message"],
        )
        for line in lines
        if line["name"] != "end"
    ]
    if not lines or lines[-1]["name"] != "end":  # a crash: the checks after it never ran
        last = results[-1].name if results else "nothing"
        message = f"the interpreter ended after {last}: {done.ending}\n{done.stderr}"
        results.append(TestResult(name="runs-to-the-end", outcome=TestOutcome.FAIL, message=message))
    return results


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
    beyond = of_other_names(TEST_REQUIREMENTS, environment.installed())
    environment.install_locked(choose([f"lit=={version('lit')}", *beyond]))
    libraries = environment.site_packages() / "mlir" / "_mlir_libs"
    setup = lit.LitSetup(
        sdk=subject.sdk,
        python=environment.python,
        bindings=True,
        code_generators=_PROFILE_GENERATORS.get(subject.profile, ()),
        execution_engine=subject.profile != "core",
        stable_abi=subject.release is not None and bool(subject.release.serves),
        libraries=libraries,
    )
    build = subject.workdir / name / "build"
    folder = lit.write_site_configuration(setup, build / "tools" / "mlir")
    place_libraries(libraries, build, subject.sdk.info.platform)
    return lit.run_lit(
        folder / "python",
        lit=[environment.python, *lit.RUN_LIT],
        environment=environment.variables(),
        title="upstream's tests of the Python bindings",
        only=only,
        without=without,
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
    setup = lit.LitSetup(
        sdk=subject.sdk, python=Path(sys.executable), bindings=False, code_generators=info.code_generators
    )
    folder = lit.write_site_configuration(setup, subject.workdir / "regression")
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


#: Runs each suite of :data:`mlir_release.model.suites.SUITES`; known failures are judged afterwards.
RUNNERS: Mapping[str, Callable[[SuiteSubject], list[TestResult]]] = {
    "smoke": smoke,
    "bindings": bindings,
    "regression": regression,
    "sdk": sdk,
    "source": source,
    PERFORMANCE: performance,
}
