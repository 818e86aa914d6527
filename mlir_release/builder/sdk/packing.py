"""Pack the parts of an SDK into one archive each, and unpack them: how jobs give SDKs to each other.

An archive (``build.tar.zst``, ``tools.tar.zst``) begins with ``sdk.json`` and ends with the part's list, so that a part
is only there when all of it is. The same SDK gives the same archives.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mlir_release.builder.sdk.importer import check_output
from mlir_release.builder.sdk.info import Sdk, SdkInfo
from mlir_release.builder.sdk.parts import DESCRIPTION, LISTS, list_of
from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.documents.digests import open_regular
from mlir_release.ground.errors import ReleaseError, UsageError, VerificationError
from mlir_release.ground.storage.archives import TEXT_LIMIT, ArchiveError, UnsafeNameError, open_tar
from mlir_release.ground.storage.cache import locked
from mlir_release.ground.storage.disk import check_room, room
from mlir_release.ground.storage.files import copy_regular, read_document, replacing, write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence

SUFFIX = ".tar.zst"

_LEVEL = 6

_MAKE_ROOM = "free some space, or give another output folder; what was unpacked has been removed"


def pack(sdk: Sdk, output: Path) -> list[Path]:
    """Write ``sdk.json``, and one archive for each part that is here, into the folder ``output``; returns the archives.

    :raises MachineError: ``disk-full``
    """
    output.mkdir(parents=True, exist_ok=True)
    archives = []
    with room(output, purpose="for the packed SDK", remedy="free some space, or give another output folder"):
        copy_regular(sdk.root / DESCRIPTION, output / DESCRIPTION)
        for part in sdk.parts:
            archive = output / f"{part}{SUFFIX}"
            with console.step(f"Packing the {part} part"), replacing(archive) as temporary:
                _pack(sdk, part, temporary)
            console.say(f"    {archive.name}: {format_bytes(archive.stat().st_size)}")
            archives.append(archive)
    return archives


def _pack(sdk: Sdk, part: str, archive: Path) -> None:
    import zstandard

    list_file, paths = list_of(sdk.root, part), sdk.listed(part)
    compressor = zstandard.ZstdCompressor(level=_LEVEL, threads=-1, write_checksum=True)
    with (
        archive.open("wb") as file,
        compressor.stream_writer(file) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in (DESCRIPTION, *paths, f"{LISTS}/{list_file.name}"):
            _add(tar, sdk.root, path, sdk.info.source_epoch)


def _add(tar: tarfile.TarFile, root: Path, path: str, epoch: int) -> None:
    member, file = tarfile.TarInfo(path), root / path
    member.mtime = epoch
    if file.is_symlink():
        member.type, member.linkname = tarfile.SYMTYPE, file.readlink().as_posix()
        tar.addfile(member)
        return
    status = file.stat()
    member.size, member.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
    with open_regular(file) as content:
        tar.addfile(member, content)


def unpack(archives: Sequence[Path], output: Path) -> Sdk:
    """Unpack parts of one SDK into the folder ``output``, where other parts of it may be already.

    Each part is verified, file by file, before it is moved into place; what an earlier run left half-done is replaced.

    :param archives: of :func:`pack`; or folders that hold some (or only an ``sdk.json``, for tests that need no part)
    :raises UsageError: ``input-missing``, ``sdk-mismatch``
    :raises VerificationError: ``file-damaged``
    :raises MachineError: ``disk-full``
    """
    output = Path(output).absolute()
    found_archives: list[Path] = []
    for given in archives:
        inside = [*given.glob(DESCRIPTION), *sorted(given.glob(f"*{SUFFIX}"))] if given.is_dir() else [given]
        if not inside or not all(path.is_file() for path in inside):
            raise UsageError(
                "input-missing",
                "there is no packed SDK",
                where=str(given),
                why=f"no {DESCRIPTION} and no archive {SUFFIX} is there",
                remedy="pack one with `mlir-release sdk pack`, or download the artifacts of the job that did",
            )
        found_archives += inside
    with (
        room(output.parent, purpose="for the SDK", remedy=_MAKE_ROOM),
        locked(output.with_name(f".{output.name}.unpack.lock")),
    ):
        for found in found_archives:
            if found.name == DESCRIPTION:
                _check_same(_description(found, found), output, found)
                write_atomically(output / DESCRIPTION, read_document(found))
            else:
                _unpack(found, output)
    return Sdk.load(output)


def _unpack(archive: Path, output: Path) -> None:
    staging = output.with_name(f".{output.name}.unpack")
    shutil.rmtree(staging, ignore_errors=True)  # of a run that was killed
    staging.mkdir(parents=True)
    try:
        with console.step(f"Unpacking {archive.name}"):
            _extract(archive, staging, output)
            try:
                part = Sdk.load(staging)
                part.verify()
            except ReleaseError as error:
                raise _damaged(archive, error.why or error.what) from error
            if not part.parts:
                raise _damaged(archive, "it ends before the part's list")
            # The list last: a part is there where its list is.
            paths = [Path(folder, name) for folder, _, names in os.walk(staging) for name in names]
            for path in sorted(paths, key=lambda path: (path.parent.name == LISTS, path)):
                target = output / path.relative_to(staging)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _extract(archive: Path, staging: Path, output: Path) -> None:
    import zstandard

    part = archive.name.removesuffix(SUFFIX)
    size, left = 0, TEXT_LIMIT
    try:
        with (
            open_regular(archive) as file,
            zstandard.ZstdDecompressor().stream_reader(file) as stream,
            open_tar(stream) as tar,
        ):
            for member in tar:
                first = not any(staging.iterdir())
                _check_inside(member, staging, archive)
                left -= member.size
                if left < 0:
                    raise ArchiveError(f"it has more than the {size} bytes of its part")
                tar.extract(member, staging)
                if first:
                    info = _description(staging / DESCRIPTION, archive)
                    _check_same(info, output, archive)
                    size = info.parts[part].size if part in info.parts else 0
                    left = size + TEXT_LIMIT  # its list, which is not counted
                    check_room(output.parent, size, purpose="for the SDK", remedy=_MAKE_ROOM)
    except UnsafeNameError as error:
        raise _leads_outside(archive, str(error)) from error
    except (zstandard.ZstdError, ArchiveError) as error:
        raise _damaged(archive, str(error)) from error


def _check_inside(member: tarfile.TarInfo, staging: Path, archive: Path) -> None:
    """Refuse what :func:`_pack` never writes: links that lead outside, names that lead through a link, and devices.

    tarfile's filter refuses most of it, too, but versions of it could be led around (CVE-2025-4517, CVE-2025-4330).

    :raises VerificationError: ``file-damaged``
    """
    name = PurePosixPath(member.name)
    through = any((staging / parent).is_symlink() for parent in name.parents)
    outside = member.issym() and _leaves(member.linkname, name.parent)
    if outside or through or not (member.isreg() or member.issym()):
        raise _leads_outside(archive, f"{member.name}{f' -> {member.linkname}' if member.linkname else ''}")


def _leads_outside(archive: Path, why: str) -> VerificationError:
    return VerificationError(
        "file-damaged",
        f"{archive.name} has an entry that would be unpacked elsewhere",
        where=str(archive),
        why=why,
        remedy="do not use it: `mlir-release sdk pack` makes no such archive; find out who did",
    )


def _leaves(target: str, folder: PurePosixPath) -> bool:
    """Whether a link in a folder of the archive leads out of the archive, on any system."""
    normal = posixpath.normpath((folder / target).as_posix())
    return normal.startswith(("/", "../")) or normal == ".." or "\\" in target or ":" in target.partition("/")[0]


def _description(file: Path, archive: Path) -> SdkInfo:
    if not file.is_file():
        raise _damaged(archive, f"it does not begin with {DESCRIPTION}")
    return SdkInfo.from_json(read_document(file), where=str(archive))


def _check_same(info: SdkInfo, output: Path, found: Path) -> None:
    check_output(output)
    there = output / DESCRIPTION
    if not there.is_file():
        return
    other = SdkInfo.from_json(read_document(there), where=str(there))
    if other != info:
        raise UsageError(
            "sdk-mismatch",
            f"{found.name} belongs to another SDK than the one in {output}",
            where=str(found),
            why=f"it is of {info.revision} ({info.platform}, {info.digest}), the folder's is of {other.revision} "
            f"({other.platform}, {other.digest})",
            remedy="unpack into another folder, or remove the SDK that is there",
        )


def _damaged(archive: Path, why: str) -> VerificationError:
    return VerificationError(
        "file-damaged",
        f"{archive.name} is not a complete part of an SDK",
        where=str(archive),
        why=why,
        remedy="download it again, or pack it again with `mlir-release sdk pack`",
    )
