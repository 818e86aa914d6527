"""A wheel made once, as it would be in other releases: the same binaries, under another tag, version and revision.

Members that do not name the release are copied as they are, compressed: a real wheel has a hundred megabytes of them.
"""

from __future__ import annotations

import csv
import io
import struct
import zipfile
from copy import copy
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from mlir_release.builder.model.wheel_info import WheelInfo, wheel_info_in
from mlir_release.ground.documents.digests import record_digest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Members larger than this, unpacked, are binaries and the like, which name no release.
_TEXT = 256 << 10
#: A member's header in a zip archive: its size without the name and the extra field, and where their lengths are.
_HEADER, _LENGTHS = 30, slice(26, 30)


def retag(wheel: Path, output: Path, *, tag: str, version: str, revision: str) -> Path:
    """Write the wheel of another release, made of the same LLVM, into the folder ``output``; returns its path."""
    old = str(parse_wheel_filename(wheel.name)[1])
    with zipfile.ZipFile(wheel) as source:
        about = wheel_info_in(source.namelist())
        assert about, f"{wheel.name} doesn't say which release it belongs to"
        info = WheelInfo.from_text(source.read(about))
        words = {old: version, info.revision: revision, f'"{info.tag}"': f'"{tag}"'}
        changed = {member.filename: text for member in source.infolist() if (text := _changed(source, member, words))}
        target = output / wheel.name.replace(f"-{old}-", f"-{version}-", 1)
        output.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(target, "w") as archive:
            for member in source.infolist():
                name = member.filename.replace(f"-{old}.dist-info/", f"-{version}.dist-info/", 1)
                if name.endswith(".dist-info/RECORD"):
                    archive.writestr(_info(member, name), _record(changed[member.filename], changed, old, version))
                elif name != member.filename or name in changed:
                    text = changed.get(member.filename) or source.read(member)
                    archive.writestr(_info(member, name), text)
                else:
                    _copy(source, member, archive)
    return target


def _changed(source: zipfile.ZipFile, member: zipfile.ZipInfo, words: Mapping[str, str]) -> bytes:
    """A member with other words in it; empty if it has none of them."""
    text = before = source.read(member) if member.file_size <= _TEXT else b""
    for old, new in words.items():
        text = text.replace(old.encode(), new.encode())
    return text if text != before else b""


def _record(text: bytes, changed: Mapping[str, bytes], old: str, version: str) -> str:
    """``RECORD``, whose words are changed already, with the digests of the other changed members."""
    digests = {name.replace(old, version): content for name, content in changed.items()}
    output = io.StringIO()
    rows = csv.writer(output, lineterminator="\n")
    for name, *row in csv.reader(io.StringIO(text.decode())):
        content = digests.get(name) if row[0] else None
        rows.writerow([name, *(row if content is None else (f"sha256={record_digest(content)}", len(content)))])
    return output.getvalue()


def _info(member: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name, member.date_time)
    made.compress_type, made.external_attr = member.compress_type, member.external_attr
    return made


def _copy(source: zipfile.ZipFile, member: zipfile.ZipInfo, target: zipfile.ZipFile) -> None:
    """Copy a member as it is, which ``zipfile`` has no function for: it writes the directory from ``filelist``."""
    assert source.fp
    assert target.fp
    source.fp.seek(member.header_offset)
    header = source.fp.read(_HEADER)
    rest = source.fp.read(sum(struct.unpack("<HH", header[_LENGTHS])) + member.compress_size)
    copied = copy(member)
    target.fp.seek(target.start_dir)
    copied.header_offset = target.fp.tell()
    target.fp.write(header + rest)
    target.start_dir = target.fp.tell()
    target.filelist.append(copied)
    target.NameToInfo[copied.filename] = copied
    target._didModify = True  # type: ignore[attr-defined]
