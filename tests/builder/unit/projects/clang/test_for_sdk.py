"""An SDK of clang, of a miniature of Debian's packages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.sdk.components import SdkSpec, cmake_settings, components
from mlir_release.builder.sdk.importer import import_sdk
from mlir_release.builder.sdk.parts import BUILD, TOOLS
from mlir_release.builder.sdk.port import recipe_of
from mlir_release.builder.sdk.sources.upstream import read_source
from mlir_release.ground.errors import MachineError, UsageError
from mlir_release.ground.python.platforms import SYSTEMS
from tests.builder.unit.projects.clang.test_closure import FILES
from tests.prefix_factory import EPOCH, REVISION, make_archive, make_prefix

if TYPE_CHECKING:
    from pathlib import Path

HEADERS = "lib/clang/22/include"
FORGOTTEN = "clang/include/clang/ExtractAPI/APIRecords.inc"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the miniature prefix is Linux's")


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    root = make_prefix(tmp_path / "llvm-22")
    for name in ("clangAST", "clangBasic", "clangTidy", "LLVMX86Desc"):
        make_archive(root / "lib" / f"lib{name}.a", ["one.o"])
    make_archive(root / "lib" / "libclangdMain.a", ["one.o"])
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
    with pytest.raises(MachineError, match=package) as caught:
        make(prefix, source)
    assert caught.value.id == "tool-missing"
    assert not (prefix.parent / "sdk").exists()


def test_a_tree_without_clang_is_refused(source: Path) -> None:
    (source / "clang/bindings/python/clang/cindex.py").unlink()
    with pytest.raises(UsageError, match="there are no sources of clang's Python bindings"):
        read_source(source, project="clang")


def test_a_build_from_source_makes_libclangs_libraries_and_nothing_else(source: Path) -> None:
    upstream = read_source(source, project="clang", whole=True)
    found = components(upstream, SYSTEMS["linux"])
    assert {"clangAST", "LLVMX86AsmParser", "LLVMAMDGPUInfo", "clang-resource-headers", "clang-headers"} <= {*found}
    assert not {"LLVMARCInfo", "LLVMX86CodeGen", "clangCodeGen", "clang-libraries", "llvm-libraries"} & {*found}
    settings = cmake_settings(upstream, SdkSpec(project="clang", floor="manylinux_2_28_x86_64"))
    assert settings["LLVM_ENABLE_PROJECTS"] == "clang"
    assert settings["LLVM_TARGETS_TO_BUILD"] == "all"
    assert not [name for name in settings if name.startswith("MLIR")]


def test_each_file_that_decides_makes_cached_sdks_stale() -> None:
    assert {path.name for path in recipe_of("clang").code} == {"__init__.py", "closure.py", "for_sdk.py"}
    assert all(path.is_file() for path in recipe_of("clang").code)
