"""Turn a prefix's CMake packages into clean ones: static, self-contained, relocatable.

The quirks of distributions, all handled here:

- everything is linked to ``libLLVM.so`` (and ``libMLIR.so``): both names become interface libraries that link all
  static ones; a linker takes from an archive only what is used;
- the object libraries of the C API are not shipped, which upstream's ``add_mlir_aggregate`` needs: the members of the
  archives are those objects, so they are taken out and declared;
- zlib and zstd are wanted from the system: their static libraries are carried along;
- targets whose files another package holds (Polly, …), or that need libraries which a wheel must not need (libcurl,
  libedit, libffi), are left out, and with them what depends on them, unless the C API does, which is an error; z3 is
  cut from LLVMSupport, whose one object that uses it is never linked by MLIR;
- paths of the build machine are replaced or dropped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.builder.projects.mlir import cmake_exports
from mlir_release.builder.projects.mlir.cmake_exports import PREFIX, Target, linked_name, without_entries
from mlir_release.builder.projects.mlir.python_groups import EXPORTS, OPT_OUT, is_python_group
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.storage.files import copy_regular, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mlir_release.builder.sdk.prefix import Prefix
    from mlir_release.ground.python.platforms import System

#: Names of the carried third-party libraries as targets. Ours, so that a consumer's own ``find_package(ZLIB)`` works.
ZLIB, ZSTD = "mlir_sdk_zlib", "mlir_sdk_zstd"

#: Link entries that mean zlib, zstd and z3, however a distribution found them.
_MEANS_ZLIB = re.compile(r"ZLIB::ZLIB|.*/libz\.(so|a|dylib|tbd)")
_MEANS_ZSTD = re.compile(r"zstd::libzstd_(shared|static)|.*/libzstd\.(so|a|dylib)")
_MEANS_Z3 = re.compile(r"Z3|.*/libz3\.(so|a|dylib)")

#: A condition before a link entry: ``$<$<NOT:$<LINK_LANGUAGE:Swift>>:delayimp`` (of several entries, before the first).
_CONDITION = re.compile(r"\\?\$<.*>:")

#: CMake's option that builds LLVM without a library, by a part of the library's name.
_OPTIONS = {
    "icu": "LLVM_ENABLE_ICU", "iconv": "LLVM_ENABLE_ICONV", "xml2": "LLVM_ENABLE_LIBXML2", "curl": "LLVM_ENABLE_CURL",
    "edit": "LLVM_ENABLE_LIBEDIT", "ffi": "LLVM_ENABLE_FFI", "pfm": "LLVM_ENABLE_LIBPFM",
    "tinfo": "LLVM_ENABLE_TERMINFO", "curses": "LLVM_ENABLE_TERMINFO", "diaguids": "LLVM_ENABLE_DIA_SDK",
    "httplib": "LLVM_ENABLE_HTTPLIB",
}  # fmt: skip

#: Names that generated exports or upstream's CMake files refer to where a build tree has real targets.
_PHANTOM_TARGETS = ("omp_common_td", "acc_common_td", "LinalgOdsGen")

#: Without these there is nothing; the C API's libraries are wanted as well.
_ESSENTIAL = frozenset({"LLVMSupport", "LLVMCore", "MLIRIR", "MLIRSupport", "LLVM", "MLIR"})

#: Packages that ``LLVMConfig.cmake`` looks for on behalf of targets which are not part of an SDK.
_FOUND_PACKAGES = ("FFI", "LibEdit", "ZLIB", "zstd", "LibXml2", "CURL", "httplib", "Terminfo")


@dataclass(kw_only=True)
class Packages:
    """The targets of both packages, as an SDK has them."""

    llvm: dict[str, Target]
    mlir: dict[str, Target]
    dropped: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)
    """Dropped target -> its link to something that an SDK lacks: a library, or a target that is dropped, too."""
    uses_zlib: bool = False
    uses_zstd: bool = False

    @property
    def targets(self) -> list[Target]:
        """All targets of both packages."""
        return [*self.llvm.values(), *self.mlir.values()]

    @property
    def static_libraries(self) -> list[str]:
        """Paths of the archives, relative to the prefix."""
        return [file for target in self.targets if target.kind == "STATIC" for file in target.files]

    @property
    def import_libraries(self) -> list[str]:
        """Paths of the libraries that are linked in place of DLLs."""
        files = (target.properties.get("IMPORTED_IMPLIB", "") for target in self.targets)
        return [file.removeprefix(PREFIX) for file in files if file]

    @property
    def left_out(self) -> dict[str, list[str]]:
        """Library that an SDK lacks -> the targets that are left out because they link it, directly or not."""
        found: dict[str, list[str]] = {}
        for name in sorted(self.reasons):
            found.setdefault(self.first_cause(name)[1], []).append(name)
        return found

    def first_cause(self, name: str) -> tuple[str, str]:
        """For a target in :attr:`reasons`: the target that links a library which an SDK lacks, and that library."""
        while (linked := self.reasons[name]) in self.reasons:
            name = linked
        return name, linked

    @property
    def c_api_libraries(self) -> list[Target]:
        """The libraries of the C API: those that can be aggregated."""
        return [target for target in self.mlir.values() if "MLIR_AGGREGATE_OBJECT_LIB_IMPORTED" in target.properties]


def read_packages(prefix: Prefix, tools: Iterable[str]) -> Packages:
    """Read the prefix's exports and make them static and self-contained.

    :param tools: programs that the SDK carries; others are dropped
    :raises VerificationError: if a library that the bindings need cannot be made self-contained:
        ``llvm-unsuitable`` names what it links, ``llvm-unsuitable`` what is not there
    """
    packages = Packages(
        llvm=cmake_exports.read(prefix.cmake("llvm") / "LLVMExports.cmake"),
        mlir={
            name: target
            for name, target in cmake_exports.read(prefix.cmake("mlir") / "MLIRTargets.cmake").items()
            if not is_python_group(target)  # an SDK makes its own
        },
    )
    everything = {target.name for target in packages.targets}
    wanted = {library.name for library in packages.c_api_libraries}
    _replace_shared(packages)
    _replace_third_party(packages)
    kept_tools = set(tools)
    absent = {
        target.name
        for target in packages.targets
        if (target.kind == "EXECUTABLE" and target.name not in kept_tools)
        or target.kind == "MODULE"
        or (target.kind in {"STATIC", "SHARED"} and not all((prefix.root / file).is_file() for file in target.files))
    }
    _drop(packages, absent)
    while True:
        known = {target.name for target in packages.targets}
        broken = {
            target.name: linked_name(entry)
            for target in packages.targets
            for entry in target.links
            if linked_name(entry) not in known and not _of_the_system(entry, prefix.platform.system)
        }
        if not broken:
            break
        packages.reasons |= broken
        _drop(packages, set(broken))
    packages.dropped = everything - {target.name for target in packages.targets}
    if lost := sorted((_ESSENTIAL | wanted) & packages.dropped):
        raise _incomplete(packages, lost, prefix)
    for target in packages.targets:
        for key in ("INTERFACE_INCLUDE_DIRECTORIES", "INTERFACE_SOURCES"):
            value = target.properties.get(key, "")
            if any(entry.startswith("/") for entry in value.split(";")):
                del target.properties[key]  # a folder of the build machine
    return packages


def _replace_shared(packages: Packages) -> None:
    """Make ``LLVM`` and ``MLIR`` interface libraries of all the static ones that the shared ones were made from."""
    for library, targets, left_out in (
        ("LLVM", packages.llvm, re.compile(r"LLVM")),
        ("MLIR", packages.mlir, re.compile(r"MLIRCAPI.*|.*Test.*")),
    ):
        # A static library that itself links the shared one is not part of it.
        outside = {name for name, target in targets.items() if library in map(linked_name, target.links)}
        members = [
            name
            for name, target in targets.items()
            if target.kind == "STATIC" and name not in outside and not left_out.fullmatch(name)
        ]
        targets.pop(library, None)
        targets[library] = Target(
            name=library, kind="INTERFACE", properties={"INTERFACE_LINK_LIBRARIES": ";".join(members)}
        )
    # These are linked to libLLVM.so; beside the static libraries they would load LLVM into a process twice.
    for name in ("LTO", "Remarks", "MLIRExecutionEngineShared", "MLIR-C"):
        packages.llvm.pop(name, None)
        packages.mlir.pop(name, None)


def _replace_third_party(packages: Packages) -> None:
    entries = {linked_name(entry) for target in packages.targets for entry in target.links}
    replacements: dict[str, str | None] = {}
    for entry in entries:
        if _MEANS_ZLIB.fullmatch(entry):
            replacements[entry] = ZLIB
            packages.uses_zlib = True
        elif _MEANS_ZSTD.fullmatch(entry):
            replacements[entry] = ZSTD
            packages.uses_zstd = True
        elif _MEANS_Z3.fullmatch(entry):
            replacements[entry] = None
    for target in packages.targets:
        cmake_exports.replace_links(target, replacements)
    for used, name, file in (
        (packages.uses_zlib, ZLIB, "lib/libz.a"),
        (packages.uses_zstd, ZSTD, "lib/libzstd.a"),
    ):
        if used:
            packages.llvm[name] = Target(
                name=name,
                kind="STATIC",
                properties={
                    "IMPORTED_LOCATION": PREFIX + file,
                    "IMPORTED_LINK_INTERFACE_LANGUAGES": "C",
                    # Distributions compile these for programs, not for shared libraries; the linker takes them into
                    # one only where their symbols are not exported (nor should they be).
                    "INTERFACE_LINK_OPTIONS": f"\\$<\\$<PLATFORM_ID:Linux>:LINKER:--exclude-libs,{Path(file).name}>",
                },
            )


def _drop(packages: Packages, names: set[str]) -> None:
    gone: dict[str, str | None] = dict.fromkeys(names - {ZLIB, ZSTD})
    for targets in (packages.llvm, packages.mlir):
        for name in gone.keys() & targets.keys():
            del targets[name]
        for name in {"LLVM", "MLIR"} & targets.keys():
            cmake_exports.replace_links(targets[name], gone)


def _of_the_system(entry: str, system: System) -> bool:
    """Whether a link entry is a library that every machine has, or an option (``-lm``, ``-delayload:x.dll``)."""
    name = _CONDITION.sub("", linked_name(entry)).removesuffix(">").removesuffix(".lib")
    return name.startswith("-") or not system.system_libraries.isdisjoint({name, name.lower()})


def _incomplete(packages: Packages, lost: list[str], prefix: Prefix) -> VerificationError:
    """The error for an LLVM without some of what the bindings need; says what comes first of all that is wrong."""
    causes = sorted({packages.first_cause(name) for name in lost if name in packages.reasons})
    outside = [(target, library) for target, library in causes if library not in packages.dropped]
    if not outside:
        absent = sorted({library for _, library in causes} | {name for name in lost if name not in packages.reasons})
        return VerificationError(
            "llvm-unsuitable",
            f"{', '.join(absent)} cannot be taken from this LLVM",
            where=str(prefix.cmake("mlir")),
            why="the exports name static libraries that are not there",
            remedy="install the static libraries, or build an SDK from source: `mlir-release sdk build`",
        )
    options = sorted({option for _, library in outside for part, option in _OPTIONS.items() if part in library.lower()})
    how = f" ({' '.join(f'-D{option}=OFF' for option in options)})" if options else ""
    return VerificationError(
        "llvm-unsuitable",
        f"this LLVM links {', '.join(sorted({library for _, library in outside}))}, which an SDK does not carry",
        where=str(prefix.cmake("llvm")),
        why="; ".join(f"{target} links {library}" for target, library in outside)
        + f": without it, {len(lost)} libraries that the bindings need would be left out",
        remedy=f"use an LLVM that was built without it{how}, or build one: `mlir-release sdk build`",
    )


def add_object_libraries(packages: Packages, objects: dict[str, list[str]]) -> None:
    """Declare ``obj.<library>`` for each C API library; ``objects`` gives the files, relative to the prefix."""
    for name, files in objects.items():
        packages.mlir[f"obj.{name}"] = Target(
            name=f"obj.{name}",
            kind="OBJECT",
            properties={"IMPORTED_OBJECTS": ";".join(PREFIX + file for file in files)},
        )


def write_packages(prefix: Prefix, packages: Packages, output: Path) -> None:
    """Write ``lib/cmake/llvm`` and ``lib/cmake/mlir`` below ``output``."""
    origin = f"Made from LLVM {prefix.version} ({prefix.provider})."
    for package, folder, exports, targets in (
        ("llvm", prefix.cmake("llvm"), "LLVMExports", packages.llvm),
        ("mlir", prefix.cmake("mlir"), "MLIRTargets", packages.mlir),
    ):
        target_dir = output / "lib" / "cmake" / package
        target_dir.mkdir(parents=True)
        for file in sorted(folder.iterdir()):
            if file.is_file() and not file.name.startswith(exports):
                copy_regular(file, target_dir / file.name)
        text = cmake_exports.write(targets.values(), origin=origin)
        if package == "mlir":
            text += "".join(
                f"\nif(NOT TARGET {name})\n  add_custom_target({name})\nendif()\n" for name in _PHANTOM_TARGETS
            )
            text += f'\nif(NOT {OPT_OUT})\n  include("${{CMAKE_CURRENT_LIST_DIR}}/{EXPORTS}")\nendif()\n'
        (target_dir / f"{exports}.cmake").write_text(text, "utf-8", "surrogateescape")
    for config, clean in (("llvm/LLVMConfig.cmake", _clean_llvm_config), ("mlir/MLIRConfig.cmake", _clean_mlir_config)):
        file = output / "lib" / "cmake" / config
        file.write_text(clean(read_text(file, errors="surrogateescape"), packages.dropped), "utf-8", "surrogateescape")
    extensions = output / "lib" / "cmake" / "llvm" / "LLVMConfigExtensions.cmake"
    if extensions.is_file():
        extensions.write_text("set(LLVM_STATIC_EXTENSIONS)\n", encoding="utf-8")


def _clean_llvm_config(text: str, dropped: set[str]) -> str:
    text = _set(text, "LLVM_LINK_LLVM_DYLIB", "OFF")
    text = re.sub(rf"^\s*find_package\(({'|'.join(_FOUND_PACKAGES)})\b[^)]*\)\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*set\((ZLIB|zstd|LibXml2|Terminfo)_ROOT\b[^)]*\)\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^include\(CMakeFindDependencyMacro\)\n", "", text, flags=re.MULTILINE)
    for name in ("FFI", "LIBEDIT", "LIBXML2", "CURL", "HTTPLIB"):
        text = _set(text, f"LLVM_ENABLE_{name}", "OFF")
    text = _set(text, "LLVM_WITH_Z3", "OFF")
    return without_entries(_drop_build_paths(text, "LLVM_INSTALL_PREFIX"), dropped)


def _clean_mlir_config(text: str, dropped: set[str]) -> str:
    text = _set(text, "MLIR_LINK_MLIR_DYLIB", "OFF")
    text = _set(text, "MLIR_INSTALL_AGGREGATE_OBJECTS", "ON")
    text = _set(text, "MLIR_ENABLE_BINDINGS_PYTHON", "ON")
    text = _set(text, "MLIR_INCLUDE_DIR", '"${MLIR_INSTALL_PREFIX}/include"')
    text = _set(text, "MLIR_MAIN_SRC_DIR", '"${MLIR_INSTALL_PREFIX}/source/mlir"')
    return without_entries(_drop_build_paths(text, "MLIR_INSTALL_PREFIX"), dropped)


def _set(text: str, name: str, value: str) -> str:
    """Give a variable that is set another value; one that is not set stays so."""
    return re.sub(rf"^(\s*set\({name})\b[^)]*\)", lambda match: f"{match[1]} {value})", text, flags=re.MULTILINE)


def _drop_build_paths(text: str, prefix_variable: str) -> str:
    """Drop ``set`` lines that hold an absolute path: of the build machine, or a prefix that is elsewhere now."""
    return re.sub(rf'^\s*set\((?!{prefix_variable}\b)[A-Za-z0-9_]+ "?/[^)]*\)\n', "", text, flags=re.MULTILINE)
