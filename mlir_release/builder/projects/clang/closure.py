"""The static libraries that libclang is linked with, read from upstream's CMake files.

An SDK of clang has these alone: a third of LLVM's and clang's libraries, and none that compiles anything. The list need
not be exact: CMake refuses a component that is not there, and the link of libclang a name that no library has.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mlir_release.ground.storage.files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LIBCLANG = "clang/tools/libclang"

#: Parts of a code generator: libclang knows every target's name, and assembles Microsoft's blocks, which X86 has alone.
_NAMES, _ASSEMBLER = "Info", ("X86AsmParser", "X86Desc", "X86Info")

_LIBRARY = re.compile(r"\badd_(?:clang|llvm_component)_library\(\s*(?P<name>\w+)(?P<words>[^)]*)\)")
_COMPONENTS = re.compile(r"\bset\(\s*LLVM_LINK_COMPONENTS(?P<words>[^)]*)\)")
_LINKED = re.compile(r"\b(?:set\(\s*LIBS\b|list\(\s*APPEND\s+LIBS\b)(?P<words>[^)]*)\)")


def libraries(source: Path) -> list[str]:
    """CMake's names of the libraries (``clangAST``, ``LLVMSupport``), sorted, of the tree at ``source``.

    Those with the names of experimental targets are only there where a build asked for them.
    """
    needs: dict[str, set[str]] = {}
    names: dict[str, str] = {}
    for name, component, needed in _libraries(source):
        needs[name] = needed
        names[component.lower()] = name  # LLVMScalarOpts is the component Scalar; upstream writes ipo and IPO
    text = _read(source / _LIBCLANG / "CMakeLists.txt")
    linked = [word for match in _LINKED.finditer(text) for word in match["words"].split()]
    waiting = {*linked, *_components(_after("LINK_COMPONENTS", text.split())), *(f"LLVM{part}" for part in _ASSEMBLER)}
    waiting |= {f"LLVM{folder.parent.name}{_NAMES}" for folder in source.glob("llvm/lib/Target/*/TargetInfo")}
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        name = names.get(name.lower(), name)
        if name in needs and name not in found:  # others are conditions' variables, and the system's libraries
            found.add(name)
            waiting |= needs[name]
    return sorted(found)


def _libraries(source: Path) -> Iterator[tuple[str, str, set[str]]]:
    """Each library of clang and LLVM, its name as a component, and those that it is linked with."""
    for root in (source / "clang" / "lib", source / "llvm" / "lib"):
        for file in root.rglob("CMakeLists.txt"):
            text = _read(file)
            shared = {name for match in _COMPONENTS.finditer(text) for name in _components(match["words"].split())}
            for match in _LIBRARY.finditer(text):
                words = match["words"].split()
                (component,) = _components(_after("COMPONENT_NAME", words)[:1]) or {match["name"]}
                yield (
                    match["name"],
                    component,
                    {
                        *shared,
                        *_after("LINK_LIBS", words),
                        *_components(_after("LINK_COMPONENTS", words)),
                    },
                )


def _components(words: Iterable[str]) -> set[str]:
    return {f"LLVM{word}" for word in words}


def _after(keyword: str, words: list[str]) -> list[str]:
    """The values of a keyword among the arguments of a command: up to the next keyword."""
    found, taking = [], False
    for word in words:
        if re.fullmatch(r"DEPENDS|[A-Z]+_[A-Z_]+", word):  # MC and IPO are components
            taking = word == keyword
        elif taking:
            found.append(word)
    return found


def is_experimental(source: Path, library: str) -> bool:
    """Whether a library has the name of a target that upstream does not build unless asked to."""
    targets = re.search(r"\bset\(LLVM_ALL_TARGETS(?P<words>[^)]*)\)", _read(source / "llvm" / "CMakeLists.txt"))
    target = library.removeprefix("LLVM").removesuffix(_NAMES)
    return library.endswith(_NAMES) and targets is not None and target not in targets["words"].split()


def _read(file: Path) -> str:
    return re.sub(r"#.*", "", read_text(file, errors="surrogateescape"))
