"""How two builds of one wheel or source distribution differ: by members, and in those by sections of binaries."""

from __future__ import annotations

import io
import tarfile
import zipfile
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mlir_release.model.rebuilt import Difference
from mlir_release.sdk.elf import ELF_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class _Member(NamedTuple):
    """A file in an archive, and what the archive says of it."""

    read: Callable[[], bytes]
    entry: dict[str, str]


def compare(published: Path, rebuilt: Path) -> tuple[Difference, ...]:
    """How two wheels, or two source distributions, differ; empty if they are the same bytes.

    ``RECORD``, which differs wherever another member does, comes last.
    """
    if published.read_bytes() == rebuilt.read_bytes():
        return ()
    with _members(published) as ours, _members(rebuilt) as theirs:
        found = []
        for name in sorted(ours.keys() | theirs.keys(), key=lambda name: (name.endswith(".dist-info/RECORD"), name)):
            if name not in theirs or name not in ours:
                what = "only in the release" if name in ours else "only in what was made again"
            else:
                what = _content(ours[name].read(), theirs[name].read()) or _entry(ours[name].entry, theirs[name].entry)
            if what:
                found.append(Difference(member=name, what=what))
    return tuple(found) or (Difference(member="", what="the same members, in another order or compressed otherwise"),)


@contextmanager
def _members(path: Path) -> Iterator[dict[str, _Member]]:
    """The files of an archive, by name, while it is open."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            yield {
                info.filename: _Member(
                    partial(wheel.read, info), {"date": str(info.date_time), "mode": oct(info.external_attr >> 16)}
                )
                for info in wheel.infolist()
            }
        return
    with tarfile.open(path) as source:
        yield {
            info.name: _Member(partial(_read, source, info), {"date": str(info.mtime), "mode": oct(info.mode)})
            for info in source
        }


def _read(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(info)
    return file.read() if file is not None else b""


def _entry(one: dict[str, str], other: dict[str, str]) -> str:
    """How the archive's entries of two equal members differ; empty if they do not."""
    return ", ".join(f"{name} {one[name]}, not {other[name]}" for name in one if one[name] != other[name])


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
