"""An installed mlir-sdk, by a miniature one: what CMake says to projects, which SDK a source finds, the suite."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import SDK_WHEEL, WHEEL
from mlir_release.builder.projects.mlir.sdk_wheels import pack_all
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.builder.testing.report import TestOutcome
from mlir_release.builder.testing.run import run_suites
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.ground.python import venv
from mlir_release.ground.storage.cache import cache_directory
from tests.prefix_factory import EPOCH, make_prefix, make_source
from tests.refusals import refused
from tests.wheel_factory import make_wheel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.builder.sdk.info import Sdk

OTHER_REVISION = "42eda7e27fa5998bc87f0be4c1705b8d0565d4b2"

PROCESS_H = """\
#include <optional>
#include <string>
namespace llvm::sys { struct Process { static std::optional<std::string> GetEnv(const char *); }; }
"""
PROCESS_CPP = """\
#include "llvm/Support/Process.h"
std::optional<std::string> llvm::sys::Process::GetEnv(const char *) { return {}; }
"""

FIND = 'find_package(MLIR REQUIRED CONFIG)\nfind_package(LLVM REQUIRED CONFIG HINTS "${MLIR_DIR}/../llvm")\n'


@pytest.fixture(scope="module")
def other(sdk: Sdk, tmp_path_factory: pytest.TempPathFactory) -> venv.VirtualEnvironment:
    """An environment with an SDK of another revision, whose libraries differ."""
    root = tmp_path_factory.mktemp("other")
    prefix, source = make_prefix(root / "llvm-22"), make_source(root / "llvm-project")
    (prefix / "lib" / "libMLIRIR.a").write_bytes((prefix / "lib" / "libMLIRSupport.a").read_bytes())
    made = import_sdk(prefix, source=source, output=root / "sdk", revision=OTHER_REVISION, source_epoch=EPOCH)
    return install(pack_all(made, "2", output=root / "wheels"), root / "environment")


@pytest.fixture(scope="module")
def wheels(sdk: Sdk, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return pack_all(sdk, "1", output=tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> venv.VirtualEnvironment:
    return install(wheels, tmp_path_factory.mktemp("installed"))


def install(wheels: dict[str, Path], root: Path) -> venv.VirtualEnvironment:
    environment = venv.create(root, Path(sys.executable))
    environment.install("--no-index", *wheels.values())
    return environment


def packages(environment: venv.VirtualEnvironment) -> Path:
    return environment.site_packages() / "mlir_sdk" / "lib" / "cmake"


def cmake(project: Path, settings: Mapping[str, object], **environment: str) -> tuple[bool, str]:
    """Configure a project (again, in the same build folder); whether it went well, and what was said, in one line."""
    program, ninja = cmake_and_ninja(cache_directory())
    words = [f"-D{name}={value}" for name, value in {"CMAKE_MAKE_PROGRAM": ninja, **settings}.items()]
    command: list[str | Path] = [program, "-G", "Ninja", "-S", project, "-B", project / "build", *words]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    return done.returncode == 0, " ".join((done.stdout + done.stderr).split())


def configure(
    folder: Path, lines: str, environment: venv.VirtualEnvironment, *, languages: str = "NONE", **settings: object
) -> tuple[bool, str]:
    """Configure a project of ``lines``, which is to find the SDK of an environment."""
    folder.mkdir(exist_ok=True)
    head = f"cmake_minimum_required(VERSION 3.20)\nproject(downstream LANGUAGES {languages})\n"
    (folder / "CMakeLists.txt").write_text(head + lines, encoding="utf-8")
    return cmake(folder, {"MLIR_DIR": packages(environment) / "mlir"} | settings)


def test_a_project_finds_headers_and_libraries(installed: venv.VirtualEnvironment, tmp_path: Path) -> None:
    ask = 'get_target_property(place MLIRIR IMPORTED_LOCATION)\nmessage(STATUS "MLIRIR: ${place}")\n'
    passed, said = configure(tmp_path / "project", FIND + ask, installed)
    assert passed, said
    assert f"MLIRIR: {installed.site_packages().resolve()}/mlir_sdk/lib/libMLIRIR.a" in said


def test_the_programs_of_tools_are_those_of_the_packages(installed: venv.VirtualEnvironment, tmp_path: Path) -> None:
    ask = (
        "get_target_property(check FileCheck IMPORTED_LOCATION)\nget_target_property(opt mlir-opt IMPORTED_LOCATION)\n"
        'message(STATUS "${check} ${opt} ${LLVM_TOOLS_BINARY_DIR}")\n'
    )
    passed, said = configure(tmp_path / "project", FIND + ask, installed)
    assert passed, said
    assert f"{installed.scripts}/FileCheck {installed.scripts}/mlir-opt {installed.scripts}" in said


def test_an_sdk_of_another_platform(installed: venv.VirtualEnvironment, tmp_path: Path) -> None:
    target = {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": "aarch64"}
    passed, said = configure(tmp_path / "project", FIND, installed, **target)
    assert not passed
    assert "[mlir-sdk-other-platform] This mlir-sdk is for Linux x86_64, and the build is for Linux on aarch64." in said


def test_an_sdk_of_another_version_in_a_build_folder(
    installed: venv.VirtualEnvironment, other: venv.VirtualEnvironment, tmp_path: Path
) -> None:
    assert configure(tmp_path / "project", FIND, installed)[0]
    passed, said = configure(tmp_path / "project", FIND, other)
    assert not passed
    assert "[mlir-sdk-other-version] This build folder was configured with mlir-sdk 1 (LLVM 22.1.8" in said
    assert "what is installed now is mlir-sdk 2 " in said


def test_two_sdks_at_once(installed: venv.VirtualEnvironment, other: venv.VirtualEnvironment, tmp_path: Path) -> None:
    second = f"find_package(LLVM REQUIRED CONFIG PATHS {packages(other) / 'llvm'} NO_DEFAULT_PATH)\n"
    passed, said = configure(tmp_path / "project", "find_package(MLIR REQUIRED CONFIG)\n" + second, installed)
    assert not passed
    assert "[mlir-sdk-two-sdks] This project finds two SDKs of MLIR" in said


def test_an_llvm_that_is_no_sdk_beside_one(sdk: Sdk, installed: venv.VirtualEnvironment, tmp_path: Path) -> None:
    lines = "find_package(LLVM REQUIRED CONFIG)\nfind_package(MLIR REQUIRED CONFIG)\n"
    passed, said = configure(tmp_path / "project", lines, installed, LLVM_DIR=sdk.cmake_dir / "llvm")
    assert not passed
    assert "[mlir-sdk-two-sdks] MLIR is that of" in said
    assert f"but LLVM is another one: {sdk.cmake_dir / 'llvm'}" in said


def test_tools_of_another_sdk(
    installed: venv.VirtualEnvironment, other: venv.VirtualEnvironment, tmp_path: Path
) -> None:
    mixed = tmp_path / "site"
    shutil.copytree(installed.site_packages() / "mlir_sdk", mixed / "mlir_sdk")
    shutil.copytree(other.site_packages() / "mlir_sdk_tools", mixed / "mlir_sdk_tools")
    passed, said = configure(tmp_path / "project", FIND, installed, MLIR_DIR=mixed / "mlir_sdk/lib/cmake/mlir")
    assert not passed
    assert "[mlir-sdk-tools-of-another] mlir-sdk-tools is not of the same SDK as mlir-sdk." in said


@pytest.mark.parametrize(("version", "good"), [("2.8.0", False), ("2.9.0", True), ("2.15.1", True), ("3.0.0", False)])
def test_nanobind_is_what_the_bindings_are_for(
    installed: venv.VirtualEnvironment, tmp_path: Path, version: str, good: bool
) -> None:
    """It is found after MLIR."""
    passed, said = configure(tmp_path / "project", f'{FIND}set(nanobind_VERSION "{version}")\n', installed)
    assert passed is good, said
    assert good or f"[mlir-sdk-wrong-nanobind] nanobind {version} is not what the bindings of mlir-sdk 1" in said


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler: run make setup-tests")
def test_whether_the_libraries_can_be_linked_is_tried(installed: venv.VirtualEnvironment, tmp_path: Path) -> None:
    """The miniature's libraries are text, which no compiler can link; with real ones it goes on."""
    passed, said = configure(tmp_path / "project", FIND, installed, languages="CXX")
    assert not passed
    assert "[mlir-sdk-cannot-be-linked]" in said
    assert "the SDK needs: GLIBC_2." in said

    site = tmp_path / "site" / "mlir_sdk"
    shutil.copytree(installed.site_packages() / "mlir_sdk", site)
    (tmp_path / "one.cpp").write_text(PROCESS_CPP, encoding="utf-8")
    header = site / "include" / "llvm" / "Support" / "Process.h"
    header.parent.mkdir(exist_ok=True)
    header.write_text(PROCESS_H, encoding="utf-8")
    subprocess.run(["c++", "-std=c++17", "-I", site / "include", "-c", tmp_path / "one.cpp"], cwd=tmp_path, check=True)
    for library in site.glob("lib/*.a"):
        library.unlink()
        subprocess.run(["ar", "qc", library, tmp_path / "one.o"], check=True)
    (tmp_path / "main.cpp").write_text("int main() {}\n", encoding="utf-8")
    build = f"{FIND}add_executable(program {tmp_path}/main.cpp)\ntarget_link_libraries(program PRIVATE MLIRIR)\n"
    passed, said = configure(tmp_path / "real", build, installed, languages="CXX", MLIR_DIR=site / "lib/cmake/mlir")
    assert passed, said
    program, _ = cmake_and_ninja(cache_directory())
    subprocess.run([program, "--build", tmp_path / "real" / "build"], check=True)
    subprocess.run([tmp_path / "real" / "build" / "program"], check=True)


def test_programs_of_no_llvm_fail(sdk: Sdk, wheels: dict[str, Path], tmp_path: Path) -> None:
    (run,) = run_suites(wheels["tools"], sdk=sdk, workdir=tmp_path)
    assert (run.suite, run.wheel, run.passed) == ("sdk", wheels["tools"].name, False)
    assert {result.name: result.outcome for result in run.results} == dict.fromkeys(
        ("mlir-opt", "mlir-translate", "FileCheck", "round-trip"), TestOutcome.FAIL
    )
    assert "did not print '22.1.8'" in run.results[0].message


def test_programs_that_find_nothing_fail(sdk: Sdk, wheels: dict[str, Path], tmp_path: Path) -> None:
    """The miniature's programs always succeed, so what they find, and how much they count, looks right."""
    (run,) = run_suites(wheels["test_tools"], sdk=sdk, workdir=tmp_path)
    assert (run.suite, run.wheel, run.passed) == ("sdk", wheels["test_tools"].name, False)
    failed = {result.name for result in run.results if result.outcome is TestOutcome.FAIL}
    assert failed == {"FileCheck", "split-file"}


def test_what_is_built_ends_with_the_first_step_that_fails(sdk: Sdk, wheels: dict[str, Path], tmp_path: Path) -> None:
    (run,) = run_suites(wheels["sdk"], sdk=sdk, workdir=tmp_path)
    assert [(result.name, result.outcome.good) for result in run.results] == [
        ("tells-where", True),
        ("generates-code", False),
    ]


def test_suites_and_wheels_that_do_not_fit(sdk: Sdk, wheels: dict[str, Path], tmp_path: Path) -> None:
    for wheel, suite in ((wheels["sdk"], "smoke"), (make_wheel(tmp_path), "sdk")):
        refused(partial(run_suites, wheel, sdk=sdk, workdir=tmp_path, suites=[suite]), "option-invalid")


TAG, REVISION = "snapshot-20261120.02", "a" * 40

PROJECT = """\
cmake_minimum_required(VERSION 3.20)
project(finds LANGUAGES NONE)
set(MLIR_RELEASE_SDK "$ENV{MLIR_RELEASE_SDK}" CACHE PATH "")
include(FIND)
message(STATUS "found ${MLIR_RELEASE_SDK}")
"""


def find_sdk(folder: Path, *, site: Path | None = None, named: Path | None = None) -> str:
    """What CMake says to a source distribution that looks for an SDK, with these packages of Python."""
    project = folder / "project"
    (project / "mlir").mkdir(parents=True)
    (project / "mlir" / "_release.json").write_text(json.dumps({"tag": TAG, "revision": REVISION}))
    find = (WHEEL / "cmake" / "MLIRReleaseFindSdk.cmake").as_posix()
    (project / "CMakeLists.txt").write_text(PROJECT.replace("FIND", f'"{find}"'))
    environment = {"PYTHONPATH": str(site or folder), "MLIR_RELEASE_SDK": str(named or "")}
    return cmake(project, {"Python_EXECUTABLE": sys.executable}, **environment)[1]


def site_with(folder: Path, revision: str) -> Path:
    """A folder with the package ``mlir_sdk`` as it is installed."""
    package = folder / "mlir_sdk"
    package.mkdir(parents=True)
    (package / "__init__.py").write_bytes((SDK_WHEEL / "mlir_sdk" / "__init__.py").read_bytes())
    (package / "_mlir_sdk.json").write_text(json.dumps({"version": "20261120.2", "revision": revision}))
    return folder


def test_a_source_finds_the_installed_sdk(tmp_path: Path) -> None:
    said = find_sdk(tmp_path, site=site_with(tmp_path / "site", REVISION))
    assert f"found {tmp_path / 'site' / 'mlir_sdk'}" in said


def test_a_source_without_an_sdk_says_how_to_get_it(tmp_path: Path) -> None:
    said = find_sdk(tmp_path)
    assert "[source-needs-sdk]" in said
    assert "None is installed, or the build is isolated" in said
    assert f"from the page of the release {TAG}" in said
    assert "--no-build-isolation" in said
    assert "--extra-index-url" not in said


def test_a_source_says_of_a_folder_that_it_is_no_sdk(tmp_path: Path) -> None:
    said = find_sdk(tmp_path, named=tmp_path / "nowhere")
    assert f"There is none at '{tmp_path / 'nowhere'}'" in said


def test_a_source_refuses_an_sdk_of_another_revision(tmp_path: Path) -> None:
    said = find_sdk(tmp_path, site=site_with(tmp_path / "site", "b" * 40))
    assert "[source-other-sdk]" in said
    assert f"install the mlir-sdk of the release {TAG}" in said


@pytest.mark.parametrize("description", ["sdk.json", "_mlir_sdk.json"])
def test_a_source_takes_the_sdk_that_is_named(tmp_path: Path, description: str) -> None:
    sdk = tmp_path / "sdk"
    sdk.mkdir()
    (sdk / description).write_text(json.dumps({"revision": REVISION, "version": "1"}))
    assert f"found {sdk}" in find_sdk(tmp_path, named=sdk, site=site_with(tmp_path / "site", "b" * 40))
