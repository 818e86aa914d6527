"""What people hand in for a release: wheels, source distributions and test reports, read and checked before anything is
uploaded."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from packaging.metadata import InvalidMetadata, Metadata
from packaging.utils import canonicalize_name, parse_wheel_filename

from mlir_release.builder.model.names import DISTRIBUTION_SUFFIXES, SOURCE_SUFFIX, WheelKey, parse_source
from mlir_release.builder.model.test_report import REPORT_SUFFIX, TestReport
from mlir_release.builder.model.wheel_info import WheelInfo, wheel_info_in
from mlir_release.builder.wheels.inspect import check_record, corrupt
from mlir_release.builder.wheels.source import read_members, release_info
from mlir_release.ground.documents.decode import MalformedError, builtins, convert
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.storage.archives import ArchiveError, open_zip
from mlir_release.ground.storage.files import read_document
from mlir_release.release.forge.base import Asset
from mlir_release.release.model.manifest import SourceEntry, WheelEntry
from mlir_release.release.model.targets import OVERRIDES_NEED
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX, PROVENANCE_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from packaging.version import Version

#: Suffix of a wheel's core metadata file, as PEP 658 fixes it.
METADATA_SUFFIX = ".metadata"


#: How the names of provenance files end.
PROVENANCE_SUFFIXES = tuple(suffix + PROVENANCE_SUFFIX for suffix in DISTRIBUTION_SUFFIXES)


def files_of_wheel(filename: str) -> list[str]:
    """The assets that a wheel can have, itself last: it leads to the others."""
    return [filename + suffix for suffix in (METADATA_SUFFIX, PROVENANCE_SUFFIX, BUNDLE_SUFFIX, "")]


class Wheel(WheelEntry, frozen=True, kw_only=True):
    """A wheel on disk whose archive, RECORD, metadata and release information are sound: its row, and its content."""

    path: Path
    slot: WheelKey
    version: str
    metadata: bytes  #: METADATA as it is in the wheel
    info: WheelInfo

    def entry(self, *, provenance: str = "") -> WheelEntry:
        """The wheel's row in the manifest."""
        row = {name: getattr(self, name) for name in WheelEntry.__struct_fields__}
        return WheelEntry(**row | {"provenance": provenance})


class Source(SourceEntry, frozen=True, kw_only=True):
    """A source distribution on disk whose archive, metadata and release information are sound."""

    path: Path
    slot: WheelKey
    version: str
    info: WheelInfo

    def entry(self, *, provenance: str = "") -> SourceEntry:
        """Its row in the manifest."""
        row = {name: getattr(self, name) for name in SourceEntry.__struct_fields__}
        return SourceEntry(**row | {"provenance": provenance})


#: What a target of the build matrix makes.
Built = Wheel | Source

#: A wheel or source distribution, as its asset, its row in a manifest, or its content tells of it.
File = Built | WheelEntry | SourceEntry | Asset

#: What a report says for wheels. ``stale``: it is about another build. ``untested``: not all was tested.
ReportState = Literal["good", "stale", "failed", "untested"]


@dataclass(frozen=True, kw_only=True)
class Dist:
    """The content of a folder of build results."""

    wheels: tuple[Built, ...]  #: source distributions, too
    reports: Mapping[Path, TestReport] = field(default_factory=dict)
    provenance: Mapping[str, Path] = field(default_factory=dict)  #: wheel's file name -> provenance file
    bundles: Mapping[str, Path] = field(default_factory=dict)  #: file name -> its bundle


def read_wheel(path: Path) -> Wheel:
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
            info = archive.read(ours) if ours is not None else None
        core = Metadata.from_email(metadata, validate=False)
        fields = (str(core.name), str(core.version), str(core.requires_python or ""), core.requires_dist or [])
    except InvalidMetadata as error:
        raise corrupt(path, f"its METADATA is wrong: {error}") from error
    except (InstallerError, ArchiveError, KeyError, ValueError, RecursionError) as error:
        raise corrupt(path, str(error) or type(error).__name__) from error
    if problems:
        raise corrupt(path, "; ".join(problem.message for problem in problems))
    name, version, requires_python, requires_dist = fields
    filename_name, filename_version, _, tags = parse_wheel_filename(path.name)
    _check_named(path, "METADATA", (name, version), (filename_name, filename_version))
    wheel_info = release_info(path, info)
    with _listable(path):
        wheel = Wheel(
            path=path,
            filename=path.name,
            slot=slot,
            target=wheel_info.target,
            distribution=canonicalize_name(name),
            profile=wheel_info.profile,
            project=wheel_info.project,
            python=slot.python,
            serves=wheel_info.serves,
            regalloc_model=wheel_info.regalloc_model,
            sdk=wheel_info.sdk,
            image=wheel_info.image,
            version=version,
            platforms=tuple(sorted({tag.platform for tag in tags})),
            requires_python=requires_python,
            requires_dist=tuple(str(requirement) for requirement in requires_dist),
            size=path.stat().st_size,
            sha256=sha256_of(path),
            metadata=metadata,
            metadata_sha256=sha256_of(metadata),
            info=wheel_info,
        )
        convert(builtins(wheel.entry()), WheelEntry)
    return wheel


def read_source(path: Path) -> Source:
    """Read a source distribution and check its archive, metadata and release information.

    :raises VerificationError: ``file-damaged`` or ``wheel-unsuitable``
    """
    slot = WheelKey.of_file(path.name)
    if slot is None:
        raise corrupt(path, "its file name is not a source distribution's")
    metadata, info = read_members(path)
    try:
        core = Metadata.from_email(metadata, validate=False)
        name, version, requires_python = str(core.name), str(core.version), str(core.requires_python or "")
    except (InvalidMetadata, RecursionError) as error:
        raise corrupt(path, f"its PKG-INFO is wrong: {error}") from error
    _check_named(path, "PKG-INFO", (name, version), parse_source(path.name))
    release = release_info(path, info)
    with _listable(path):
        source = Source(
            path=path,
            filename=path.name,
            slot=slot,
            target=release.target,
            project=release.project,
            distribution=canonicalize_name(name),
            version=version,
            requires_python=requires_python,
            size=path.stat().st_size,
            sha256=sha256_of(path),
            sdk=release.sdk,
            info=release,
        )
        convert(builtins(source.entry()), SourceEntry)
    return source


@contextmanager
def _listable(path: Path) -> Iterator[None]:
    """Refuse what no manifest could list. :raises VerificationError: ``file-damaged``"""
    try:
        yield
    except MalformedError as error:
        raise corrupt(path, str(error)) from error


def _check_named(path: Path, where: str, said: tuple[str, str], named: tuple[str, Version]) -> None:
    """Check that metadata and file name give one name and version. :raises VerificationError: ``file-damaged``"""
    if (canonicalize_name(said[0]), said[1]) != (named[0], str(named[1])):
        raise corrupt(path, f"its {where} says {' '.join(said)}, its file name {named[0]} {named[1]}")


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

    def named(suffix: str) -> dict[str, Path]:
        return {name.removesuffix(suffix): path for name, path in unique.items() if name.endswith(suffix)}

    wheels = tuple(read_built(path) for name, path in unique.items() if name.endswith(DISTRIBUTION_SUFFIXES))
    reports = {path: read_report(path) for path in named(REPORT_SUFFIX).values()}
    bundles = named(BUNDLE_SUFFIX)
    if not wheels and not reports and not bundles:
        raise UsageError(
            "input-missing",
            "there is neither a wheel nor a test report to upload",
            where=str(folder),
            remedy="name the folder that `mlir-release wheels build -o` wrote to",
        )
    return Dist(wheels=wheels, reports=reports, provenance=named(PROVENANCE_SUFFIX), bundles=bundles)


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
            f"{wheel.filename} does not belong to {tag}",
            where=str(wheel.path),
            why="; ".join(contradictions),
        )


def check_slots(wheels: tuple[Built, ...]) -> None:
    """Check that no two wheels are for the same users. :raises VerificationError: ``wheel-unsuitable``"""
    for key in ("slot", "target"):
        seen: dict[object, Built] = {}
        for wheel in wheels:
            other = seen.setdefault(getattr(wheel, key), wheel)
            if other is not wheel:
                raise VerificationError(
                    "wheel-unsuitable",
                    f"two wheels are for the same users: {other.filename} and {wheel.filename}",
                    where=f"{other.path} and {wheel.path}",
                    why=f"both have the {key} {wheel.target if key == 'target' else wheel.slot}",
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
            if isinstance(file, Wheel | Source) and (why := _unseen(file, report)):
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
