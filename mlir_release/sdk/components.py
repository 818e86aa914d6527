"""The settings of a build from source: the components of upstream's distribution, and CMake's cache variables.

The build uses no library that a wheel would have to bundle (zlib, zstd, libxml2, …), and nothing that it would find on
one machine but not on another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mlir_release.model.platforms import Platform, PlatformTag

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.model.platforms import System
    from mlir_release.sdk.upstream import UpstreamSource

#: Build configurations: name -> whether assertions are on.
CONFIGURATIONS = {"release": False, "release+asserts": True}

#: LLVM's names of the code generators of a release; ``host`` is this machine's, which the execution engine needs.
CODE_GENERATORS = ("host", "NVPTX", "AMDGPU")

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

_RUNNER_LIBRARY = re.compile(r"add_mlir_library\((?P<name>mlir_(?!cuda|rocm|sycl|vulkan|spirv|levelzero)\w+)")
#: In a CMake file: a condition, an alternative to one, the end of one, or a runner library.
_CMAKE_LINE = re.compile(
    rf"^\s*(?:if\s*\((?P<condition>.*)\)|(?P<other>else(?:if)?\b)|(?P<end>endif\b)|{_RUNNER_LIBRARY.pattern})",
    re.MULTILINE,
)


def components(source: UpstreamSource, system: System) -> list[str]:
    """``LLVM_DISTRIBUTION_COMPONENTS``: libraries, headers, CMake packages, and the tools that are installed.

    :param system: that it is built for; upstream has some of the libraries on some systems only
    """
    runtime = (source.root / "mlir" / "lib" / "ExecutionEngine" / "CMakeLists.txt").read_text(
        "utf-8", "surrogateescape"
    )
    left = not_installed(source)
    tools = (name for name in _tools(source) if name not in left)
    return [*_FIXED_COMPONENTS, *tools, *sorted(_runner_libraries(runtime, system))]


def _runner_libraries(text: str, system: System) -> set[str]:
    """Those of a CMake file that are built on a system, by the conditions that name systems."""
    found, open_conditions = set(), []
    for match in _CMAKE_LINE.finditer(text):
        if match["condition"] is not None:
            open_conditions.append(_may_hold(match["condition"], system))
        elif match["other"]:
            open_conditions[-1] = True  # no library of ours is in one; a configuration that fails says so
        elif match["end"]:
            open_conditions.pop()
        elif all(open_conditions):
            found.add(match["name"])
    return found


def _may_hold(condition: str, system: System) -> bool:
    """Whether a condition holds on a system, as far as it is about systems."""
    words = re.sub(r"#.*", "", condition).replace('"', "").split()
    if "CMAKE_SYSTEM_NAME" in words:
        return system.host in words
    if "WIN32" in words and len(words) <= 2:
        return (system.name == "windows") != (words[0] == "NOT")
    return True


def not_installed(source: UpstreamSource) -> list[str]:
    """Tools that this version builds and has no component for: ``mlir-irdl-to-cpp`` before LLVM 23."""
    return [name for name in _tools(source) if not _is_installed(source.root / TOOL_FOLDERS[name], name)]


def _tools(source: UpstreamSource) -> list[str]:
    return [name for name, folder in sorted(TOOL_FOLDERS.items()) if (source.root / folder).is_dir()]


def _is_installed(folder: Path, name: str) -> bool:
    """Whether the program is installed. Two of upstream's commands that add one install it only if told to."""
    file = folder / "CMakeLists.txt"
    text = file.read_text("utf-8", "surrogateescape") if file.is_file() else ""
    added = re.search(rf"\b(?P<how>add_llvm_executable|add_tablegen)\(\s*{re.escape(name)}\s(?P<words>[^)]*)\)", text)
    if added is None:
        return True
    return f"install-{name}" in text or (added["how"] == "add_tablegen" and "DESTINATION" in added["words"].split())


#: The C++ runtime in each library, so that wheels need none of the machine's, as in llvm/eudsl's. A digest where the
#: linker would write the time: upstream compiles with ``/Brepro``, too, where these flags forbid incremental links.
_WINDOWS = {
    "CMAKE_MSVC_RUNTIME_LIBRARY": "MultiThreaded",
    **{f"CMAKE_{kind}_LINKER_FLAGS_RELEASE": "/INCREMENTAL:NO /Brepro" for kind in ("EXE", "SHARED", "MODULE")},
}


def cmake_settings(
    source: UpstreamSource, configuration: str, floor: str, code_generators: Sequence[str] = CODE_GENERATORS
) -> dict[str, str]:
    """CMake's cache variables that decide what is built, whatever the machine."""
    tag = PlatformTag.parse(floor)
    system = tag.platform.system if floor else Platform.of_host().system
    off = (
        "LLVM_ENABLE_ZLIB", "LLVM_ENABLE_ZSTD", "LLVM_ENABLE_LIBXML2", "LLVM_ENABLE_LIBEDIT", "LLVM_ENABLE_LIBPFM",
        "LLVM_ENABLE_CURL", "LLVM_ENABLE_HTTPLIB", "LLVM_ENABLE_FFI", "LLVM_ENABLE_Z3_SOLVER", "LLVM_ENABLE_TERMINFO",
        "LLVM_ENABLE_ICU", "LLVM_ENABLE_ICONV", "LLVM_ENABLE_DIA_SDK",
        "LLVM_ENABLE_BINDINGS", "LLVM_ENABLE_OCAMLDOC", "MLIR_ENABLE_BINDINGS_PYTHON", "LLVM_BUILD_LLVM_DYLIB",
        # On Windows, upstream builds these by default: DLLs of all of LLVM, which no wheel and no SDK has.
        "LLVM_BUILD_LLVM_C_DYLIB", "LLVM_TOOL_LTO_BUILD", "LLVM_TOOL_REMARKS_SHLIB_BUILD",
        "LLVM_INCLUDE_EXAMPLES", "LLVM_INCLUDE_BENCHMARKS", "LLVM_INCLUDE_DOCS", "LLVM_APPEND_VC_REV",
    )  # fmt: skip
    projects = ["mlir", *(["lld"] if (source.root / "lld" / "CMakeLists.txt").is_file() else [])]
    return {
        **dict.fromkeys(off, "OFF"),
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON",  # LLVM >= 23 precompiles its own: compiler caches do without
        "LLVM_ENABLE_ASSERTIONS": "ON" if CONFIGURATIONS[configuration] else "OFF",
        "LLVM_ENABLE_PROJECTS": ";".join(projects),
        "LLVM_TARGETS_TO_BUILD": ";".join(code_generators),
        "LLVM_ENABLE_RTTI": "ON",  # as distributions do, so that a downstream project sees one kind of SDK
        "LLVM_INSTALL_UTILS": "ON",
        "MLIR_ENABLE_EXECUTION_ENGINE": "ON",
        "MLIR_INSTALL_AGGREGATE_OBJECTS": "ON",  # add_mlir_aggregate needs the C API's object libraries
        "LLVM_DISTRIBUTION_COMPONENTS": ";".join(components(source, system)),
        **({"CMAKE_OSX_DEPLOYMENT_TARGET": "{}.{}".format(*tag.macos)} if tag.macos else {}),
        **(_WINDOWS if system.name == "windows" else {}),
    }
