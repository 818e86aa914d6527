"""The members of the wheels of an SDK: ``mlir-sdk`` for builds, ``mlir-sdk-tools`` with the programs.

``mlir_sdk/`` is the SDK's own tree, without what only tests and wheels of the bindings need. The programs are for the
environment's ``bin``, and their libraries for ``lib/mlir-sdk-tools`` beside it, where their run path leads.
A wheel has no symbolic links: a program's second name is a script that runs the program under that name, because the
name matters (``ld.lld``, ``llvm-ranlib``).

The wheels lack upstream's test libraries, and the code generators that MLIR has no use for (:class:`Reduced`). The code
generators that stay are the host's, and those that ``mlir/lib/Target`` makes objects with (GPUs). The others, which
distributions build, too, are taken out of the exports, of the lists in the CMake packages and of LLVM's headers, so
that nobody is offered a library that is not there. LLVM's libraries were compiled with all of them, though, and call
their initializers. Those get definitions that do nothing (:data:`LEFT_OUT`), as for a code generator that LLVM was
built without.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from mlir_release.model.requirements import of_names
from mlir_release.model.sdk_wheel_info import SDK_WHEEL_INFO
from mlir_release.projects.mlir import SDK_WHEEL
from mlir_release.sdk import cmake_exports
from mlir_release.sdk.parts import BUILD, LINKERS
from mlir_release.sdk.programs import (
    RUNNER_LIBRARIES,
    finds_libraries,
    is_elf,
    link_or_copy,
    needed_libraries,
    set_run_path,
)
from mlir_release.sdk.python_sources import EXPORTS
from mlir_release.wheels.archive import Member

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mlir_release.model.sdk_wheel_info import SdkWheelInfo
    from mlir_release.sdk.cmake_exports import Target
    from mlir_release.sdk.info import Sdk
    from mlir_release.wheels.archive import Identity

#: The packages.
PACKAGE, TOOLS_PACKAGE = "mlir_sdk", "mlir_sdk_tools"

#: Below the environment, where the programs' libraries are.
_LIBRARIES = "lib/mlir-sdk-tools"

#: Programs of ``mlir/examples`` and of LLVM's own tests. Each is most of MLIR once more.
_NOT_PUBLISHED = frozenset(
    {"mlir-minimal-opt", "mlir-minimal-opt-canonicalize", "mlir-transform-opt", "lli-child-target"}
)

#: A source of upstream's that every Python package of a downstream has; what is beside it, such a package has, too.
_IN_EVERY_PACKAGE = "ir.py"

#: Where the CMake packages' additions are.
_CHECKS = "lib/cmake/mlir-sdk"

#: A script for a second name. pip and uv put the environment's interpreter into its first line.
_SECOND_NAME = """\
#!python
import os
import sys

os.execv(os.path.join(os.path.dirname(os.path.abspath(__file__)), {program!r}), [{name!r}, *sys.argv[1:]])
"""

#: The code generators that MLIR's own libraries call, where LLVM was built with them (``mlir/lib/Target/LLVM``).
_OF_MLIR = frozenset({"NVPTX", "AMDGPU", "SPIRV"})

#: Libraries of ``mlir/test/lib`` (``MLIRTestDialect``, ``MLIRSCFTestPasses``, ``MLIRShardTest``), and ``mlir-opt``'s.
_TEST_LIBRARY = re.compile(r"MLIRMlirOptMain|MLIRTest[A-Z]\w*|MLIR\w+TestPasses|MLIR\w+Test")

#: The files that export the targets of the two packages, below ``lib/cmake``.
_EXPORTS = ("llvm/LLVMExports.cmake", "mlir/MLIRTargets.cmake")
_CONFIGS = ("llvm/LLVMConfig.cmake", "mlir/MLIRConfig.cmake")

#: Where the text that :func:`~mlir_release.sdk.cmake_exports.write` makes ends; the importer adds more after it.
_END_OF_EXPORTS = "\nunset(_IMPORT_PREFIX)\n"

#: The CMake library of initializers that do nothing, which the packages declare.
LEFT_OUT = "MLIRSdkLeftOut"

_INITIALIZERS = """\
// Called by libraries of this SDK, which were compiled with more code generators than it has.
extern "C" {{
{definitions}
}}
"""


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """An SDK without some targets."""

    sdk: Sdk
    code_generators: tuple[str, ...]  #: those that are left
    dropped_generators: frozenset[str]
    dropped: frozenset[str]  #: CMake targets
    files: frozenset[str]  #: their files, relative to the SDK
    calls: Mapping[str, frozenset[str]]  #: CMake target -> initializers of dropped code generators that it calls

    @classmethod
    def of(cls, sdk: Sdk) -> Reduced:
        """The SDK as it is published."""
        needed = _OF_MLIR | {sdk.info.native_code_generator}
        generators = frozenset(name for name in sdk.info.code_generators if name not in needed)
        targets = {
            name: target
            for exports in _EXPORTS
            for name, target in cmake_exports.read(sdk.cmake_dir / exports).items()
            if target.kind == "STATIC"
        }
        libraries = {name for name in targets if _of_generator(name, generators)} | _of_tests(targets)
        kept = {name: target for name, target in targets.items() if name not in libraries}
        return cls(
            sdk=sdk,
            code_generators=tuple(name for name in sdk.info.code_generators if name in needed),
            dropped_generators=generators,
            dropped=frozenset(libraries),
            files=frozenset(file for name in libraries for file in targets[name].files),
            calls={name: found for name, target in kept.items() if (found := _calls(sdk, target, generators))},
        )

    @property
    def initializers(self) -> str:
        """C++ source of the initializers that are called and left out; empty without any."""
        names = sorted(frozenset().union(*self.calls.values()))
        return _INITIALIZERS.format(definitions="\n".join(f"void {name}() {{}}" for name in names)) if names else ""

    def rewritten(self, path: str) -> str | None:
        """The text of a file that names what is left out; None of any other. ``path`` is relative to the SDK."""
        file = PurePosixPath(path)
        if path in {f"lib/cmake/{name}" for name in _EXPORTS}:
            return self._exports(path)
        if path in {f"lib/cmake/{name}" for name in _CONFIGS}:
            return cmake_exports.without_entries(self._text(path), self.dropped | self.dropped_generators)
        if file.parent == PurePosixPath("include/llvm/Config") and file.suffix in {".def", ".h"}:
            return self._header(self._text(path))
        return None

    def _text(self, path: str) -> str:
        return (self.sdk.root / path).read_text("utf-8", "surrogateescape")

    def _exports(self, path: str) -> str:
        targets = cmake_exports.read(self.sdk.root / path)
        gone: dict[str, str | None] = dict.fromkeys(self.dropped)
        kept = [target for name, target in targets.items() if name not in self.dropped]
        for target in kept:
            cmake_exports.replace_links(target, gone)
            if target.name in self.calls:
                target.properties["INTERFACE_LINK_LIBRARIES"] = ";".join([*target.links, LEFT_OUT])
        _, end, more = self._text(path).partition(_END_OF_EXPORTS)
        written = cmake_exports.write(kept, origin=f"Made from LLVM {self.sdk.info.llvm_version}.")
        return written.removesuffix(end) + end + more

    def _header(self, text: str) -> str:
        """A header with lines such as ``LLVM_TARGET(AArch64)`` and ``#define LLVM_HAS_AARCH64_TARGET 1``."""
        names = "|".join(map(re.escape, sorted(self.dropped_generators))) or "(?!)"
        text = re.sub(rf"^LLVM_[A-Z]+\((?:{names})\)\n", "", text, flags=re.MULTILINE)
        has = rf"^#define (LLVM_HAS_(?:{names.upper()})_TARGET) 1$" if self.dropped_generators else "(?!)"
        return re.sub(has, r"#define \1 0", text, flags=re.MULTILINE)


def _of_tests(targets: Mapping[str, Target]) -> set[str]:
    """Upstream's test libraries, and what can't be linked without them: ``mlir-opt``'s own library."""
    found = {name for name in targets if _TEST_LIBRARY.fullmatch(name)}
    while more := {
        name
        for name, target in targets.items()
        if name not in found and not found.isdisjoint(map(cmake_exports.linked_name, target.links))
    }:
        found |= more
    return found


def _of_generator(library: str, generators: frozenset[str]) -> bool:
    """Whether a library belongs to one of the code generators: ``LLVMAArch64CodeGen``, ``LLVMExegesisAArch64``."""
    rest = library.removeprefix("LLVM").removeprefix("Exegesis")
    return library.startswith("LLVM") and any(
        rest == name or (rest.startswith(name) and rest[len(name)].isupper()) for name in generators
    )


def _calls(sdk: Sdk, target: Target, generators: frozenset[str]) -> frozenset[str]:
    """The initializers of ``generators`` that a library's symbol tables name: ``LLVMInitializeAVRTargetInfo``."""
    names = "|".join(map(re.escape, sorted(generators))) or "(?!)"
    pattern = re.compile(rf"LLVMInitialize(?:{names})[A-Z][A-Za-z]*".encode())
    return frozenset(name.decode() for file in target.files for name in pattern.findall((sdk.root / file).read_bytes()))


def sdk_members(reduced: Reduced, info: SdkWheelInfo) -> Iterator[Member]:
    """The files of ``mlir-sdk``, without its metadata."""
    root = reduced.sdk.root
    for path, line in reduced.sdk.listed(BUILD).items():
        if path not in reduced.files and _is_published(path):
            text = _with_checks(path, reduced.rewritten(path), reduced.sdk)
            yield Member(
                name=f"{PACKAGE}/{path}",
                content=root / path if text is None else text,
                executable=line.startswith("exec "),
            )
    for ours in sorted((SDK_WHEEL / PACKAGE).glob("*.py")):
        yield Member(name=f"{PACKAGE}/{ours.name}", content=ours)
    for ours in sorted((SDK_WHEEL / "cmake").glob("*.cmake")):
        yield Member(name=f"{PACKAGE}/{_CHECKS}/{ours.name}", content=ours)
    yield Member(name=f"{PACKAGE}/{_CHECKS}/facts.cmake", content=facts_for_cmake(reduced.sdk, info))
    if reduced.initializers:
        yield Member(name=f"{PACKAGE}/src/{LEFT_OUT}.cpp", content=reduced.initializers)
    yield Member(name=f"{PACKAGE}/{SDK_WHEEL_INFO}", content=info.to_text())
    group = _core_group(cmake_exports.read(root / "lib" / "cmake" / "mlir" / EXPORTS))
    yield Member(name=f"{PACKAGE}/src/python/{group}/{SDK_WHEEL_INFO}", content=info.to_text())


def _is_published(path: str) -> bool:
    """Linkers are among the programs; the sources are those of our own wheels."""
    file = PurePosixPath(path)
    linker = file.parts[0] == "bin" and file.name.removesuffix(".exe") in LINKERS
    return file.parts[0] not in {"source", "licenses"} and not linker


def _with_checks(path: str, text: str | None, sdk: Sdk) -> str | None:
    """The text of a file of the CMake packages with what ``mlir-sdk`` adds; other files' as it is."""
    if path in {"lib/cmake/llvm/LLVMConfig.cmake", "lib/cmake/mlir/MLIRConfig.cmake"} and text is not None:
        begin, end = (f'include("${{CMAKE_CURRENT_LIST_DIR}}/../mlir-sdk/{name}.cmake")\n' for name in ("begin", "end"))
        return f"{begin}{text}\n{end}"
    if path == f"lib/cmake/mlir/{EXPORTS}":
        groups = cmake_exports.read(sdk.root / path)
        core = groups[_core_group(groups)]
        core.properties["INTERFACE_SOURCES"] += f";{cmake_exports.PREFIX}src/python/{core.name}/{SDK_WHEEL_INFO}"
        return cmake_exports.write(groups.values(), origin="Upstream's groups of Python sources.")
    return text


def _core_group(groups: Mapping[str, Target]) -> str:
    """The group of Python sources that every Python package of a downstream has."""
    return next(
        name
        for name, group in groups.items()
        if f"{cmake_exports.PREFIX}src/python/{name}/{_IN_EVERY_PACKAGE}"
        in group.properties.get("INTERFACE_SOURCES", "").split(";")
    )


def facts_for_cmake(sdk: Sdk, info: SdkWheelInfo) -> str:
    """The facts that ``begin.cmake`` and ``end.cmake`` compare with."""
    platform = sdk.info.platform
    processors = {
        name.lower() for name in platform.system.architectures if platform.system.architecture(name) == platform.arch
    }
    required = next(iter(of_names(info.binding_requirements, "nanobind")), "")
    facts = {
        "MLIR_SDK_TITLE": info.title,
        "MLIR_SDK_DIGEST": info.digest,
        "MLIR_SDK_PLATFORM": platform.title,
        "MLIR_SDK_SYSTEM": platform.system.host,
        "MLIR_SDK_PROCESSORS": ";".join(sorted(processors)),
        "MLIR_SDK_C_RUNTIME": info.c_runtime,
        "MLIR_SDK_NANOBIND_REQUIREMENT": required,
        "MLIR_SDK_NANOBIND": ";".join(_comparisons(required)) if required else "",
    }
    return "".join(f'set({name} "{value}")\n' for name, value in facts.items())


def _comparisons(requirement: str) -> Iterator[str]:
    """A requirement's bounds as CMake compares versions: ``VERSION_GREATER_EQUAL;2.9``."""
    words = {">=": "VERSION_GREATER_EQUAL", "<=": "VERSION_LESS_EQUAL", "<": "VERSION_LESS", ">": "VERSION_GREATER"}
    for bound in sorted(Requirement(requirement).specifier, key=str):
        if bound.operator == "~=":
            release = Version(bound.version).release
            yield f"{words['>=']};{bound.version};{words['<']};{'.'.join(map(str, (*release[:-2], release[-2] + 1)))}"
        elif bound.operator == "==":
            yield f"VERSION_EQUAL;{bound.version.removesuffix('.*')}"
        elif bound.operator in words:
            yield f"{words[bound.operator]};{bound.version}"


def tools_members(sdk: Sdk, info: SdkWheelInfo, identity: Identity, scratch: Path) -> Iterator[Member]:
    """The files of ``mlir-sdk-tools``, without its metadata. Programs are copied to ``scratch`` and given run paths."""
    programs = [path for path in sorted(sdk.tools.iterdir()) if path.name.removesuffix(".exe") not in _NOT_PUBLISHED]
    real = [_installed(path, scratch / "bin") for path in programs if not path.is_symlink()]
    libraries = [_installed(path, scratch / _LIBRARIES) for path in _libraries(sdk, real)]
    wanted = {path.name for path in libraries}
    for path in (*real, *libraries):
        if is_elf(path) and not finds_libraries(path, wanted, scratch / _LIBRARIES):
            set_run_path(path, scratch / _LIBRARIES)
    for path in real:
        yield Member(name=f"{identity.data}/scripts/{path.name}", content=path, executable=True)
    for path in programs:
        if path.is_symlink():
            script = _SECOND_NAME.format(program=path.resolve().name, name=path.name)
            yield Member(name=f"{identity.data}/scripts/{path.name}", content=script, executable=True)
    for path in libraries:
        yield Member(name=f"{identity.data}/data/{_LIBRARIES}/{path.name}", content=path, executable=True)
    yield Member(name=f"{TOOLS_PACKAGE}/__init__.py", content='"""The programs are in the environment\'s ``bin``."""\n')
    yield Member(name=f"{TOOLS_PACKAGE}/{SDK_WHEEL_INFO}", content=info.to_text())
    cmake = (SDK_WHEEL / "tools.cmake").read_text(encoding="utf-8")
    facts = {"MLIR_SDK_TOOLS_DIGEST": info.digest, "MLIR_SDK_TOOLS_TITLE": info.title}
    names = " ".join(path.name for path in programs)
    head = "".join(f"set({name} {json.dumps(value)})\n" for name, value in facts.items())
    yield Member(name=f"{TOOLS_PACKAGE}/tools.cmake", content=f"{head}set(MLIR_SDK_TOOLS {names})\n{cmake}")


def _installed(path: Path, folder: Path) -> Path:
    target = folder / path.name
    link_or_copy(path, target)
    return target


def _libraries(sdk: Sdk, programs: list[Path]) -> list[Path]:
    """The SDK's own shared libraries that the programs need, directly or not, and the runner libraries.

    On Windows they are beside the programs, and are programs to :func:`tools_members`.
    """
    runners = [path for path in sdk.libraries.iterdir() if RUNNER_LIBRARIES.fullmatch(path.name)]
    if not all(map(is_elf, programs)):
        return sorted({*runners, *sdk.libraries.glob("*.dylib")})
    return sorted({*runners, *needed_libraries([*programs, *runners], sdk.libraries).values()})
