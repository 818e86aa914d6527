"""Write a wheel: the same members give the same bytes.

``wheel``'s own writer gives RECORD the time of the day, or of the process's environment; hence not that.
"""

from __future__ import annotations

import csv
import io
import stat
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from installer.records import Hash, RecordEntry

import mlir_release
from mlir_release.ground.documents.digests import open_regular, record_digest
from mlir_release.ground.storage.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterable


#: The first moment that a zip archive can name: 1980.
_FIRST_MOMENT = 315532800


@dataclass(frozen=True, kw_only=True)
class Member:
    """A file of a wheel. ``content`` is the file's text or bytes, or a file that holds them."""

    name: str
    content: str | bytes | Path
    executable: bool = False

    @property
    def data(self) -> bytes:
        """Its content."""
        if isinstance(self.content, Path):
            with open_regular(self.content) as file:
                return file.read()
        return self.content.encode(errors="surrogateescape") if isinstance(self.content, str) else self.content


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The names of a wheel: of its file, and of the folder of its metadata."""

    distribution: str
    version: str  #: normalized
    platform: str  #: its platform tag
    generator: str = f"mlir-release {mlir_release.__version__}"

    @property
    def stem(self) -> str:
        """``mlir_sdk-22.1.8``."""
        return f"{self.distribution.replace('-', '_')}-{self.version}"

    @property
    def dist_info(self) -> str:
        """Folder of the metadata."""
        return f"{self.stem}.dist-info"

    @property
    def data(self) -> str:
        """Folder of what is not for ``site-packages``."""
        return f"{self.stem}.data"

    @property
    def tag(self) -> str:
        """For every CPython, and one platform."""
        return f"py3-none-{self.platform}"

    @property
    def filename(self) -> str:
        """The wheel's file name."""
        return f"{self.stem}-{self.tag}.whl"


def write_wheel(
    identity: Identity, members: Iterable[Member], *, output: Path, epoch: int, compressed: bool = True
) -> Path:
    """Write a wheel into the folder ``output``, complete or not at all; returns its path.

    :param members: without ``WHEEL`` and ``RECORD``, in any order: they are written by name, the metadata last
    :param epoch: time of all members, seconds since 1970
    :param compressed: by deflate, the only compression that pip, uv and PyPI all take
    """
    target = output / identity.filename
    moment = time.gmtime(max(epoch, _FIRST_MOMENT))[:6]
    about = ["Wheel-Version: 1.0", f"Generator: {identity.generator}", "Root-Is-Purelib: false", f"Tag: {identity.tag}"]
    wheel_file = Member(name=f"{identity.dist_info}/WHEEL", content="\n".join([*about, ""]))
    record = f"{identity.dist_info}/RECORD"
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    with replacing(target) as temporary, zipfile.ZipFile(temporary, "w") as archive:

        def add(member: Member) -> bytes:
            info = zipfile.ZipInfo(member.name, moment)
            info.external_attr = (stat.S_IFREG | (0o755 if member.executable else 0o644)) << 16
            info.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
            data = member.data
            archive.writestr(info, data)
            return data

        # The wheel specification recommends that the metadata comes last.
        for member in (*sorted(members, key=lambda one: (".dist-info/" in one.name, one.name)), wheel_file):
            data = add(member)
            rows.writerow(RecordEntry(member.name, Hash("sha256", record_digest(data)), len(data)).to_row())
        rows.writerow((record, "", ""))
        add(Member(name=record, content=text.getvalue()))
    return target
