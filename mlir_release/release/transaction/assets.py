"""What people hand in for a release: wheels, source distributions and test reports, read and checked before anything is
uploaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from msgspec import to_builtins
from packaging.metadata import InvalidMetadata, Metadata
from packaging.utils import canonicalize_name, parse_wheel_filename

from mlir_release.builder.model.names import DISTRIBUTION_SUFFIXES, SOURCE_SUFFIX, WheelKey, parse_source
from mlir_release.builder.model.test_report import REPORT_SUFFIX, TestReport
from mlir_release.builder.model.wheel_info import WheelInfo, wheel_info_in
from mlir_release.builder.wheels.inspect import check_record, corrupt
from mlir_release.builder.wheels.source import read_members, release_info
from mlir_release.ground.documents.decode import MalformedError, convert
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.storage.archives import ArchiveError, open_zip
from mlir_release.ground.storage.files import read_document
from mlir_release.release.forge.base import Asset
from mlir_release.release.model.manifest import SourceEntry, WheelEntry
from mlir_release.release.model.targets import OVERRIDES_NEED
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX, PROVENANCE_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from packaging.version import Version

Row = TypeVar("Row", WheelEntry, SourceEntry)

#: Suffix of a wheel's core metadata file, as PEP 658 fixes it.
METADATA_SUFFIX = ".metadata"

#: How the names of provenance files end.
PROVENANCE_SUFFIXES = tuple(suffix + PROVENANCE_SUFFIX for suffix in DISTRIBUTION_SUFFIXES)


def files_of_wheel(filename: str) -> list[str]:
    """The assets that a wheel can have, itself last: it leads to the others."""
    return [filename + suffix for suffix in (METADATA_SUFFIX, PROVENANCE_SUFFIX, BUNDLE_SUFFIX, "")]


@dataclass(frozen=True, kw_only=True)
class Built:
    """What a target of the build matrix makes, on disk: a wheel whose archive, RECORD, metadata and release information
    are sound, or a source distribution. It is read once; checks look at what is known of it here.
    """

    path: Path
    row: WheelEntry | SourceEntry  #: as a manifest lists it, before anything is known of its provenance
    slot: WheelKey
    version: str
    info: WheelInfo
    metadata: bytes = b""  #: METADATA as it is in a wheel

    @property
    def name(self) -> str:
        """Of the file."""
        return self.row.filename

    @property
    def sha256(self) -> str:
        """Of the file."""
        return self.row.sha256

    @property
    def target(self) -> str:
        """The wheel target that it says it is of."""
        return self.row.target


#: A wheel or source distribution, as its asset, its row in a manifest, or its content tells of it.
File = Built | WheelEntry | SourceEntry | Asset

#: What a report says for wheels. ``stale``: it is about another build. ``untested``: not all was tested.
ReportState = Literal["good", "stale", "failed", "untested"]


@dataclass(frozen=True, kw_only=True)
class Dist:
    """The content of a folder of build results."""

    files: Mapping[str, Path]  #: all files of a release, by name: bundles and provenance files, too
    wheels: tuple[Built, ...]  #: source distributions, too
    reports: tuple[TestReport, ...]


def read_wheel(path: Path) -> Built:
    """Read a wheel and check all of it: archive, every file's hash in RECORD, metadata, release information.

    :raises VerificationError: ``file-damaged`` or ``wheel-unsuitable``
    """
    from installer.exceptions import InstallerError
    from installer.sources import WheelFile

    slot = WheelKey.of_file(path.name)
    if slot is None:
        raise corrupt(path, "its file name is not a wheel's")
    try:
        with open_zip(path) as archive:
            dist_info = WheelFile(archive).dist_info_dir
            problems = check_record(archive, dist_info)
            # The bytes as they are: what pip compares with the .metadata file's hash.
            metadata = archive.read(f"{dist_info}/METADATA")
            ours = wheel_info_in(archive.namelist())
            content = archive.read(ours) if ours is not None else None
        core = Metadata.from_email(metadata, validate=False)
        requires = [str(requirement) for requirement in core.requires_dist or []]
        if problems:
            raise corrupt(path, "; ".join(problem.message for problem in problems))
        name, version, _, tags = parse_wheel_filename(path.name)
        told = _told(path, "METADATA", core, (name, version))
    except InvalidMetadata as error:
        raise corrupt(path, f"its METADATA is wrong: {error}") from error
    except (InstallerError, ArchiveError, KeyError, ValueError, RecursionError) as error:
        raise corrupt(path, str(error) or type(error).__name__) from error
    info = release_info(path, content)
    further = {
        "profile": info.profile,
        "python": slot.python,
        "serves": info.serves,
        "regalloc_model": info.regalloc_model,
        "image": info.image,
        "platforms": sorted({tag.platform for tag in tags}),
        "requires_dist": requires,
        "metadata_sha256": sha256_of(metadata),
    }
    row = _row(path, WheelEntry, info, told | further)
    return Built(path=path, row=row, slot=slot, version=str(version), info=info, metadata=metadata)


def read_source(path: Path) -> Built:
    """Read a source distribution and check its archive, metadata and release information.

    :raises VerificationError: ``file-damaged`` or ``wheel-unsuitable``
    """
    slot = WheelKey.of_file(path.name)
    if slot is None:
        raise corrupt(path, "its file name is not a source distribution's")
    metadata, content = read_members(path)
    try:
        core = Metadata.from_email(metadata, validate=False)
        told = _told(path, "PKG-INFO", core, parse_source(path.name))
    except (InvalidMetadata, RecursionError) as error:
        raise corrupt(path, f"its PKG-INFO is wrong: {error}") from error
    info = release_info(path, content)
    row = _row(path, SourceEntry, info, told)
    return Built(path=path, row=row, slot=slot, version=str(core.version), info=info)


def _told(path: Path, where: str, core: Metadata, named: tuple[str, Version]) -> dict[str, object]:
    """What metadata tells. :raises VerificationError: ``file-damaged``: the file's name says another name or version"""
    name, version = str(core.name), str(core.version)
    if (canonicalize_name(name), version) != (named[0], str(named[1])):
        raise corrupt(path, f"its {where} says {name} {version}, its file name {named[0]} {named[1]}")
    return {"distribution": canonicalize_name(name), "requires_python": str(core.requires_python or "")}


def _row(path: Path, kind: type[Row], info: WheelInfo, told: dict[str, object]) -> Row:
    """A file's row in a manifest. :raises VerificationError: ``file-damaged``: no manifest could list it"""
    told |= {"filename": path.name, "size": path.stat().st_size, "sha256": sha256_of(path)}
    told |= {"target": info.target, "project": info.project, "sdk": info.sdk}
    try:
        return convert(to_builtins(told), kind)
    except MalformedError as error:
        raise corrupt(path, str(error)) from error


def read_built(path: Path) -> Built:
    """:func:`read_source` or :func:`read_wheel`, by the file's name."""
    return read_source(path) if path.name.endswith(SOURCE_SUFFIX) else read_wheel(path)


def read_report(path: Path) -> TestReport:
    """Read a test report. :raises VerificationError: ``file-damaged``"""
    return TestReport.from_text(read_document(path), name=path.name, where=str(path))


def read_dist(folder: Path) -> Dist:
    """All wheels, source distributions and test reports below ``folder``, each read and checked, and their signatures.

    Other files are none of our business.

    :raises UsageError: ``input-missing`` if there is neither, nor a bundle: a run may have signed, and tested nothing
    :raises VerificationError: for the first unsound file, or ``wheel-unsuitable`` for two files of one name
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    unique: dict[str, Path] = {}
    for path in files:
        if not path.name.endswith((*DISTRIBUTION_SUFFIXES, REPORT_SUFFIX, *PROVENANCE_SUFFIXES, BUNDLE_SUFFIX)):
            continue
        other = unique.setdefault(path.name, path)
        if other is not path and sha256_of(other) != sha256_of(path):
            raise VerificationError(
                "wheel-unsuitable",
                f"two different files are called {path.name}",
                where=f"{other} and {path}",
                why="a release can hold one file of a name; two rows of the build matrix made the same one",
                remedy="give the two rows different distribution names, or remove the file that is not meant",
            )

    wheels = tuple(read_built(path) for name, path in unique.items() if name.endswith(DISTRIBUTION_SUFFIXES))
    reports = tuple(read_report(path) for name, path in unique.items() if name.endswith(REPORT_SUFFIX))
    if not wheels and not reports and not any(name.endswith(BUNDLE_SUFFIX) for name in unique):
        raise UsageError(
            "input-missing",
            "there is neither a wheel nor a test report to upload",
            where=str(folder),
            remedy="name the folder that `mlir-release wheels build -o` wrote to",
        )
    return Dist(files=unique, wheels=wheels, reports=reports)


def check_wheel(wheel: Built, *, tag: str, revision: str, version: str) -> None:
    """Check that a wheel belongs to the release, of which its tag tells this.

    :raises VerificationError: ``wheel-unsuitable``
    """
    contradictions = [
        f"its {word} is {found}, the release's is {wanted}"
        for word, found, wanted in (
            ("tag", wheel.info.tag, tag),
            ("revision", wheel.info.revision, revision),
            ("version", wheel.version, version),
        )
        if found != wanted
    ]
    if contradictions:
        raise VerificationError(
            "wheel-unsuitable",
            f"{wheel.name} does not belong to {tag}",
            where=str(wheel.path),
            why="; ".join(contradictions),
        )


def check_slots(wheels: Sequence[Built]) -> None:
    """Check that no two wheels are for the same users. :raises VerificationError: ``wheel-unsuitable``"""
    for key in ("slot", "target"):
        seen: dict[object, Built] = {}
        for wheel in wheels:
            other = seen.setdefault(getattr(wheel, key), wheel)
            if other is not wheel:
                raise VerificationError(
                    "wheel-unsuitable",
                    f"two wheels are for the same users: {other.name} and {wheel.name}",
                    where=f"{other.path} and {wheel.path}",
                    why=f"both have the {key} {getattr(wheel, key)}",
                    remedy="keep one of them in the dist folder",
                )


def weigh_report(report: TestReport | None, files: Sequence[File]) -> tuple[ReportState, str]:
    """What a report says for the wheels that are there, and why it doesn't speak for them; empty if it does."""
    if report is None:
        return "good", ""
    if report.needs_wheel and not report.wheel:
        return "stale", "does not say which wheel it tested"
    if files and report.wheel and all(report.wheel_sha256 != file.sha256 for file in files):
        return "stale", "tested another build of the wheel than the draft has"
    if not report.passed:
        return "failed", describe_failure(report)
    if OVERRIDES_NEED in report.suite.split("+"):
        for file in files:
            if isinstance(file, Built) and (why := _unseen(file, report)):
                return "untested", why
    return "good", ""


def describe_failure(report: TestReport) -> str:
    """That a run failed, with the first tests that did."""
    names = ", ".join(report.failed[:3]) + (" …" if len(report.failed) > 3 else "")
    return f"failed{f' ({names})' if names else ''}"


def _unseen(wheel: Built, report: TestReport) -> str:
    """Which relaxed requirement of a wheel a report says nothing about; empty if it covers all."""
    for name in dict.fromkeys(row.name for row in wheel.info.relaxed):
        version = report.installed.get(name)
        if version is None:
            return f"does not say which {name} it ran with, though the wheel relaxes upstream's requirement"
        if not any(row.admits(version) for row in wheel.info.relaxed if row.name == name):
            return f"ran with {name} {version}, which the wheel does not admit"
    return ""
