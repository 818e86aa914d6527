"""How two builds of one wheel differ: by members, and in those by sections of binaries."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

from mlir_release.model.rebuilt import Difference
from mlir_release.sdk.elf import ELF_MAGIC

if TYPE_CHECKING:
    from pathlib import Path


def compare(published: Path, rebuilt: Path) -> tuple[Difference, ...]:
    """How two wheels differ; empty if they are the same bytes.

    ``RECORD``, which differs wherever another member does, comes last.
    """
    if published.read_bytes() == rebuilt.read_bytes():
        return ()
    with zipfile.ZipFile(published) as first, zipfile.ZipFile(rebuilt) as second:
        ours, theirs = ({info.filename: info for info in archive.infolist()} for archive in (first, second))
        found = []
        for name in sorted(ours.keys() | theirs.keys(), key=lambda name: (name.endswith(".dist-info/RECORD"), name)):
            if name not in theirs or name not in ours:
                what = "only in the release" if name in ours else "only in what was made again"
            else:
                what = _content(first.read(name), second.read(name)) or _entry(ours[name], theirs[name])
            if what:
                found.append(Difference(member=name, what=what))
    return tuple(found) or (Difference(member="", what="the same members, in another order or compressed otherwise"),)


def _entry(one: zipfile.ZipInfo, other: zipfile.ZipInfo) -> str:
    """How the archive's entries of two equal members differ; empty if they do not."""
    facts = {
        "date": (one.date_time, other.date_time),
        "mode": (oct(one.external_attr >> 16), oct(other.external_attr >> 16)),
    }
    return ", ".join(f"{name} {a}, not {b}" for name, (a, b) in facts.items() if a != b)


def _content(one: bytes, other: bytes) -> str:
    """Where two contents differ first; empty if they are the same."""
    if one == other:
        return ""
    if one.startswith(ELF_MAGIC) and other.startswith(ELF_MAGIC) and (section := _section(one, other)):
        return f"section {section}"
    first = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return (
        f"byte {first} of {len(one)}" if len(one) == len(other) else f"byte {first}; {len(one)} and {len(other)} bytes"
    )


def _section(one: bytes, other: bytes) -> str:
    """The first section whose content differs; empty if none does."""
    from elftools.elf.elffile import ELFFile

    sections = (
        {section.name: section.data() for section in ELFFile(io.BytesIO(d)).iter_sections()} for d in (one, other)
    )
    ours, theirs = sections
    return next((name for name, data in ours.items() if theirs.get(name) != data), "")
