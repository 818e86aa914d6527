"""Facts about an ELF file: the libraries that it needs, in which versions, and how large its sections are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from mlir_release.ground.errors import VerificationError

if TYPE_CHECKING:
    from elftools.elf.dynamic import DynamicTag

ELF_MAGIC = b"\x7fELF"

#: glibc 2.36 is the first dynamic linker that applies packed relative relocations (its release notes, August 2022).
RELR_GLIBC = (2, 36)

_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?")


@dataclass(frozen=True, kw_only=True)
class ElfFacts:
    """One ELF file.

    :param needed: the ``DT_NEEDED`` names, in order
    :param versions: needed library -> versions of its symbols that are required, sorted
    :param sections: section name -> bytes that it takes in the file; ``.bss`` and the like take none
    :param packed_relocations: has ``DT_RELR``
    :param declares_packed_relocations: asks for ``GLIBC_ABI_DT_RELR``, so that an older glibc refuses it cleanly
    :param has_symbol_table: carries ``.symtab``, that is, was not stripped
    """

    machine: str
    soname: str | None = None
    needed: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    versions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sections: dict[str, int] = field(default_factory=dict)
    packed_relocations: bool = False
    declares_packed_relocations: bool = False
    has_symbol_table: bool = False

    @property
    def glibc(self) -> tuple[int, int] | None:
        """The oldest glibc that can load the file, ``(major, minor)``; ``None`` where it asks for none.

        Packed relative relocations count even where the linker wrote no version need for them (lld before
        ``-z pack-relative-relocs``): on an older glibc such a file crashes.
        """
        if self.packed_relocations:
            return max(self._symbols_glibc or RELR_GLIBC, RELR_GLIBC)
        return self._symbols_glibc

    @property
    def refuses_old_glibc(self) -> bool:
        """Whether a glibc that does not know packed relative relocations refuses the file, with a message.

        That is so where it asks for ``GLIBC_ABI_DT_RELR``, and where it takes a symbol of :data:`RELR_GLIBC` or newer.
        """
        return self.declares_packed_relocations or (self._symbols_glibc or (0, 0)) >= RELR_GLIBC

    @property
    def _symbols_glibc(self) -> tuple[int, int] | None:
        matches = (_GLIBC.fullmatch(name) for names in self.versions.values() for name in names)
        return max(((int(match[1]), int(match[2])) for match in matches if match), default=None)


def read_elf(file: IO[bytes]) -> ElfFacts:
    """Read one ELF file from a seekable binary stream.

    :raises VerificationError: ``file-damaged``
    """
    try:
        return _read(file)
    except ImportError:  # the library is missing: that says nothing about the file
        raise
    except Exception as error:  # whatever a damaged file makes pyelftools raise
        raise VerificationError(
            "file-damaged",
            "this is not a sound ELF file",
            where=str(getattr(file, "name", "")),
            why=str(error) or type(error).__name__,
        ) from error


def dynamic_symbols(file: IO[bytes]) -> tuple[frozenset[str], frozenset[str]]:
    """The names that an ELF file needs from others, and those that it gives them."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    needs: set[str] = set()
    gives: set[str] = set()
    table = ELFFile(file).get_section_by_name(".dynsym")
    for symbol in table.iter_symbols() if isinstance(table, SymbolTableSection) else ():
        (needs if symbol.entry.st_shndx == "SHN_UNDEF" else gives).add(str(symbol.name))
    return frozenset(needs), frozenset(gives)


def _read(file: IO[bytes]) -> ElfFacts:
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection

    elf = ELFFile(file)
    soname: str | None = None
    needed: list[str] = []
    runpath: list[str] = []
    versions: dict[str, tuple[str, ...]] = {}
    sizes: dict[str, int] = {}
    packed = False
    for section in elf.iter_sections():
        if section.name and section["sh_type"] != "SHT_NOBITS":
            sizes[section.name] = sizes.get(section.name, 0) + int(section["sh_size"])
        if isinstance(section, DynamicSection):
            for tag in section.iter_tags():
                match tag.entry.d_tag:
                    case "DT_NEEDED":
                        needed.append(_text(tag, "needed"))
                    case "DT_SONAME":
                        soname = _text(tag, "soname")
                    case "DT_RUNPATH":
                        runpath += _text(tag, "runpath").split(":")
                    case "DT_RPATH":
                        runpath += _text(tag, "rpath").split(":")
                    case "DT_RELR":
                        packed = True
        elif isinstance(section, GNUVerNeedSection):
            for library, needs in section.iter_versions():
                versions[str(library.name)] = tuple(sorted(str(need.name) for need in needs))
    declared = any("GLIBC_ABI_DT_RELR" in names for names in versions.values())
    return ElfFacts(
        machine=str(elf["e_machine"]).removeprefix("EM_").lower(),
        soname=soname,
        needed=tuple(needed),
        runpath=tuple(runpath),
        versions=versions,
        sections=dict(sorted(sizes.items(), key=lambda item: -item[1])),
        packed_relocations=packed,
        declares_packed_relocations=declared,
        has_symbol_table=elf.get_section_by_name(".symtab") is not None,
    )


def _text(tag: DynamicTag, name: str) -> str:
    """A dynamic tag's string, which pyelftools adds under the tag's own name."""
    return str(getattr(tag, name))
