"""The members of the wheel ``mlir-sdk``, which builds need.

``mlir_sdk/`` is the SDK's own tree, without what only tests and wheels of the bindings need. It has ``llvm-config``,
which answers for this tree's headers and libraries. On PATH it is a script of the environment (an ``.exe`` on Windows).

The wheel lacks upstream's test libraries, and the code generators that MLIR has no use for (:class:`Reduced`). The code
generators that stay are the host's, and those that ``mlir/lib/Target`` makes objects with (GPUs). The others, which
distributions build, too, are taken out of the exports, of the lists in the CMake packages and of LLVM's headers, so
that nobody is offered a library that is not there. LLVM's libraries were compiled with all of them, though, and call
their initializers. A library of definitions that do nothing (:data:`LEFT_OUT`) has those, as for a code generator that
LLVM was built without. The SDK's own ``llc`` compiles it, so Makefiles and Cargo can link it, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.version import Version

from mlir_release.builder.model.sdk_wheel_info import SDK_WHEEL_INFO
from mlir_release.builder.projects.mlir import LLVM_CONFIG, SDK_WHEEL, cmake_exports, llvm_config
from mlir_release.builder.projects.mlir.python_groups import EXPORTS
from mlir_release.builder.sdk.parts import BUILD, LINKERS
from mlir_release.builder.wheels.archive import Member
from mlir_release.ground.errors import MachineError
from mlir_release.ground.programs.process import capture
from mlir_release.ground.python.requirements import of_names
from mlir_release.ground.storage.files import mapped, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mlir_release.builder.model.sdk_wheel_info import SdkWheelInfo
    from mlir_release.builder.projects.mlir.cmake_exports import Target
    from mlir_release.builder.sdk.info import Sdk

#: The package.
PACKAGE = "mlir_sdk"

#: A source of upstream's that every Python package of a downstream has; what is beside it, such a package has, too.
_IN_EVERY_PACKAGE = "ir.py"

#: Where the CMake packages' additions are.
_CHECKS = "lib/cmake/mlir-sdk"

#: The code generators that MLIR's own libraries call, where LLVM was built with them (``mlir/lib/Target/LLVM``).
_OF_MLIR = frozenset({"NVPTX", "AMDGPU", "SPIRV"})

#: Libraries of ``mlir/test/lib`` (``MLIRTestDialect``, ``MLIRSCFTestPasses``, ``MLIRShardTest``), and ``mlir-opt``'s.
_TEST_LIBRARY = re.compile(r"MLIRMlirOptMain|MLIRTest[A-Z]\w*|MLIR\w+TestPasses|MLIR\w+Test")

#: The files that export the targets of the two packages, below ``lib/cmake``.
_EXPORTS = ("llvm/LLVMExports.cmake", "mlir/MLIRTargets.cmake")
_CONFIGS = ("llvm/LLVMConfig.cmake", "mlir/MLIRConfig.cmake")

#: Where the text that :func:`~mlir_release.builder.projects.mlir.cmake_exports.write` makes ends; more is added after
#: it.
_END_OF_EXPORTS = "\nunset(_IMPORT_PREFIX)\n"

#: The static library of initializers that do nothing, which the packages declare.
LEFT_OUT = "MLIRSdkLeftOut"

#: Where the CMake packages and ``llvm-config`` find it.
_LEFT_OUT_FILE = f"lib/lib{LEFT_OUT}.a"


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
        """The initializers that are called and left out, as functions of LLVM IR that return; empty without any."""
        names = sorted(frozenset().union(*self.calls.values()))
        return "".join(f"define void @{name}() {{ ret void }}\n" for name in names)

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
        return read_text(self.sdk.root / path, errors="surrogateescape")

    def _exports(self, path: str) -> str:
        targets = cmake_exports.read(self.sdk.root / path)
        gone: dict[str, str | None] = dict.fromkeys(self.dropped)
        kept = [target for name, target in targets.items() if name not in self.dropped]
        for target in kept:
            cmake_exports.replace_links(target, gone)
            if target.name in self.calls:
                target.properties["INTERFACE_LINK_LIBRARIES"] = ";".join([*target.links, LEFT_OUT])
        if self.calls and path == f"lib/cmake/{_EXPORTS[0]}":
            compiled = {
                "IMPORTED_LINK_INTERFACE_LANGUAGES": "C",
                "IMPORTED_LOCATION": cmake_exports.PREFIX + _LEFT_OUT_FILE,
            }
            kept.append(cmake_exports.Target(name=LEFT_OUT, kind="STATIC", properties=compiled))
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
    found: set[bytes] = set()
    for file in target.files:
        with mapped(sdk.root / file) as content:
            found.update(pattern.findall(content))
    return frozenset(name.decode() for name in found)


def sdk_members(reduced: Reduced, info: SdkWheelInfo, scratch: Path) -> Iterator[Member]:
    """The files of ``mlir-sdk``, without its metadata. What is compiled for it is written to ``scratch``.

    :raises MachineError: ``program-failed``
    """
    root = reduced.sdk.root
    for path, line in reduced.sdk.listed(BUILD).items():
        # Sources are those of our own wheels; ``llvm-config`` is added by itself.
        file = PurePosixPath(path)
        unpublished = file.parts[0] in {"source", "licenses"} or path == f"bin/{llvm_config.NAME}"
        linker = file.parts[0] == "bin" and file.name.removesuffix(".exe") in LINKERS
        if path not in reduced.files and not unpublished and not linker:
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
        scratch.mkdir(parents=True, exist_ok=True)
        source, compiled, library = scratch / "left_out.ll", scratch / "left_out.o", scratch / Path(_LEFT_OUT_FILE).name
        source.write_text(reduced.initializers, encoding="utf-8")
        library.unlink(missing_ok=True)
        tools = reduced.sdk.tools
        commands: tuple[list[Path | str], ...] = (
            [tools / "llc", "-filetype=obj", "-relocation-model=pic", source, "-o", compiled],
            [tools / "llvm-ar", "rcD", library, compiled],
        )
        for command in commands:
            done = capture(command)
            if not done.ok:
                raise MachineError(
                    "program-failed",
                    f"the SDK's own {Path(command[0]).name} failed, which compiles the initializers that it leaves out",
                    where=str(command[0]),
                    why=done.complaint,
                    remedy="make the SDK of an LLVM that has llc and llvm-ar, on a machine that can run them",
                )
        yield Member(name=f"{PACKAGE}/{_LEFT_OUT_FILE}", content=library)
    yield Member(name=f"{PACKAGE}/bin/{llvm_config.NAME}", content=LLVM_CONFIG, executable=True)
    yield Member(name=f"{PACKAGE}/{SDK_WHEEL_INFO}", content=info.to_text())
    group = _core_group(cmake_exports.read(root / "lib" / "cmake" / "mlir" / EXPORTS))
    yield Member(name=f"{PACKAGE}/src/python/{group}/{SDK_WHEEL_INFO}", content=info.to_text())


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
