"""Archives that others may have made: names are checked once, and no member is read without a bound.

Sizes that an archive declares are not believed: a few megabytes on disk can unpack to gigabytes. Nothing here reads
more than a bound into memory. The reader of a zip archive can be given to libraries that read members by themselves.
"""

from __future__ import annotations

import errno
import gzip
import io
import posixpath
import struct
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Protocol

from mlir_release.ground.documents.digests import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Bytes of one member at most, unpacked: the largest honest one, a library with all of LLVM, has a quarter of that.
MEMBER_LIMIT = 1 << 30

#: Bytes of a member that is read as a document: metadata, a list of files.
TEXT_LIMIT = 16 << 20

#: Bytes of all members of a zip archive, and members of a tar archive, at most.
_TOTAL_LIMIT, _COUNT_LIMIT = 8 << 30, 200_000

#: Bytes of a zip archive's directory at most. A wheel of an SDK has six thousand members in less than one megabyte.
_DIRECTORY_LIMIT = 8 << 20

#: Bytes of what precedes a member of a tar archive: extended headers and long names.
_HEADER_LIMIT = 1 << 20

#: Bytes of a path at most, and of one name in it: what file systems take.
_PATH_LIMIT, _NAME_LIMIT = 1024, 255

_CHUNK = 1 << 20

#: What the modules of the standard library, and zstandard, raise for a damaged or hostile archive.
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    struct.error,
    EOFError,
    gzip.BadGzipFile,
    RuntimeError,  # nesting without end, too
    OverflowError,
    LookupError,
    ValueError,
)


#: How the system refuses an offset before a file's begin, and a member below another one that is a file.
_IMPOSSIBLE = {errno.EINVAL, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}


class Readable(Protocol):
    """What a decompressor yields."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, ``size`` at most; none at the end."""


class ArchiveError(ValueError):
    """An archive can't be read to its end, or it is not one that should be. The message says why."""


class UnsafeNameError(ArchiveError):
    """A member has a name that it could be written elsewhere by."""


@contextmanager
def reading() -> Iterator[None]:
    """Turn whatever a damaged archive makes a library raise, within the block, into :class:`ArchiveError`."""
    try:
        yield
    except ArchiveError:
        raise
    except _DAMAGE as error:
        raise ArchiveError(str(error) or type(error).__name__) from error
    except OSError as error:
        if error.errno in _IMPOSSIBLE:
            raise ArchiveError(str(error)) from error
        raise


def check_name(name: str) -> None:
    """Refuse a member's name if, on any system, it could be written outside the folder that it is unpacked to.

    :raises UnsafeNameError:
    """
    parts = name.removesuffix("/").split("/")
    if not name or "\0" in name:
        raise UnsafeNameError(f"a member's name is empty or has a NUL character: {name[:80]!r}")
    if len(name.encode(errors="surrogateescape")) > _PATH_LIMIT or any(len(part) > _NAME_LIMIT for part in parts):
        raise UnsafeNameError(f"a member's name is too long: {name[:80]}…")
    if ".." in parts or "" in parts or "\\" in name or ":" in parts[0]:
        raise UnsafeNameError(f"a member would be unpacked elsewhere: {name}")


# -- zip --------------------------------------------------------------------------------------------------------------


class GuardedZip(zipfile.ZipFile):
    """A zip archive whose names are safe and different, and whose :meth:`read` is bounded. Made by :func:`open_zip`."""

    def __init__(self, file: IO[bytes], limit: int = _TOTAL_LIMIT) -> None:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]  # what the constructor would read whole
        if end is not None and end[zipfile._ECD_SIZE] > _DIRECTORY_LIMIT:  # type: ignore[attr-defined]
            raise ArchiveError("its directory of members is too large")
        super().__init__(file)
        seen: set[str] = set()
        for info in self.infolist():
            check_name(info.orig_filename)
            normal = posixpath.normpath(info.filename)
            if normal in seen:
                raise ArchiveError(f"{info.filename} is in the archive twice")
            seen.add(normal)
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ArchiveError(f"{info.filename} is compressed in a way that installers do not know")
            if info.flag_bits & 1:
                raise ArchiveError(f"{info.filename} is encrypted")
        if sum(info.file_size for info in self.infolist()) > limit:
            raise _too_large("all of it together", limit)

    def read(self, name: str | zipfile.ZipInfo, pwd: bytes | None = None) -> bytes:
        """The content of a member that is a document. :raises ArchiveError: if it is too large :raises KeyError:"""
        return b"".join(self.chunks(name, limit=TEXT_LIMIT))

    def chunks(self, name: str | zipfile.ZipInfo, *, limit: int = MEMBER_LIMIT) -> Iterator[bytes]:
        """A member's content in pieces, of ``limit`` bytes at most. :raises ArchiveError: :raises KeyError:"""
        info = name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)
        with self.open(info) as member:
            # Without a number of bytes, it would unpack all that is there, whatever size the archive declares.
            yield from _bounded(member, info.filename, limit)

    def copy(self, name: str | zipfile.ZipInfo, destination: Path, *, limit: int = MEMBER_LIMIT) -> None:
        """Write a member's content into a file. Errors as of :meth:`chunks`."""
        with destination.open("wb") as file:
            file.writelines(self.chunks(name, limit=limit))


@contextmanager
def open_zip(path: Path) -> Iterator[GuardedZip]:
    """Open a zip archive. Within the block, whatever is wrong with it is an :class:`ArchiveError`.

    :raises ArchiveError: also for a name that leads outside, or is there twice
    :raises OSError: if the file can't be read
    """
    with reading(), open_regular(path) as file, GuardedZip(file) as archive:
        yield archive


# -- tar --------------------------------------------------------------------------------------------------------------


class GuardedTar:
    """The members of a tar archive in their order; each is read before the next. Made by :func:`open_tar`."""

    def __init__(self, stream: Readable) -> None:
        self._stream = _Forward(stream)
        self._tar = tarfile.TarFile(fileobj=self._stream)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        seen: set[str] = set()
        while True:
            self._stream.left = _HEADER_LIMIT
            member = self._tar.next()
            if member is None:
                return
            self._tar.members.clear()  # type: ignore[attr-defined]  # else it keeps all of them
            self._stream.left = None
            check_name(member.name)
            if member.name in seen:
                raise ArchiveError(f"{member.name} is in the archive twice")
            seen.add(member.name)
            if len(seen) > _COUNT_LIMIT or member.issparse() or member.size < 0:
                raise ArchiveError(f"{member.name} is sparse, has no true size, or is one of too many members")
            if member.size > MEMBER_LIMIT:
                raise _too_large(member.name, MEMBER_LIMIT)
            yield member

    def read(self, member: tarfile.TarInfo) -> bytes:
        """The content of the member that the iteration is at, a document. :raises ArchiveError: if it is too large"""
        return b"".join(self._chunks(member, TEXT_LIMIT))

    def copy(self, member: tarfile.TarInfo, destination: Path) -> None:
        """Write the content of the member that the iteration is at into a file; of a folder or a link, nothing."""
        with destination.open("wb") as file:
            file.writelines(self._chunks(member, MEMBER_LIMIT))

    def _chunks(self, member: tarfile.TarInfo, limit: int) -> Iterator[bytes]:
        file = self._tar.extractfile(member) if member.isreg() else None
        return iter(()) if file is None else _bounded(file, member.name, limit)

    def extract(self, member: tarfile.TarInfo, folder: Path) -> None:
        """Write the member that the iteration is at below a folder, as ``tarfile``'s filter ``data`` allows it."""
        self._tar.extract(member, folder, filter="data")


@contextmanager
def open_tar(stream: Readable) -> Iterator[GuardedTar]:
    """Read a tar archive from what a decompressor yields, forwards only. Errors as of :func:`open_zip`."""
    with reading():
        yield GuardedTar(stream)


class _Forward:
    """A stream as ``tarfile`` reads it. Headers, which it reads whole, have a bound."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._position = 0
        self.left: int | None = _HEADER_LIMIT  #: bytes that may still be read; None: as many as there are

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        if self.left is not None:
            self.left -= size
        if size < 0 or (self.left is not None and self.left < 0):
            raise ArchiveError("a member's header is too large")
        parts = []
        while size > 0 and (part := self._stream.read(min(size, _CHUNK))):
            parts.append(part)
            size -= len(part)
            self._position += len(part)
        return b"".join(parts)

    def seek(self, position: int) -> None:
        if position < self._position:
            raise ArchiveError("a member's header leads backwards")
        while self._position < position and (part := self._stream.read(min(position - self._position, _CHUNK))):
            self._position += len(part)


# -- gzip -------------------------------------------------------------------------------------------------------------


def gunzip(content: bytes, *, limit: int) -> bytearray:
    """Unpack gzip data. :raises ArchiveError: if it is damaged, or unpacks to more than ``limit`` bytes"""
    found = bytearray()
    with reading(), gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        for part in _bounded(file, "the file", limit):
            found += part
    return found


def _bounded(file: Readable, name: str, limit: int) -> Iterator[bytes]:
    """The pieces of a stream."""
    left = limit
    while part := file.read(min(_CHUNK, left + 1)):
        left -= len(part)
        if left < 0:
            raise _too_large(name, limit)
        yield part


def _too_large(name: str, limit: int) -> ArchiveError:
    return ArchiveError(f"{name} has more than the {limit >> 20} MiB that are read of such a file")
