"""An SDK of clang, of a miniature of Debian's packages, and the libraries of libclang, by upstream's CMake files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.clang.closure import is_experimental, libraries
from mlir_release.builder.sdk.components import SdkSpec, cmake_settings, components
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.builder.sdk.parts import BUILD, TOOLS
from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.ground.python.platforms import SYSTEMS
from tests.prefix_factory import EPOCH, REVISION, make_archive, make_prefix
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

HEADERS = "lib/clang/22/include"
FORGOTTEN = "clang/include/clang/ExtractAPI/APIRecords.inc"

#: A miniature of upstream's CMake files.
FILES = {
    "clang/tools/libclang/CMakeLists.txt": """
set(LIBS
  clangAST  # the tree
  clangTooling
)
if (CLANG_ENABLE_ARCMT)
  list(APPEND LIBS clangARCMigrate)
endif()
list(APPEND LIBS ${CMAKE_DL_LIBS})
add_clang_library(libclang ${ENABLE_SHARED} OUTPUT_NAME ${output_name}
  DEPENDS clang-resource-headers
  LINK_LIBS ${LIBS}
  LINK_COMPONENTS
  ${LLVM_TARGETS_TO_BUILD}
  Core
  Support
  )
""",
    "clang/lib/AST/CMakeLists.txt": """
set(LLVM_LINK_COMPONENTS
  FrontendOpenMP
  Support
  )
add_clang_library(clangAST
  AST.cpp
  # LINK_LIBS clangNever
  DEPENDS
  intrinsics_gen
  LINK_LIBS
  clangBasic
  )
""",
    "clang/lib/Basic/CMakeLists.txt": "add_clang_library(clangBasic\n  Basic.cpp\n  )\n",
    "clang/lib/Tooling/CMakeLists.txt": "add_clang_library(clangTooling\n  LINK_LIBS clangAST clangRewrite)\n",
    "clang/lib/CodeGen/CMakeLists.txt": "add_clang_library(clangCodeGen\n  LINK_LIBS clangAST)\n",
    "llvm/CMakeLists.txt": "set(LLVM_ALL_TARGETS\n  AMDGPU\n  X86\n  )\n",
    "llvm/lib/IR/CMakeLists.txt": "add_llvm_component_library(LLVMCore\n  DEPENDS gen\n  LINK_COMPONENTS\n  Support)\n",
    "llvm/lib/Support/CMakeLists.txt": "add_llvm_component_library(LLVMSupport\n  a.cpp\n  LINK_LIBS\n  ${system})\n",
    "llvm/lib/Frontend/OpenMP/CMakeLists.txt": (
        "add_llvm_component_library(LLVMFrontendOpenMP LINK_COMPONENTS Scalar ipo)"
    ),
    "llvm/lib/Transforms/Scalar/CMakeLists.txt": (
        "add_llvm_component_library(LLVMScalarOpts\n  COMPONENT_NAME\n  Scalar\n  LINK_COMPONENTS MC)\n"
    ),
    "llvm/lib/Transforms/IPO/CMakeLists.txt": "add_llvm_component_library(LLVMIPO\n  COMPONENT_NAME\n  IPO)\n",
    "llvm/lib/MC/CMakeLists.txt": "add_llvm_component_library(LLVMMC\n  ADDITIONAL_HEADER_DIRS\n  include)\n",
    **{
        f"llvm/lib/Target/{target}/TargetInfo/CMakeLists.txt": f"add_llvm_component_library(LLVM{target}Info)\n"
        for target in ("AMDGPU", "ARC", "X86")
    },
    "llvm/lib/Target/X86/CMakeLists.txt": "add_llvm_component_library(LLVMX86CodeGen LINK_COMPONENTS Core)\n",
    "llvm/lib/Target/X86/MCTargetDesc/CMakeLists.txt": "add_llvm_component_library(LLVMX86Desc LINK_COMPONENTS MC)\n",
    "llvm/lib/Target/X86/AsmParser/CMakeLists.txt": "add_llvm_component_library(LLVMX86AsmParser)\n",
}


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    if sys.platform != "linux":
        pytest.skip("the miniature prefix is Linux's")
    root = make_prefix(tmp_path / "llvm-22")
    for name in ("clangAST", "clangBasic", "clangTidy", "clangdMain", "LLVMX86Desc"):
        make_archive(root / "lib" / f"lib{name}.a", ["one.o"])
    for name in ("include/clang/AST/AST.h", "include/clang-c/Index.h", f"{HEADERS}/stddef.h", f"{HEADERS}/ppc/a.h"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"// {name}\n")
    config = root / "lib/cmake/llvm/LLVMConfig.cmake"
    config.write_text(config.read_text() + "set(LLVM_ENABLE_ZSTD OFF)\n")
    return root


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree without MLIR."""
    root = tmp_path / "llvm-project"
    version = "set(LLVM_VERSION_MAJOR 22)\nset(LLVM_VERSION_MINOR 1)\nset(LLVM_VERSION_PATCH 8)\n"
    files = {
        **FILES,
        "cmake/Modules/LLVMVersion.cmake": version,
        "LICENSE.TXT": "the licence of LLVM\n",
        "clang/CMakeLists.txt": "",
        "clang/bindings/python/clang/__init__.py": "",
        "clang/bindings/python/clang/cindex.py": "",
        "clang/bindings/python/tests/cindex/test_it.py": "",
        "clang/include/clang-c/Index.h": "",
        FORGOTTEN: "// forgotten\n",
        "clang/tools/libclang/CIndex.cpp": "",
        **{f"{name}/a": "" for name in ("llvm/include", "llvm/tools", "llvm/utils", "third-party")},
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_it_is_what_libclang_needs_directly_or_not_and_no_code_generator(source: Path) -> None:
    found = libraries(source)
    assert [name for name in found if name.startswith("clang")] == ["clangAST", "clangBasic", "clangTooling"]
    assert [name for name in found if name.startswith("LLVM")] == [
        "LLVMAMDGPUInfo", "LLVMARCInfo", "LLVMCore", "LLVMFrontendOpenMP", "LLVMIPO", "LLVMMC", "LLVMScalarOpts",
        "LLVMSupport", "LLVMX86AsmParser", "LLVMX86Desc", "LLVMX86Info",
    ]  # fmt: skip


def test_a_library_of_a_version_that_has_it_is_in(source: Path) -> None:
    file = source / "clang/lib/ARCMigrate/CMakeLists.txt"
    file.parent.mkdir()
    file.write_text("add_clang_library(clangARCMigrate LINK_LIBS clangEdit)\n")
    assert "clangARCMigrate" in libraries(source)


def test_only_the_names_of_experimental_targets_are_experimental(source: Path) -> None:
    assert [name for name in libraries(source) if is_experimental(source, name)] == ["LLVMARCInfo"]


def make(prefix: Path, source: Path) -> Path:
    output = prefix.parent / "sdk"
    spec = SdkSpec(project="clang")
    sdk = import_sdk(prefix, source=source, output=output, revision=REVISION, source_epoch=EPOCH, spec=spec)
    sdk.verify()
    assert sdk.info.project == "clang"
    assert [library.name for library in sdk.info.linked] == ["zlib"]
    assert sdk.info.runtime_requirements == ()
    assert sdk.listed(TOOLS).keys() >= {"source/clang/bindings/python/tests/cindex/test_it.py"}
    assert sdk.listed(BUILD).keys() >= {"source/clang/bindings/python/clang/cindex.py", "bin/lld"}
    return output


def test_it_has_all_that_the_wheel_is_built_and_tested_with(prefix: Path, source: Path) -> None:
    sdk = make(prefix, source)
    there = {path.relative_to(sdk).as_posix() for path in sdk.rglob("*") if path.is_file()}
    assert there >= {
        "lib/libclangAST.a", "lib/libLLVMX86Desc.a", "lib/libLLVMSupport.a", "lib/libz.a",
        f"{HEADERS}/stddef.h", f"{HEADERS}/ppc/a.h", "include/clang/AST/AST.h", "include/llvm/IR/Header.h",
        "source/clang/tools/libclang/CIndex.cpp", "licenses/zlib.txt", "bin/ld.lld",
    }  # fmt: skip
    assert (sdk / FORGOTTEN.removeprefix("clang/")).read_text() == "// forgotten\n"
    assert not [name for name in there if "MLIR" in name or "clangd" in name or name == "lib/libzstd.a"]


def test_upstreams_file_stays_where_it_is_installed(prefix: Path, source: Path) -> None:
    installed = prefix / FORGOTTEN.removeprefix("clang/")
    installed.parent.mkdir(parents=True)
    installed.write_text("// installed\n")
    assert (make(prefix, source) / FORGOTTEN.removeprefix("clang/")).read_text() == "// installed\n"


@pytest.mark.parametrize(
    ("path", "package"),
    [
        (f"{HEADERS}/stddef.h", "libclang-common-22-dev"),
        ("lib/libclangAST.a", "libclang-22-dev"),
        ("lib/libLLVMSupport.a", "llvm-22-dev"),
    ],
)
def test_what_a_prefix_lacks_is_named_with_its_package(prefix: Path, source: Path, path: str, package: str) -> None:
    (prefix / path).unlink()
    if path.startswith(HEADERS):
        (prefix / HEADERS).rename(prefix / "elsewhere")
    assert package in refused(lambda: make(prefix, source), "tool-missing").why
    assert not (prefix.parent / "sdk").exists()


def test_a_tree_without_clang_is_refused(source: Path) -> None:
    (source / "clang/bindings/python/clang/cindex.py").unlink()
    said = "there are no sources of clang's Python bindings"
    refused(lambda: read_source(source, project="clang"), "input-missing", said)


def test_a_build_from_source_makes_libclangs_libraries_and_nothing_else(source: Path) -> None:
    upstream = read_source(source, project="clang", whole=True)
    found = components(upstream, SYSTEMS["linux"])
    assert {"clangAST", "LLVMX86AsmParser", "LLVMAMDGPUInfo", "clang-resource-headers", "clang-headers"} <= {*found}
    assert not {"LLVMARCInfo", "LLVMX86CodeGen", "clangCodeGen", "clang-libraries", "llvm-libraries"} & {*found}
    settings = cmake_settings(upstream, SdkSpec(project="clang", floor="manylinux_2_28_x86_64"))
    assert settings["LLVM_ENABLE_PROJECTS"] == "clang"
    assert settings["LLVM_TARGETS_TO_BUILD"] == "all"
    assert not [name for name in settings if name.startswith("MLIR")]
