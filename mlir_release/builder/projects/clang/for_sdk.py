"""What an SDK of clang is made of: the static libraries of libclang, headers, and the sources of libclang."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.projects.clang import PROJECT
from mlir_release.builder.projects.clang.closure import is_experimental, libraries
from mlir_release.builder.sdk.importer import add_third_party, link_tree
from mlir_release.builder.sdk.parts import LINKERS
from mlir_release.builder.sdk.port import Bindings, Recipe
from mlir_release.builder.sdk.prefix import missing_pieces
from mlir_release.builder.sdk.programs import link_or_copy

if TYPE_CHECKING:
    from mlir_release.builder.sdk.port import LinkedLibrary
    from mlir_release.builder.sdk.prefix import Prefix
    from mlir_release.ground.python.platforms import System

_HERE = Path(__file__).parent

#: A header of clang's that upstream does not install, and others include.
_FORGOTTEN = "include/clang/ExtractAPI/APIRecords.inc"


def _components(source: Path, _: System) -> list[str]:
    """Headers, and the libraries that libclang is linked with; upstream has one component for each."""
    headers = ("llvm-headers", "cmake-exports", "clang-headers", "libclang-headers", "clang-resource-headers")
    return [*headers, *(name for name in libraries(source) if not is_experimental(source, name))]


def _fill(prefix: Prefix, source: Path, output: Path) -> list[LinkedLibrary]:
    """Add all static libraries that there are, the compiler's own headers, and a header that upstream forgets."""
    for pattern in ("clang[A-Z]*", "LLVM*"):
        for archive in prefix.libraries.glob(prefix.platform.system.static_library(pattern)):
            link_or_copy(archive, output / "lib" / archive.name)
    headers = f"lib/clang/{prefix.major}/include"
    if not (prefix.root / headers).is_dir():  # wherever the libraries are
        raise missing_pieces(prefix.root, [f"the headers {headers}, in {prefix.package('libclang-common-{v}-dev')}"])
    link_tree(prefix.root / headers, output / headers)
    if not (output / _FORGOTTEN).exists():
        link_or_copy(source / "clang" / _FORGOTTEN, output / _FORGOTTEN)
    uses = (prefix.settings.get(f"LLVM_ENABLE_{name}", "").upper() in {"1", "ON", "TRUE"} for name in ("ZLIB", "ZSTD"))
    return add_third_party(prefix, output, zlib=next(uses), zstd=next(uses))


RECIPE = Recipe(
    project=PROJECT,
    # To compile libclang, and to run its tests, one of which parses the headers of the C API.
    kept_sources=(
        "LICENSE.TXT",
        "cmake",
        "llvm/LICENSE.TXT",
        "clang/LICENSE.TXT",
        "clang/bindings/python",
        "clang/include/clang-c",
        f"clang/{_FORGOTTEN}",
        "clang/tools/libclang",
    ),
    needed_sources=(
        "LICENSE.TXT",
        "cmake/Modules",
        "clang/bindings/python/clang/cindex.py",
        "clang/bindings/python/tests",
        "clang/include/clang-c",
        f"clang/{_FORGOTTEN}",
        "clang/tools/libclang/CMakeLists.txt",
    ),
    needed_to_build=(
        "clang/CMakeLists.txt",
        "clang/lib",
        "llvm/CMakeLists.txt",
        "llvm/include",
        "llvm/lib",
        "llvm/tools",
        "llvm/utils",
        "third-party",
    ),
    tools={},
    components=_components,
    settings={"LLVM_INCLUDE_TESTS": "OFF", "CLANG_INCLUDE_TESTS": "OFF"},
    # Their names: libclang gives programs like aarch64-linux-gnu-gcc in compile_commands.json their target.
    code_generators=("all",),
    packages=(
        "libclang-{v}-dev",
        "libclang-common-{v}-dev",
        "llvm-{v}-dev",
        "libllvm{v}",
        "lld-{v}",
        "libzstd-dev",
        "zlib1g-dev",
    ),
    pieces={
        "lib/clangAST": "libclang-{v}-dev",
        "lib/LLVMSupport": "llvm-{v}-dev",
        "include/clang": "libclang-{v}-dev",
        "include/clang-c": "libclang-{v}-dev",
        "include/llvm": "llvm-{v}-dev",
        "include/llvm-c": "llvm-{v}-dev",
    },
    # A build from source has no linker: it would take as many steps again, to make the wheel a tenth smaller.
    programs=tuple(sorted(LINKERS)),
    fill=_fill,
    for_builds=tuple(sorted(LINKERS)),
    for_tests=("clang/bindings/python/tests", "clang/include"),
    bindings=lambda _: Bindings(minimum_python="3.10"),  # the oldest that the suites run on; upstream says 3.8
    code=tuple(_HERE / f"{name}.py" for name in ("__init__", "closure", "for_sdk")),
)
