"""A real SDK: made of the distribution's LLVM, moved, then used as a downstream project would use it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.projects.mlir.for_wheels import pin_binding_library
from mlir_release.builder.projects.mlir.python_groups import EXPORTS, is_python_group
from mlir_release.builder.projects.mlir.sdk_members import Reduced
from mlir_release.builder.projects.mlir.sdk_programs import members_of_test_tools
from mlir_release.builder.projects.mlir.sdk_wheels import wheel_info
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.builder.sdk.info import Sdk
from mlir_release.builder.sdk.programs import check_relocated
from mlir_release.builder.sdk.provision import LLVM_PROJECT, provide_sdk
from mlir_release.builder.sdk.sources.debian import DebianPackages
from mlir_release.builder.sdk.sources.source import fetch_source
from mlir_release.builder.tools.build_tools import cmake_and_ninja
from mlir_release.builder.wheels.archive import Identity
from mlir_release.ground.python import venv
from mlir_release.ground.storage.cache import cache_directory
from tests.processes import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.builder.sdk.sources.releases import LlvmRelease

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="makes the SDK of Debian's or Ubuntu's packages"),
    pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("ninja") is None, reason="needs CMake and Ninja"),
]

CONSUMER = {
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.20)
project(consumer LANGUAGES C CXX)
find_package(MLIR REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS} ${CMAKE_CURRENT_BINARY_DIR})
set(LLVM_TARGET_DEFINITIONS Ops.td)
mlir_tablegen(Ops.h.inc -gen-op-decls)
mlir_tablegen(Ops.cpp.inc -gen-op-defs)
mlir_tablegen(Dialect.h.inc -gen-dialect-decls)
mlir_tablegen(Dialect.cpp.inc -gen-dialect-defs)
add_public_tablegen_target(OpsIncGen)
# A shared library, as a plugin or a Python module is: everything in it must be position-independent.
add_library(dialect SHARED dialect.cpp)
add_dependencies(dialect OpsIncGen)
target_link_libraries(dialect PUBLIC MLIRIR MLIRParser MLIRFuncDialect)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE dialect)
""",
    "Ops.td": """
include "mlir/IR/OpBase.td"
def Mine : Dialect { let name = "mine"; let cppNamespace = "::mine"; }
def AddOp : Op<Mine, "add"> { let arguments = (ins I32:$lhs, I32:$rhs); let results = (outs I32:$sum); }
""",
    "dialect.cpp": """
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Parser/Parser.h"
#include "Dialect.h.inc"
#define GET_OP_CLASSES
#include "Ops.h.inc"
#include "Dialect.cpp.inc"
#define GET_OP_CLASSES
#include "Ops.cpp.inc"
void mine::Mine::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Ops.cpp.inc"
  >();
}
int count(const char *text) {
  mlir::MLIRContext context;
  context.loadDialect<mine::Mine, mlir::func::FuncDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return -1;
  int found = 0;
  module->walk([&](mine::AddOp) { ++found; });
  return found;
}
""",
    "main.cpp": r"""
#include <cstdio>
int count(const char *text);
int main() {
  std::printf("%d\n", count("func.func @f(%a: i32) -> i32 {\n"
                            "  %0 = \"mine.add\"(%a, %a) : (i32, i32) -> i32\n"
                            "  return %0 : i32\n}"));
}
""",
}


@pytest.fixture(scope="module")
def sdk(release: LlvmRelease) -> Iterator[Sdk]:
    """Made somewhere, then moved: where it was made is gone."""
    cache = cache_directory()
    provided = provide_sdk(release, release, cache=cache)
    # On the file system of the cache, so that files are linked, not copied.
    folder = cache / "test-sdks" / str(os.getpid())
    made = folder / "made"
    shutil.copytree(provided.root, made, symlinks=True, copy_function=os.link)
    moved = made.rename(folder / "moved")
    yield Sdk.load(moved)
    shutil.rmtree(folder)


def test_it_is_complete_and_unchanged_after_the_move(sdk: Sdk) -> None:
    sdk.verify()
    check_relocated(sdk.root)


def test_its_tools_run_after_the_move(sdk: Sdk) -> None:
    for tool in ("mlir-opt", "mlir-translate", "mlir-tblgen", "FileCheck", "ld.lld"):
        assert sdk.info.llvm_version in run(sdk.tools / tool, "--version")
    module = "func.func @f(%a: i32) -> i32 { return %a : i32 }"
    lowered = subprocess.run(
        [sdk.tools / "mlir-opt", "--convert-func-to-llvm"], input=module, capture_output=True, text=True, check=True
    ).stdout
    assert "llvm.func @f" in lowered


def test_the_programs_of_tests_need_nothing_else_of_it(sdk: Sdk, tmp_path: Path) -> None:
    """Those of ``mlir-test-tools``, as its members are: FileCheck without libLLVM, z3 and zlib."""
    info = wheel_info(Reduced.of(sdk), "1")
    identity = Identity(distribution="mlir-test-tools", version="1", platform="any")
    members = list(members_of_test_tools(sdk, info, identity, tmp_path))
    folder = f"{identity.data}/scripts"
    assert [member.name for member in members if member.executable] == [
        f"{folder}/{name}" for name in ("FileCheck", "count", "not", "split-file")
    ]
    assert sum(len(member.data) for member in members) < 20_000_000
    moved = (tmp_path / "bin").rename(tmp_path / "moved")
    (tmp_path / "expected.txt").write_text("CHECK: one\nCHECK-NEXT: two\n", encoding="utf-8")

    def status(text: str, *command: str | Path) -> int:
        return subprocess.run(command, input=text, text=True, capture_output=True, check=False).returncode

    check = (moved / "FileCheck", tmp_path / "expected.txt")
    assert (status("one\ntwo\n", *check), status("one\n", *check)) == (0, 1)
    assert (status("one\n", moved / "not", *check), status("one\ntwo\n", moved / "not", *check)) == (0, 1)
    assert (status("one\ntwo\n", moved / "count", "2"), status("one\n", moved / "count", "2")) == (0, 1)


def test_no_cmake_package_holds_an_absolute_path(sdk: Sdk) -> None:
    for file in sdk.cmake_dir.rglob("*.cmake"):
        if re.search(r"(Config|Exports|Targets)", file.name):
            assert not re.search(r'["; ]/[a-z]+/', file.read_text(encoding="utf-8")), file


def test_any_cmake_project_can_use_it(sdk: Sdk, tmp_path: Path) -> None:
    """A dialect of its own, through TableGen, in a shared library that a program links."""
    for name, text in CONSUMER.items():
        (tmp_path / name).write_text(text)
    build = tmp_path / "build"
    configure = ["cmake", "-G", "Ninja", "-S", str(tmp_path), "-B", str(build), f"-DCMAKE_PREFIX_PATH={sdk.root}"]
    run(*configure, "-DCMAKE_BUILD_TYPE=MinSizeRel")
    run("ninja", "-C", build)
    assert run(build / "consumer") == "1\n"
    needed = run("ldd", build / "consumer")
    assert not re.search(r"libLLVM|libMLIR|libzstd|libz\.", needed), needed


def test_windows_could_export_every_name_of_the_c_api(sdk: Sdk) -> None:
    """A DLL has at most 65,535 exports. Upstream lets it have each name of the objects, templates too.

    Names of C++ are mangled in another way there, but are as many.
    """
    files = [path for path in (sdk.root / "lib" / "objects").rglob("*") if path.is_file()]
    assert len(files) > 50
    printed = run(sdk.tools / "llvm-nm", "--extern-only", "--defined-only", "--just-symbol-name", *files)
    names = {line for line in printed.splitlines() if line and not line.endswith(":")}
    assert len([name for name in names if name.startswith("mlir")]) > 1_000
    assert len(names) < 65_535 / 4


def test_the_same_packages_give_the_same_sdk(sdk: Sdk, release: LlvmRelease) -> None:
    cache = cache_directory()
    prefix = DebianPackages(cache).unpack(int(sdk.info.llvm_version.split(".")[0]))
    tree = fetch_source(release, cache=cache)
    again = import_sdk(
        prefix,
        source=tree.root,
        output=cache / "test-sdks" / f"{os.getpid()}-again",
        revision=sdk.info.revision,
        source_epoch=sdk.info.source_epoch,
    )
    assert again.info == sdk.info
    shutil.rmtree(again.root)


def test_its_python_sources_are_the_ones_that_upstreams_own_install_exports(
    sdk: Sdk, release: LlvmRelease, tmp_path: Path
) -> None:
    """Every group, with every property. CMake writes the exports when it configures: nothing is compiled."""
    source = fetch_source(release, cache=cache_directory(), directory=None, upstream=LLVM_PROJECT, whole=True)
    others = [line for line in source.facts.binding_requirements if not line.startswith(("nanobind", "pybind11"))]
    wanted = [pin_binding_library(source.facts.binding_requirements), *others, *source.facts.runtime_requirements]
    environment = venv.cached(cache_directory() / "environments", Path(sys.executable), wanted)
    cmake, ninja = cmake_and_ninja(cache_directory())
    off = ("MLIR_INCLUDE_TESTS", "LLVM_INCLUDE_TESTS", "LLVM_INCLUDE_EXAMPLES", "LLVM_INCLUDE_BENCHMARKS",
           "MLIR_PYTHON_STUBGEN_ENABLED", "LLVM_ENABLE_ZLIB", "LLVM_ENABLE_ZSTD", "LLVM_ENABLE_LIBXML2")  # fmt: skip
    settings = {
        **dict.fromkeys(off, "OFF"),
        "LLVM_ENABLE_PROJECTS": "mlir",
        "LLVM_TARGETS_TO_BUILD": "host",
        "MLIR_ENABLE_BINDINGS_PYTHON": "ON",
        "CMAKE_MAKE_PROGRAM": ninja,
        "CMAKE_BUILD_TYPE": "Release",
        "Python3_EXECUTABLE": environment.python,
        "Python_EXECUTABLE": environment.python,
    }
    words = [f"-D{name}={value}" for name, value in settings.items()]
    run(cmake, "-G", "Ninja", "-S", source.root / "llvm", "-B", tmp_path, *words)
    (exports,) = tmp_path.glob("tools/mlir/cmake/modules/CMakeFiles/Export/*/MLIRTargets.cmake")
    upstream = {name: target for name, target in cmake_exports.read(exports).items() if is_python_group(target)}
    assert "MLIRPythonSources.Core" in upstream
    assert cmake_exports.read(sdk.cmake_dir / "mlir" / EXPORTS) == upstream


def test_every_python_source_is_there(sdk: Sdk) -> None:
    groups = cmake_exports.read(sdk.cmake_dir / "mlir" / EXPORTS).values()
    sources = [file for group in groups for file in group.properties.get("INTERFACE_SOURCES", "").split(";") if file]
    assert len(sources) > 200
    lost = [file for file in sources if not (sdk.root / file.removeprefix(cmake_exports.PREFIX)).is_file()]
    assert lost == []
