"""What CMake says to projects that are configured against an installed ``mlir-sdk``, by a miniature one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir.sdk_wheels import pack_all
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.ground.python import venv
from mlir_release.ground.storage.cache import cache_directory
from tests.prefix_factory import EPOCH, make_prefix, make_source

if TYPE_CHECKING:
    from mlir_release.builder.sdk.info import Sdk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the miniature programs are Linux's /bin/true")

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
def installed(sdk: Sdk, tmp_path_factory: pytest.TempPathFactory) -> venv.VirtualEnvironment:
    root = tmp_path_factory.mktemp("installed")
    return install(pack_all(sdk, "1", output=root / "wheels"), root / "environment")


def install(wheels: dict[str, Path], root: Path) -> venv.VirtualEnvironment:
    environment = venv.create(root, Path(sys.executable))
    environment.install("--no-index", *wheels.values())
    return environment


def packages(environment: venv.VirtualEnvironment) -> Path:
    return environment.site_packages() / "mlir_sdk" / "lib" / "cmake"


def configure(
    folder: Path, lines: str, environment: venv.VirtualEnvironment, *, languages: str = "NONE", **settings: object
) -> tuple[bool, str]:
    """Configure a project of ``lines`` (again, in the same build folder); whether it went well, and what was said."""
    folder.mkdir(exist_ok=True)
    head = f"cmake_minimum_required(VERSION 3.20)\nproject(downstream LANGUAGES {languages})\n"
    (folder / "CMakeLists.txt").write_text(head + lines, encoding="utf-8")
    cmake, ninja = cmake_and_ninja(cache_directory())
    settings = {"CMAKE_MAKE_PROGRAM": ninja, "MLIR_DIR": packages(environment) / "mlir"} | settings
    command: list[str | Path] = [
        cmake,
        "-G",
        "Ninja",
        "-S",
        folder,
        "-B",
        folder / "build",
        *(f"-D{k}={v}" for k, v in settings.items()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0, " ".join((done.stdout + done.stderr).split())


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
    cmake, _ = cmake_and_ninja(cache_directory())
    subprocess.run([cmake, "--build", tmp_path / "real" / "build"], check=True)
    subprocess.run([tmp_path / "real" / "build" / "program"], check=True)
