"""Compare two builds of one wheel or source distribution: by members, and in those by sections of binaries."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import TYPE_CHECKING

from mlir_release.builder.model.names import SOURCE_SUFFIX
from mlir_release.builder.model.rebuilt import Difference
from mlir_release.builder.sdk.elf import ELF_MAGIC
from mlir_release.builder.wheels.inspect import corrupt
from mlir_release.builder.wheels.source import open_source
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.storage.archives import ArchiveError, open_zip
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from pathlib import Path


def compare(published: Path, rebuilt: Path) -> tuple[Difference, ...]:
    """The differences of two wheels, or two source distributions; empty if they are the same bytes.

    ``RECORD``, which differs wherever another member does, comes last.

    :raises VerificationError: ``file-damaged``
    """
    if sha256_of(published) == sha256_of(rebuilt):
        return ()
    with scratch_folder("compare") as scratch:
        ours, theirs = _members(published, scratch / "published"), _members(rebuilt, scratch / "rebuilt")
        found = []
        for name in sorted(ours.keys() | theirs.keys(), key=lambda name: (name.endswith(".dist-info/RECORD"), name)):
            if name not in theirs or name not in ours:
                what = "only in the release" if name in ours else "only in what was made again"
            else:
                (one, entry), (other, remade) = ours[name], theirs[name]
                differing = (f"{key} {entry[key]}, not {remade[key]}" for key in entry if entry[key] != remade[key])
                what = _content(one, other) or ", ".join(differing)
            if what:
                found.append(Difference(member=name, what=what))
    return tuple(found) or (Difference(member="", what="the same members, in another order or compressed otherwise"),)


def _members(path: Path, scratch: Path) -> dict[str, tuple[Path, dict[str, str]]]:
    """The files of an archive by name, each written into a folder, and its date and mode in the archive.

    :raises VerificationError: ``file-damaged``
    """
    scratch.mkdir()
    found = {}
    try:
        if path.name.endswith(SOURCE_SUFFIX):
            with open_source(path) as source:
                for number, member in enumerate(source):
                    source.copy(member, content := scratch / str(number))
                    found[member.name] = content, {"date": str(member.mtime), "mode": oct(member.mode)}
            return found
        with open_zip(path) as wheel:
            for number, info in enumerate(wheel.infolist()):
                wheel.copy(info, content := scratch / str(number))
                found[info.filename] = content, {"date": str(info.date_time), "mode": oct(info.external_attr >> 16)}
    except ArchiveError as error:
        raise corrupt(path, str(error)) from error
    return found


def _content(ours: Path, theirs: Path) -> str:
    """Where two files differ first; empty if they are the same."""
    if sha256_of(ours) == sha256_of(theirs):
        return ""
    one, other = ours.read_bytes(), theirs.read_bytes()
    if one.startswith(ELF_MAGIC) and other.startswith(ELF_MAGIC):
        from elftools.elf.elffile import ELFFile

        with suppress(Exception):  # whatever a damaged file makes pyelftools raise
            left, right = (
                {section.name: section.data() for section in ELFFile(io.BytesIO(data)).iter_sections()}
                for data in (one, other)
            )
            if section := next((name for name, data in left.items() if right.get(name) != data), ""):
                return f"section {section}"
    first = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return (
        f"byte {first} of {len(one)}" if len(one) == len(other) else f"byte {first}; {len(one)} and {len(other)} bytes"
    )
