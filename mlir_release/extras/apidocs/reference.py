"""What a wheel says of passes and of operations beside its Python modules: ``_reference.json``, made by mlir-tblgen.

The text is Markdown of LLVM's sources. Nobody needs to believe it: names are plain, and all else is escaped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from mlir_release.builder.model.wheel_info import wheel_info_in
from mlir_release.ground.documents.decode import MalformedError, PlainName, from_large_json
from mlir_release.ground.storage.archives import ArchiveError, open_zip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Bytes of the file: LLVM 22's has 0.8 million.
_LIMIT = 16 << 20
#: A line of a pass's options, as mlir-tblgen writes it below the heading.
_OPTION = re.compile(r"^-([\w-]+) +: (.*)$", re.MULTILINE)


class ReferenceEntry(Struct, frozen=True, kw_only=True):
    """A pass or an operation."""

    kind: Literal["pass", "operation"]
    group: PlainName  #: a page of passes in upstream's documentation, or a dialect
    name: PlainName  #: ``canonicalize``, ``arith.addi``
    summary: str
    text: str | None = None  #: in Markdown; None: of an operation that a Python module describes

    @property
    def options(self) -> Iterator[tuple[str, str]]:
        """The options of a pass, each with its description."""
        _, _, options = (self.text or "").partition("#### Options\n")
        yield from _OPTION.findall(options.partition("\n#")[0])


class Reference(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """The content of the file."""

    entries: tuple[ReferenceEntry, ...] = ()

    def groups(self, kind: str) -> dict[str, list[ReferenceEntry]]:
        """The described entries of a kind, by their groups."""
        found: dict[str, list[ReferenceEntry]] = {}
        for entry in self.entries:
            if entry.kind == kind and entry.text is not None:
                found.setdefault(entry.group, []).append(entry)
        return dict(sorted(found.items()))

    @property
    def summaries(self) -> dict[str, str]:
        """What each operation is for, in a few words, by its name."""
        return {entry.name: entry.summary for entry in self.entries if entry.kind == "operation"}


def read_reference(wheel: Path) -> Reference:
    """What a wheel says; nothing, if it was made without, or by somebody else."""
    try:
        with open_zip(wheel) as archive:
            name = (wheel_info_in(archive.namelist()) or "").replace("_release.json", "_reference.json")
            if name in archive.namelist() and archive.getinfo(name).file_size <= _LIMIT:
                return from_large_json(archive.read(name), Reference)
    except (ArchiveError, MalformedError):
        pass
    return Reference()
