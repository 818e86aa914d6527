"""How parts of the wheel project are linked on other systems: CMake runs here, and is told the system afterwards.

What names of files and options the compilers there have stays this machine's; which libraries are linked does not.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlir_release.projects.mlir import WHEEL

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not all(map(shutil.which, ("cmake", "ninja", "c++"))), reason="needs CMake and Ninja"
)

SOURCES = ("Float16bits", "CRunnerUtils", "SparseTensorRuntime", "RunnerUtils", "AsyncRuntime")

PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(linking LANGUAGES C CXX)
list(APPEND CMAKE_MODULE_PATH "{modules}")
find_package(Threads REQUIRED)
set(MLIR_SOURCE_DIR "${{CMAKE_CURRENT_SOURCE_DIR}}/mlir")
set(_package_dir "${{CMAKE_CURRENT_BINARY_DIR}}/package")
foreach(_function llvm_update_compile_flags mlir_python_setup_extension_rpath)
  function(${{_function}})
  endfunction()
endforeach()
add_custom_target(mlir_package)
foreach(_library LLVMSupport LLVMDemangle)
  add_library(${{_library}} STATIC src/empty.cpp)
endforeach()
add_library(mlir_package.extension.core.dso MODULE src/empty.cpp)
add_library(mlir_package.extension.support.so SHARED src/empty.cpp)
target_link_libraries(mlir_package.extension.support.so PRIVATE LLVMSupport)
set(CMAKE_SYSTEM_NAME "{host}")
set({variable} ON)
include(MLIRReleaseHide)
include(MLIRReleaseModules)
mlir_release_tune_modules(mlir_package)
include(MLIRReleaseRunnerLibraries)
"""


def link_lines(folder: Path, *, host: str, variable: str) -> dict[str, str]:
    """The command that links each shared library, by the library's name."""
    shutil.copytree(WHEEL / "src", folder / "src")
    runtime = folder / "mlir/lib/ExecutionEngine"
    runtime.mkdir(parents=True)
    for name in SOURCES:
        (runtime / f"{name}.cpp").touch()
    modules = (WHEEL / "cmake").as_posix()
    (folder / "CMakeLists.txt").write_text(PROJECT.format(modules=modules, host=host, variable=variable))
    subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build"], check=True, capture_output=True)
    shown = subprocess.run(
        ["ninja", "-C", folder / "build", "-t", "commands", "all"], check=True, capture_output=True, text=True
    )
    links = [line for line in shown.stdout.splitlines() if " -shared " in line]
    return {Path(line.partition(" -o ")[2].split()[0]).stem.removeprefix("lib"): line for line in links}


RUNNERS = ("mlir_c_runner_utils", "mlir_runner_utils")


def test_no_runner_library_needs_another_one_on_windows(tmp_path: Path) -> None:
    """``LoadLibraryW`` with a full path looks for what a DLL needs on the PATH, not beside it."""
    lines = link_lines(tmp_path, host="Windows", variable="WIN32")
    for name in RUNNERS:
        assert "libmlir_float16_utils" not in lines[name]
        assert "Float16bits.cpp.o" in lines[name]
    assert "mlir_float16_utils" in lines  # for code that asks for it alone


@pytest.mark.parametrize(("host", "variable"), [("Linux", "UNIX"), ("Darwin", "APPLE")])
def test_runner_libraries_share_what_they_have_in_common_elsewhere(host: str, variable: str, tmp_path: Path) -> None:
    lines = link_lines(tmp_path, host=host, variable=variable)
    for name in RUNNERS:
        assert "libmlir_float16_utils" in lines[name]
        assert "Float16bits.cpp.o" not in lines[name]
    hidden = "-load_hidden" if variable == "APPLE" else "--exclude-libs,ALL"
    for name in (*RUNNERS, "mlir_package.extension.support.so"):
        assert hidden in lines[name], name
