"""What is built and carried of MLIR: programs, runner libraries, and components of upstream's distribution."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mlir_release.ground.storage.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.python.platforms import System

_FIXED_COMPONENTS = (
    "llvm-headers",
    "llvm-libraries",
    "cmake-exports",
    "mlir-headers",
    "mlir-libraries",
    "mlir-cmake-exports",
)

#: Programs, each with the folder of upstream's tree that exists in versions that have it.
TOOL_FOLDERS = {
    "FileCheck": "llvm/utils/FileCheck",
    "count": "llvm/utils/count",
    "not": "llvm/utils/not",
    "split-file": "llvm/utils/split-file",
    "llvm-tblgen": "llvm/utils/TableGen",
    "llvm-lib": "llvm/tools/llvm-ar",
    "llvm-ranlib": "llvm/tools/llvm-ar",
    "llvm-readelf": "llvm/tools/llvm-readobj",
    "llvm-strip": "llvm/tools/llvm-objcopy",
    "lld": "lld/tools/lld",
    "mlir-linalg-ods-yaml-gen": "mlir/tools/mlir-linalg-ods-gen",
    **{name: f"llvm/tools/{name}" for name in (
        "llc", "lli", "opt", "llvm-ar", "llvm-as", "llvm-bcanalyzer", "llvm-cxxfilt", "llvm-dis", "llvm-link",
        "llvm-mc", "llvm-nm", "llvm-objcopy", "llvm-objdump", "llvm-profdata", "llvm-readobj", "llvm-size",
        "llvm-strings", "llvm-symbolizer", "obj2yaml", "yaml2obj",
    )},
    **{name: f"mlir/tools/{name}" for name in (
        "mlir-cpu-runner", "mlir-irdl-to-cpp", "mlir-lsp-server", "mlir-opt", "mlir-pdll", "mlir-pdll-lsp-server",
        "mlir-query", "mlir-reduce", "mlir-rewrite", "mlir-runner", "mlir-src-sharder", "mlir-tblgen", "mlir-translate",
        "tblgen-lsp-server", "tblgen-to-irdl",
    )},
}  # fmt: skip

#: The programs that an SDK carries where the prefix has them: those which builds use, and those which ``mlir/test`` and
#: the tests of downstream projects run.
PROGRAMS = (
    "FileCheck", "count", "not", "split-file", "yaml2obj", "obj2yaml",
    "ld.lld", "ld64.lld", "lld-link", "wasm-ld",
    "llc", "lli", "lli-child-target", "opt",
    "llvm-ar", "llvm-as", "llvm-bcanalyzer", "llvm-cxxfilt", "llvm-dis", "llvm-lib", "llvm-link", "llvm-mc", "llvm-nm",
    "llvm-objcopy", "llvm-objdump", "llvm-profdata", "llvm-ranlib", "llvm-readelf", "llvm-readobj", "llvm-size",
    "llvm-strings", "llvm-strip", "llvm-symbolizer", "llvm-tblgen",
    "mlir-cat", "mlir-cpu-runner", "mlir-irdl-to-cpp", "mlir-linalg-ods-yaml-gen", "mlir-lsp-server",
    "mlir-minimal-opt", "mlir-minimal-opt-canonicalize", "mlir-opt", "mlir-pdll", "mlir-pdll-lsp-server",
    "mlir-query", "mlir-reduce", "mlir-rewrite", "mlir-runner",
    "mlir-src-sharder", "mlir-tblgen", "mlir-transform-opt", "mlir-translate",
    "tblgen-lsp-server", "tblgen-to-irdl",
)  # fmt: skip

#: The runner libraries of the prefix: the prefix's own ``mlir-runner`` loads them in ``mlir/test``.
RUNNER_LIBRARIES = re.compile(r"libmlir_\w+\.(so|dylib)(\.[\d.]+)?|mlir_\w+\.dll")

_RUNNER_LIBRARY = re.compile(r"add_mlir_library\((?P<name>mlir_(?!cuda|rocm|sycl|vulkan|spirv|levelzero)\w+)")
#: In a CMake file: a condition, an alternative to one, the end of one, or a runner library.
_CMAKE_LINE = re.compile(
    rf"^\s*(?:if\s*\((?P<condition>.*)\)|(?P<other>else(?:if)?\b)|(?P<end>endif\b)|{_RUNNER_LIBRARY.pattern})",
    re.MULTILINE,
)


def components(source: Path, system: System) -> list[str]:
    """Libraries, headers, CMake packages, and the runner libraries that upstream builds on a system."""
    runtime = read_text(source / "mlir/lib/ExecutionEngine/CMakeLists.txt", errors="surrogateescape")
    found, open_conditions = set(), []
    for match in _CMAKE_LINE.finditer(runtime):
        if match["condition"] is not None:
            open_conditions.append(_may_hold(match["condition"], system))
        elif match["other"]:
            open_conditions[-1] = True  # no library of ours is in one; a configuration that fails says so
        elif match["end"]:
            open_conditions.pop()
        elif all(open_conditions):
            found.add(match["name"])
    return [*_FIXED_COMPONENTS, *sorted(found)]


def _may_hold(condition: str, system: System) -> bool:
    """Whether a condition holds on a system, as far as it is about systems."""
    words = re.sub(r"#.*", "", condition).replace('"', "").split()
    if "CMAKE_SYSTEM_NAME" in words:
        return system.host in words
    if "WIN32" in words and len(words) <= 2:
        return (system.name == "windows") != (words[0] == "NOT")
    return True
