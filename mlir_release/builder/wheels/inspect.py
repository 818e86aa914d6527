"""``wheels inspect``: a wheel's content, its needs, and whether its metadata is correct. It takes any wheel."""

from __future__ import annotations

import csv
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_release.builder.model.sdk_wheel_info import SDK_WHEEL_INFO, SdkWheelInfo
from mlir_release.builder.model.wheel_info import WheelInfo, wheel_info_in
from mlir_release.builder.sdk.elf import ELF_MAGIC, ElfFacts, read_elf
from mlir_release.builder.wheels.binaries import BinaryFacts, is_binary, read_binary, vendored
from mlir_release.builder.wheels.platform_tags import Problem, abis_of, actual_platform, check_stable_abi, check_tags
from mlir_release.ground.documents.decode import MalformedError
from mlir_release.ground.documents.digests import record_digest, sha256_of
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.python.cpython import STABLE_ABI
from mlir_release.ground.storage.archives import ArchiveError, open_zip
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from installer.records import RecordEntry
    from packaging.metadata import RawMetadata

    from mlir_release.ground.storage.archives import GuardedZip


@dataclass(frozen=True, kw_only=True)
class WheelFile:
    """One member of the archive; sizes in bytes, ``compressed`` as downloaded."""

    name: str
    size: int
    compressed: int


@dataclass(frozen=True, kw_only=True)
class MemberGroup:
    """A group of members that serve the same purpose; sizes in bytes."""

    name: str
    files: int
    size: int
    compressed: int


@dataclass(frozen=True, kw_only=True)
class WheelReport:
    """The findings of :func:`inspect`."""

    path: Path
    filename: str
    size: int
    sha256: str
    distribution: str
    version: str
    requires_python: str | None
    requires_dist: tuple[str, ...]
    tags: tuple[str, ...]
    #: The lowest platform tag that the binaries can honestly carry (Linux; where this machine cannot tell, the claimed
    #: one), ``any`` for a pure wheel.
    true_platform_tag: str
    system: tuple[str, ...]  #: libraries that are needed and guaranteed by the platform tag
    external: tuple[str, ...]  #: libraries that are needed, not in the wheel, and not guaranteed by the platform tag
    parts: tuple[MemberGroup, ...]
    files: tuple[WheelFile, ...]
    elf: dict[str, ElfFacts] = field(repr=False)  #: member name -> facts
    binaries: dict[str, BinaryFacts] = field(repr=False)  #: the same of Mach-O and PE files
    release: WheelInfo | None  #: which release the wheel belongs to; None if it is not one of ours
    sdk: SdkWheelInfo | None  #: the SDK that it is, or was built from; None if it says nothing of one
    problems: tuple[Problem, ...]

    @property
    def stable_abi(self) -> bool:
        """Whether it is for CPython's stable ABI, and so for later CPythons, too."""
        return abis_of(self.tags) == {STABLE_ABI}

    @property
    def unpacked_size(self) -> int:
        """Bytes that the wheel takes on disk once installed."""
        return sum(file.size for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """The report as ``--json`` prints it."""
        from msgspec import to_builtins

        data = asdict(self)
        data["path"] = str(self.path)
        data["release"] = to_builtins(self.release)
        data["sdk"] = to_builtins(self.sdk)
        data["unpacked_size"] = self.unpacked_size
        for name, facts in self.elf.items():
            data["elf"][name]["glibc"] = ".".join(map(str, facts.glibc)) if facts.glibc else None
        return data


def inspect(path: Path, *, ask_auditwheel: bool = True) -> WheelReport:
    """Look into the wheel at ``path``. Whatever is merely wrong with it becomes a problem in the report.

    :param ask_auditwheel: ask it for the true platform tag; that takes more than a minute for a wheel of an SDK
    :raises UsageError: ``input-missing``, ``input-invalid``
    :raises VerificationError: ``file-damaged``: the archive cannot be read to the end
    """
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    if not path.is_file():
        raise UsageError(
            "input-missing", f"there is no wheel {path.name}", where=str(path), remedy="check the path; is it a file?"
        )
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise UsageError(
            "input-invalid",
            f"{path.name} does not have a wheel's file name",
            where=str(path),
            why=str(error),
            remedy="give a file named <distribution>-<version>-<python>-<abi>-<platform>.whl",
        ) from None
    try:
        with open_zip(path) as archive:
            expanded = tuple(sorted(map(str, tags)))
            return _inspect(path, archive, str(name), str(version), expanded, ask_auditwheel=ask_auditwheel)
    except ArchiveError as error:
        raise corrupt(path, str(error)) from error


def _inspect(
    path: Path, archive: GuardedZip, name: str, version: str, tags: tuple[str, ...], *, ask_auditwheel: bool
) -> WheelReport:
    members = [info for info in archive.infolist() if not info.is_dir()]
    names = {info.filename for info in members}
    folders = sorted({name.split("/")[0] for name in names if name.split("/")[0].endswith(".dist-info")})
    required = {f"{folder}/{part}" for folder in folders for part in ("METADATA", "WHEEL", "RECORD")}
    if len(folders) != 1 or not required <= names:
        lacking = f"it lacks {', '.join(sorted(required - names))}"
        raise UsageError(
            "input-invalid",
            f"{path.name} is an archive, but no wheel",
            where=str(path),
            why=lacking if len(folders) == 1 else f"it has {len(folders)} .dist-info folders, a wheel has one",
            remedy="build it with a wheel builder",
        )
    (dist_info,) = folders
    elf: dict[str, ElfFacts] = {}
    binaries: dict[str, BinaryFacts] = {}
    digests: dict[str, tuple[str, int]] = {}
    with scratch_folder("inspect") as scratch:
        for info in members:
            begin, digests[info.filename] = _hash(archive.chunks(info))  # checks the CRC
            if begin.startswith(ELF_MAGIC) or is_binary(info.filename, begin):
                archive.copy(info, copy := scratch / "binary")
                facts = _read_binary(path, info.filename, copy)
                if isinstance(facts, ElfFacts):
                    elf[info.filename] = facts
                elif facts is not None:
                    binaries[info.filename] = facts
    metadata, problems = _metadata(archive.read(f"{dist_info}/METADATA"), name, version)
    problems += check_record(archive, dist_info, digests)
    actual = actual_platform(path, tags, elf, binaries, ask_auditwheel=ask_auditwheel)
    wheel_file = archive.read(f"{dist_info}/WHEEL").decode(errors="replace")
    problems += check_tags(wheel_file, tags, actual, elf, tuple(digests), binaries)
    problems += check_stable_abi(path, tags, binaries)
    release, sdks = _origin(archive)
    if release is not None:  # others may do so
        problems += [Problem("library-vendored", f"a repair step added {name}") for name in vendored(digests)]
    if len(sdks) > 1:
        message = f"built from several SDKs: {'; '.join(record.title for record in sdks)}"
        problems.append(Problem("several-sdks", message))
    files = tuple(
        WheelFile(name=info.filename, size=info.file_size, compressed=info.compress_size)
        for info in sorted(members, key=lambda info: -info.compress_size)
    )
    return WheelReport(
        path=path,
        filename=path.name,
        size=path.stat().st_size,
        sha256=sha256_of(path),
        distribution=metadata.get("name", name),
        version=version,
        requires_python=metadata.get("requires_python"),
        requires_dist=tuple(metadata.get("requires_dist", ())),
        tags=tags,
        true_platform_tag=actual.tag,
        system=actual.system,
        external=actual.external,
        parts=group(files, dist_info, elf),
        files=files,
        elf=elf,
        binaries=binaries,
        release=release,
        sdk=sdks[0] if sdks else None,
        problems=tuple(problems),
    )


def _hash(chunks: Iterator[bytes]) -> tuple[bytes, tuple[str, int]]:
    """The first bytes of a member; its digest as ``RECORD`` has it, and its size."""
    begin, size = b"", 0

    def counted() -> Iterator[bytes]:
        nonlocal begin, size
        for chunk in chunks:
            begin = begin or chunk[:8]
            size += len(chunk)
            yield chunk

    digest = record_digest(counted())
    return begin, (digest, size)


def group(files: tuple[WheelFile, ...], dist_info: str, elf: dict[str, ElfFacts]) -> tuple[MemberGroup, ...]:
    """Add the members up by what they are for, largest part first."""
    sums: dict[str, list[int]] = {}
    for file in files:
        total = sums.setdefault(_purpose(file.name, dist_info, elf), [0, 0, 0])
        total[0] += 1
        total[1] += file.size
        total[2] += file.compressed
    parts = [MemberGroup(name=name, files=total[0], size=total[1], compressed=total[2]) for name, total in sums.items()]
    return tuple(sorted(parts, key=lambda part: (-part.compressed, part.name)))


def _purpose(name: str, dist_info: str, elf: dict[str, ElfFacts]) -> str:
    path = Path(name)
    if name.startswith(f"{dist_info}/"):
        return "licences" if "licenses" in path.parts else "metadata"
    if path.suffix == ".o":
        return "static libraries"
    if {"bin", "scripts"} & set(path.parts[:-1]):
        return "programs"
    if name in elf:
        # Extension modules carry the interpreter in their name, or sit in a package as "x.abi3.so" / "x.so".
        extension = ".cpython-" in path.name or ".abi3." in path.name or elf[name].soname is None
        return "extension modules" if extension else "shared libraries"
    by_suffix = {
        ".pyd": "extension modules",
        ".dll": "shared libraries",
        ".dylib": "shared libraries",
        ".so": "extension modules",
        ".py": "Python",
        ".pyi": "type stubs",
        ".typed": "type stubs",
        ".h": "headers",
        ".hpp": "headers",
        ".inc": "headers",
        ".def": "headers",
        ".td": "TableGen",
        ".cmake": "CMake packages",
        ".a": "static libraries",
        ".lib": "static libraries",
    }
    return by_suffix.get(path.suffix, "other")


def corrupt(path: Path, why: str) -> VerificationError:
    """The error for a wheel or source distribution whose archive or content is damaged."""
    return VerificationError(
        "file-damaged", f"{path.name} is damaged", where=str(path), why=why, remedy="download or build it again"
    )


def _read_binary(path: Path, member: str, copy: Path) -> ElfFacts | BinaryFacts | None:
    """The facts of a member that begins as a binary does. :raises VerificationError: ``file-damaged``"""
    try:
        with copy.open("rb") as file:
            if file.read(len(ELF_MAGIC)) == ELF_MAGIC:
                return read_elf(file)
        return read_binary(member, copy.read_bytes())
    except ValueError as error:
        raise corrupt(path, f"{member} is {error}") from error
    except ImportError:
        raise
    except Exception as error:  # whatever another's code makes a parser raise
        raise corrupt(path, f"{member} is not a sound binary: {error}") from error


def _metadata(text: bytes, name: str, version: str) -> tuple[RawMetadata, list[Problem]]:
    """``METADATA``, and its problems; it must have the name and version of the file name."""
    from packaging.metadata import ExceptionGroup, InvalidMetadata, Metadata, parse_email
    from packaging.utils import canonicalize_name, canonicalize_version

    raw, _ = parse_email(text)
    problems = []
    try:
        Metadata.from_email(text, validate=True)
    except (InvalidMetadata, ExceptionGroup) as error:
        causes = error.exceptions if isinstance(error, ExceptionGroup) else [error]
        problems += [Problem("metadata-invalid", f"METADATA: {cause}") for cause in causes]
    if canonicalize_name(raw.get("name", "")) != name:
        message = f"the file name says {name}, METADATA says {raw.get('name', 'nothing')}"
        problems.append(Problem("name-mismatch", message))
    if canonicalize_version(raw.get("version", "")) != canonicalize_version(version):
        message = f"the file name says version {version}, METADATA says {raw.get('version', 'nothing')}"
        problems.append(Problem("version-mismatch", message))
    return raw, problems


def check_record(
    archive: GuardedZip, dist_info: str, digests: dict[str, tuple[str, int]] | None = None
) -> list[Problem]:
    """Compare ``RECORD`` with the members: every file listed, with its true digest and size.

    Source: "Recording installed projects" in the packaging specifications. ``RECORD`` lists itself without a digest,
    and not its signatures.

    :param digests: of the members, with their sizes; None: all of them are read
    """
    from installer.records import InvalidRecordEntry, RecordEntry, parse_record_file

    lines = filter(None, archive.read(f"{dist_info}/RECORD").decode(errors="replace").splitlines())
    try:
        entries = [RecordEntry.from_elements(*row) for row in parse_record_file(lines)]
    except InvalidRecordEntry as error:
        return [Problem("record-invalid", f"RECORD can't be read: {error} in {','.join(error.elements)!r}")]
    except csv.Error as error:
        return [Problem("record-invalid", f"RECORD can't be read: {error}")]
    if digests is None:
        members = [info for info in archive.infolist() if not info.is_dir()]
        digests = {info.filename: _hash(archive.chunks(info))[1] for info in members}
    signatures = {f"{dist_info}/RECORD.jws", f"{dist_info}/RECORD.p7s"}
    problems = [
        Problem("record-extra", f"RECORD lists {entry.path}, which signs it")
        if entry.path in signatures
        else _check_entry(entry, digests.get(entry.path), is_record=entry.path == f"{dist_info}/RECORD")
        for entry in entries
    ]
    unlisted = set(digests) - {entry.path for entry in entries} - signatures
    problems += [Problem("record-missing", f"{name} is not listed in RECORD") for name in sorted(unlisted)]
    return list(filter(None, problems))


def _check_entry(entry: RecordEntry, member: tuple[str, int] | None, *, is_record: bool) -> Problem | None:
    """Compare a line of ``RECORD`` with the member's digest and size. ``is_record``: the member is RECORD itself"""
    if member is None:
        return Problem("record-extra", f"RECORD lists {entry.path}, which is not in the wheel")
    if is_record:
        known = entry.hash_ is not None or entry.size is not None
        return Problem("record-digest", "RECORD gives a digest or a size of itself") if known else None
    digest, size = member
    if entry.hash_ is None or entry.hash_.name != "sha256":
        kind = entry.hash_.name if entry.hash_ else "none"
        return Problem("record-digest", f"RECORD gives {entry.path} a digest of kind {kind!r}, not sha256")
    if entry.hash_.value != digest:
        return Problem("record-digest", f"RECORD has another digest for {entry.path} than its content")
    if entry.size != size:
        said = "nothing of the size" if entry.size is None else f"{entry.size} bytes"
        return Problem("record-size", f"RECORD says {said} of {entry.path}, which has {size} bytes")
    return None


def _origin(archive: GuardedZip) -> tuple[WheelInfo | None, list[SdkWheelInfo]]:
    """The release that the wheel belongs to, and the SDKs that its members name. Unreadable records count as none."""
    release, sdks = None, {}
    name = wheel_info_in(archive.namelist())
    if name is not None:
        with suppress(MalformedError):
            release = WheelInfo.from_text(archive.read(name))
    for info in archive.infolist():
        if info.filename.rpartition("/")[2] == SDK_WHEEL_INFO:
            with suppress(MalformedError):
                record = SdkWheelInfo.from_text(archive.read(info))
                sdks[record.digest] = record
    return release, list(sdks.values())
