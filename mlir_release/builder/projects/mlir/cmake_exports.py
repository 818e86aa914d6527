"""Read the target files that CMake's ``install(EXPORT)`` writes, and write a clean, relocatable one.

Distributions patch and bend these files: paths of their build machines, libraries of other packages by absolute path,
files that they do not ship, everything routed to one ``libLLVM.so``. Editing such text is fragile; these files are
regular enough to read into records, so we do that, change the records, and write one file from them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlir_release.ground.storage.files import read_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

_COMMAND = re.compile(r"^(?P<command>add_library|add_executable|set_target_properties|set_property)\(", re.MULTILINE)
_ARGUMENT = re.compile(r'\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<close>\))|(?P<plain>[^\s()"]+))')
_LINK_ONLY = re.compile(r"\\?\$<LINK_ONLY:(?P<name>[^>]*)>")
_LIST = re.compile(r"[A-Za-z0-9_.+-]+(?:;[A-Za-z0-9_.+-]+)+")

#: Build types in the order in which we take them where a prefix holds several.
_BUILD_TYPES = ("RELEASE", "RELWITHDEBINFO", "MINSIZEREL", "DEBUG", "NOCONFIG")

#: Properties that CMake writes once a build type; we keep one build type and write them without its name.
_PER_BUILD_TYPE = (
    "IMPORTED_LINK_INTERFACE_LANGUAGES",
    "IMPORTED_LOCATION",
    "IMPORTED_OBJECTS",
    "IMPORTED_SONAME",
    "IMPORTED_IMPLIB",
)

PREFIX = "${_IMPORT_PREFIX}/"


@dataclass(kw_only=True)
class Target:
    """One imported target. ``properties`` holds values as CMake source text, without the quotes."""

    name: str
    kind: str  #: ``STATIC``, ``SHARED``, ``MODULE``, ``OBJECT``, ``INTERFACE`` or ``EXECUTABLE``
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        """Files behind the target, relative to the prefix."""
        values = (self.properties.get(key, "") for key in ("IMPORTED_LOCATION", "IMPORTED_OBJECTS", "IMPORTED_IMPLIB"))
        return [file.removeprefix(PREFIX) for value in values for file in value.split(";") if file]

    @property
    def links(self) -> list[str]:
        """``INTERFACE_LINK_LIBRARIES`` as CMake source text, entry by entry."""
        value = self.properties.get("INTERFACE_LINK_LIBRARIES", "")
        return [entry for entry in value.split(";") if entry]


def linked_name(entry: str) -> str:
    """The library that a link entry names: ``LLVM`` for both ``LLVM`` and ``$<LINK_ONLY:LLVM>``."""
    match = _LINK_ONLY.fullmatch(entry)
    return match["name"] if match else entry


def replace_links(target: Target, replacements: dict[str, str | None]) -> None:
    """Rename link entries of ``target``, and drop those whose replacement is None; ``$<LINK_ONLY:…>`` stays around."""
    for key in ("INTERFACE_LINK_LIBRARIES", "MLIR_AGGREGATE_DEP_LIBS_IMPORTED"):
        if key not in target.properties:
            continue
        kept = []
        for entry in target.properties[key].split(";"):
            name = linked_name(entry)
            if name not in replacements:
                kept.append(entry)
            elif (new := replacements[name]) is not None:
                kept.append(entry.replace(name, new))
        target.properties[key] = ";".join(dict.fromkeys(kept))


def without_entries(text: str, gone: Collection[str]) -> str:
    """A CMake file whose lists (``a;b;c``) have lost the entries ``gone``."""

    def clean(match: re.Match[str]) -> str:
        return ";".join(entry for entry in match.group().split(";") if entry not in gone)

    return _LIST.sub(clean, text)


def read(main: Path) -> dict[str, Target]:
    """The targets of ``main`` (``LLVMExports.cmake``) and of the files beside it that hold one build type each."""
    targets: dict[str, Target] = {}
    _read_into(targets, read_text(main, errors="surrogateescape"))
    beside = {path.stem.rpartition("-")[2].upper(): path for path in main.parent.glob(f"{main.stem}-*.cmake")}
    for build_type in sorted(beside, key=lambda name: _BUILD_TYPES.index(name) if name in _BUILD_TYPES else 99)[:1]:
        _read_into(targets, read_text(beside[build_type], errors="surrogateescape"), suffix="_" + build_type)
    return targets


def write(targets: Iterable[Target], *, origin: str) -> str:
    """One CMake file that declares ``targets``; it finds its prefix relative to itself (``lib/cmake/<package>/``)."""
    lines = [
        f"# Imported targets, relative to this file. {origin}",
        'get_filename_component(_IMPORT_PREFIX "${CMAKE_CURRENT_LIST_FILE}" REALPATH)',
        *['get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)'] * 4,
    ]
    for target in targets:
        if target.kind == "EXECUTABLE":
            lines.append(f"\nadd_executable({target.name} IMPORTED)")
        else:
            lines.append(f"\nadd_library({target.name} {target.kind} IMPORTED)")
        if target.properties:
            lines.append(f"set_target_properties({target.name} PROPERTIES")
            lines += [f'  {key} "{value}"' for key, value in sorted(target.properties.items())]
            lines.append(")")
    lines.append("\nunset(_IMPORT_PREFIX)")
    return "\n".join(lines) + "\n"


def _read_into(targets: dict[str, Target], text: str, *, suffix: str = "") -> None:
    for command, arguments in _commands(text):
        if command == "add_executable" and arguments:
            targets[arguments[0]] = Target(name=arguments[0], kind="EXECUTABLE")
        elif command == "add_library" and len(arguments) > 1:
            targets[arguments[0]] = Target(name=arguments[0], kind=arguments[1])
        elif command == "set_target_properties" and arguments and arguments[0] in targets:
            for key, value in zip(arguments[2::2], arguments[3::2], strict=False):
                plain = key.removesuffix(suffix)
                if not suffix or plain in _PER_BUILD_TYPE:
                    targets[arguments[0]].properties[plain] = value
        elif command == "set_property" and len(arguments) == 5 and arguments[1] in targets:
            # set_property(TARGET mlir-opt PROPERTY ENABLE_EXPORTS 1); the APPEND form only lists build types.
            targets[arguments[1]].properties[arguments[3]] = arguments[4]


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    for match in _COMMAND.finditer(text):
        position = match.end()
        arguments: list[str] = []
        while (argument := _ARGUMENT.match(text, position)) is not None:
            position = argument.end()
            if argument["close"]:
                break
            arguments.append(argument["quoted"] if argument["quoted"] is not None else argument["plain"])
        yield match["command"], arguments
