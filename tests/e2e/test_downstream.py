"""Upstream's standalone example, unchanged, against the wheels of a real SDK: built, tested, and loaded beside ours."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir.sdk_wheels import pack_all
from mlir_release.builder.sdk.provision import LLVM_PROJECT
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.testing.run import run_suites
from mlir_release.builder.tools.build_tools import cmake_and_ninja, compiler_launchers
from mlir_release.builder.wheels.inspect import inspect
from mlir_release.extras.downstream.projects import (
    STANDALONE_PROGRAM,
    backend_constraint,
    build_project,
    copy_standalone,
    run_program,
    sdk_variables,
)
from mlir_release.ground.python import venv
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.storage.cache import cache_directory
from tests.processes import run

if TYPE_CHECKING:
    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.sdk.sources.releases import LlvmRelease
    from mlir_release.ground.python.pythons import Python
    from mlir_release.ground.python.venv import VirtualEnvironment
    from tests.e2e.conftest import Rehearsed

pytestmark = pytest.mark.slow  # it compiles upstream's bindings, once for each CPython


@pytest.fixture(scope="module")
def wheels(sdk: Sdk, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return pack_all(sdk, sdk.info.llvm_version, output=tmp_path_factory.mktemp("sdk-wheels"))


@pytest.fixture(scope="module")
def project(release: LlvmRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = fetch_source(release, cache=cache_directory(), directory=None, upstream=LLVM_PROJECT, whole=True)
    return copy_standalone(tree.root, tmp_path_factory.mktemp("downstream") / "standalone")


@pytest.fixture(scope="module")
def environments(
    wheels: dict[str, Path], chosen: tuple[LlvmRelease, list[Python]], tmp_path_factory: pytest.TempPathFactory
) -> list[VirtualEnvironment]:
    """One for each of two CPythons, empty but for the two wheels; the first is that of the rehearsal's wheel."""
    root = tmp_path_factory.mktemp("environments")
    made = [venv.create(root / python.version, python.executable) for python in chosen[1]]
    for environment in made:
        environment.install("--no-index", *wheels.values())
    return made


@pytest.fixture(scope="module")
def built(
    environments: list[VirtualEnvironment], project: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    """The example's own wheels."""
    return [build(one, project, tmp_path_factory.mktemp("built")) for one in environments]


def build(environment: VirtualEnvironment, project: Path, folder: Path) -> Path:
    return build_project(environment, project, folder, settings(environment) | backend_constraint(project, folder))


def settings(environment: VirtualEnvironment) -> dict[str, str]:
    """All that is set from outside, and a compiler cache where this machine has one."""
    return sdk_variables(environment) | compiler_launchers()


def test_the_wheel_that_builds_need_is_sound(sdk: Sdk, wheels: dict[str, Path]) -> None:
    """The tag is one for both wheels: what the programs of both need."""
    reports = [inspect(path) for path in wheels.values()]
    needed = [PlatformTag.parse(report.true_platform_tag) for report in reports]
    for report in reports:
        assert (report.problems, report.external) == ((), ())
        assert report.tags == (f"py3-none-{max(needed, key=lambda tag: tag.version or (0, 0))}",)
    assert {tag.platform for tag in needed} == {sdk.info.platform}


def test_uv_installs_them_too(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = venv.create(tmp_path / "venv", Path(sys.executable))
    uv = (Path(sys.executable).with_name("uv"), "pip", "install", "--offline", "--no-cache", "--python")
    run(*uv, environment.python, *wheels.values())
    assert "LLVM version" in run(environment.scripts / "mlir-opt", "--version")
    assert "LLD" in run(environment.scripts / "ld.lld", "--version")


def test_its_wheel_says_which_sdk_it_was_built_from(sdk: Sdk, built: list[Path]) -> None:
    assert len(built) >= 2
    for path in built:
        report = inspect(path)
        assert (report.problems, report.external) == ((), ())
        found = report.sdk
        assert found is not None
        facts = (found.revision, found.digest, found.version)
        assert facts == (sdk.info.revision, sdk.info.digest, sdk.info.llvm_version)
    inspected = run(sys.executable, "-m", "mlir_release", "wheels", "inspect", built[0])
    assert f"mlir-sdk {sdk.info.llvm_version} (LLVM {sdk.info.llvm_version}" in inspected


def test_it_loads_beside_our_wheel(built: list[Path], rehearsed: Rehearsed, tmp_path: Path) -> None:
    environment = venv.create(tmp_path / "venv", Path(rehearsed.options.pythons[0]))
    environment.install(rehearsed.wheel)
    environment.install("--no-deps", built[0])  # upstream caps NumPy, which may have no wheel for this CPython
    printed = run_program(environment, "standalone", STANDALONE_PROGRAM)
    assert "standalone.foo" in printed
    assert "two kinds of contexts" in printed


def test_its_own_tests_pass_with_our_tools(
    environments: list[VirtualEnvironment], sdk: Sdk, project: Path, rehearsed: Rehearsed, tmp_path: Path
) -> None:
    """``check-standalone``: FileCheck, not, count and mlir-opt are those of ``mlir-sdk-tools``, ``mlir`` is our wheel.

    lit refuses what the examples of older LLVMs ask of it.
    """
    environment = environments[0]
    major = int(sdk.info.llvm_version.partition(".")[0])
    requires = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    needed = [line for line in requires if not line.startswith("scikit-build-core")]
    environment.install(rehearsed.wheel, f"lit<{major + 1}", *needed)
    cmake, ninja = cmake_and_ninja(cache_directory())
    variables = environment.variables(settings(environment))
    given = {"CMAKE_BUILD_TYPE": "Release", "CMAKE_MAKE_PROGRAM": ninja, "MLIR_ENABLE_BINDINGS_PYTHON": "ON"}
    given |= {"MLIR_INCLUDE_TESTS": "ON", "Python3_EXECUTABLE": environment.python}
    given |= {"Python_EXECUTABLE": environment.python}
    words = [f"-D{name}={value}" for name, value in given.items()]
    run(cmake, "-G", "Ninja", "-S", project, "-B", tmp_path, *words, variables=variables)
    parallel = ("--parallel", str(os.cpu_count() or 1))
    said = run(cmake, "--build", tmp_path, *parallel, "--target", "check-standalone", variables=variables)
    assert "(100.00%)" in said
    assert "Failed" not in said
    assert "Unsupported" not in said


@pytest.mark.parametrize("kind", ["sdk", "tools", "test_tools"])
def test_each_wheel_passes_the_suite_that_gates_it_in_a_release(
    kind: str, sdk: Sdk, wheels: dict[str, Path], tmp_path: Path
) -> None:
    (run,) = run_suites(wheels[kind], sdk=sdk, workdir=tmp_path)
    assert run.passed, run.markdown()
    assert len(run.results) == {"sdk": 6, "tools": 4, "test_tools": 5}[kind]
