"""The static libraries of libclang, read from a miniature of upstream's CMake files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.projects.clang.closure import is_experimental, libraries

if TYPE_CHECKING:
    from pathlib import Path

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
def source(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


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
