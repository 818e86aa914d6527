"""An SDK as it is published: without upstream's test libraries, and without code generators that MLIR has no use for.

The code generators that stay are the host's, and those that ``mlir/lib/Target`` makes objects with (GPUs). The others,
which distributions build, too, are taken out of the exports, of the lists in the CMake packages and of LLVM's headers,
so that nobody is offered a library that is not there. LLVM's libraries were compiled with all of them, though, and call
their initializers. Those get definitions that do nothing (:data:`LEFT_OUT`), as for a code generator that LLVM was
built without.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from mlir_release.sdk import cmake_exports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.sdk.cmake_exports import Target
    from mlir_release.sdk.info import Sdk

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
        """What a published SDK consists of."""
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
        """Of ``LLVM_TARGET(AArch64)`` and ``#define LLVM_HAS_AARCH64_TARGET 1``."""
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
