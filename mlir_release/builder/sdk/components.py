"""The settings of a build from source: the components of upstream's distribution, and CMake's cache variables.

The build uses no library that a wheel would have to bundle (zlib, zstd, libxml2, …), and nothing that it would find on
one machine but not on another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.ground.llvm.projects import DEFAULT_PROJECT
from mlir_release.ground.python.platforms import Platform, PlatformTag
from mlir_release.ground.storage.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.builder.sdk.regalloc_model import ModelFolder
    from mlir_release.builder.sdk.sources.upstream import UpstreamSource
    from mlir_release.ground.python.platforms import System

#: Build configurations: name -> whether assertions are on.
CONFIGURATIONS = {"release": False, "release+asserts": True}


@dataclass(frozen=True, kw_only=True)
class SdkSpec:
    """What an SDK is made as, whatever commit of llvm-project it is made of.

    :param floor: the oldest platform of its wheels (``manylinux_2_28``, ``macosx_13_0``); default: this machine
    :param configuration: a name in :data:`CONFIGURATIONS`; packages have ``release`` only
    :param code_generators: LLVM's names; default: those of the project; fewer make a *reduced* SDK, which ``sdk show``
        tells by its list; packages have all
    :param regalloc: a learned eviction policy to compile into the register allocator, which no packages have
    """

    project: str = DEFAULT_PROJECT
    floor: str = ""
    configuration: str = "release"
    code_generators: tuple[str, ...] | None = None
    regalloc: ModelFolder | None = None


#: MLIR's, for this machine, without assertions.
USUAL = SdkSpec()


def components(source: UpstreamSource, system: System) -> list[str]:
    """``LLVM_DISTRIBUTION_COMPONENTS``: those of the project, and the tools that are installed.

    :param system: that it is built for; upstream has some libraries on some systems only
    """
    left = not_installed(source)
    return [*source.recipe.components(source.root, system), *(name for name in _tools(source) if name not in left)]


def not_installed(source: UpstreamSource) -> list[str]:
    """Tools that this version builds and has no component for: ``mlir-irdl-to-cpp`` before LLVM 23."""
    folders = source.recipe.tools
    return [name for name in _tools(source) if not _is_installed(source.root / folders[name], name)]


def _tools(source: UpstreamSource) -> list[str]:
    return [name for name, folder in sorted(source.recipe.tools.items()) if (source.root / folder).is_dir()]


def _is_installed(folder: Path, name: str) -> bool:
    """Whether the program is installed. Two of upstream's commands that add one install it only if told to."""
    file = folder / "CMakeLists.txt"
    text = read_text(file, errors="surrogateescape") if file.is_file() else ""
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


def cmake_settings(source: UpstreamSource, spec: SdkSpec) -> dict[str, str]:
    """CMake's cache variables that decide what is built, whatever the machine."""
    tag = PlatformTag.parse(spec.floor)
    system = tag.platform.system if spec.floor else Platform.of_host().system
    off = (
        "LLVM_ENABLE_ZLIB", "LLVM_ENABLE_ZSTD", "LLVM_ENABLE_LIBXML2", "LLVM_ENABLE_LIBEDIT", "LLVM_ENABLE_LIBPFM",
        "LLVM_ENABLE_CURL", "LLVM_ENABLE_HTTPLIB", "LLVM_ENABLE_FFI", "LLVM_ENABLE_Z3_SOLVER", "LLVM_ENABLE_TERMINFO",
        "LLVM_ENABLE_ICU", "LLVM_ENABLE_ICONV", "LLVM_ENABLE_DIA_SDK",
        "LLVM_ENABLE_BINDINGS", "LLVM_ENABLE_OCAMLDOC", "LLVM_BUILD_LLVM_DYLIB",
        # On Windows, upstream builds these by default: DLLs of all of LLVM, which no wheel and no SDK has.
        "LLVM_BUILD_LLVM_C_DYLIB", "LLVM_TOOL_LTO_BUILD", "LLVM_TOOL_REMARKS_SHLIB_BUILD",
        "LLVM_INCLUDE_EXAMPLES", "LLVM_INCLUDE_BENCHMARKS", "LLVM_INCLUDE_DOCS", "LLVM_APPEND_VC_REV",
    )  # fmt: skip
    recipe = source.recipe
    projects = [name for name in recipe.project.subprojects if (source.root / name / "CMakeLists.txt").is_file()]
    return {
        **dict.fromkeys(off, "OFF"),
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON",  # LLVM >= 23 precompiles its own: compiler caches do without
        "LLVM_ENABLE_ASSERTIONS": "ON" if CONFIGURATIONS[spec.configuration] else "OFF",
        "LLVM_ENABLE_PROJECTS": ";".join(projects),
        "LLVM_TARGETS_TO_BUILD": ";".join(
            recipe.code_generators if spec.code_generators is None else spec.code_generators
        ),
        "LLVM_ENABLE_RTTI": "ON",  # as distributions do, so that a downstream project sees one kind of SDK
        "LLVM_INSTALL_UTILS": "ON",
        "LLVM_DISTRIBUTION_COMPONENTS": ";".join(components(source, system)),
        **({"CMAKE_OSX_DEPLOYMENT_TARGET": "{}.{}".format(*tag.macos)} if tag.macos else {}),
        **(_WINDOWS if system.name == "windows" else {}),
        **recipe.settings,
    }
