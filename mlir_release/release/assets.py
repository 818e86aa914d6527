"""What people hand in for a release: wheels and test reports, read and checked before anything is uploaded."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packaging.metadata import InvalidMetadata, Metadata
from packaging.utils import canonicalize_name, parse_wheel_filename

from mlir_release.errors import UsageError, VerificationError
from mlir_release.host.files import sha256_of
from mlir_release.model.decode import MalformedError, Record, digest, flag, sha1, text, whole
from mlir_release.model.manifest import TestEntry, WheelEntry
from mlir_release.model.names import Slot
from mlir_release.model.targets import SUITES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mlir_release.model.release_tags import ReleaseTag

#: Suffix of a wheel's core metadata file, as PEP 658 fixes it.
METADATA_SUFFIX = ".metadata"

#: Suffix of a wheel's provenance file (PEP 740).
PROVENANCE_SUFFIX = ".provenance"

#: Suffix of test reports: ``<test target>.tests.json``.
REPORT_SUFFIX = ".tests.json"

#: Where a wheel says which release it belongs to.
RELEASE_INFO = "mlir/_release.json"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the tag says every wheel of its release must be."""

    tag: ReleaseTag
    revision: str
    version: str  #: canonical PEP 440


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A wheel on disk whose archive, RECORD, metadata and release information are sound."""

    path: Path
    filename: str
    slot: Slot
    distribution: str
    version: str
    platforms: tuple[str, ...]
    requires_python: str
    requires_dist: tuple[str, ...]
    size: int  #: bytes
    sha256: str
    metadata: bytes  #: METADATA as it is in the wheel
    tag: str
    revision: str
    target: str
    profile: str
    llvm_version: str
    toolkit_version: str

    def entry(self, *, provenance: str = "") -> WheelEntry:
        """The wheel's row in the manifest."""
        return WheelEntry(
            filename=self.filename,
            target=self.target,
            distribution=self.distribution,
            profile=self.profile,
            python=self.slot.python,
            platforms=self.platforms,
            requires_python=self.requires_python,
            requires_dist=self.requires_dist,
            size=self.size,
            sha256=self.sha256,
            metadata_sha256=hashlib.sha256(self.metadata).hexdigest(),
            provenance=provenance,
        )


@dataclass(frozen=True, kw_only=True)
class Report:
    """A test target's run, as ``wheels test`` writes it."""

    path: Path
    target: str
    suite: str  #: several in one run have ``+`` between them
    wheel: str  #: file name; empty for a suite that tests the SDK's tools
    wheel_sha256: str  #: empty likewise
    passed: bool
    counts: Mapping[str, int]
    failures: tuple[str, ...]  #: names

    @property
    def filename(self) -> str:
        """The report's name among the release's assets."""
        return f"{self.target}{REPORT_SUFFIX}"

    @property
    def needs_wheel(self) -> bool:
        """Whether the suite runs on a wheel; else it tests the SDK's tools, once a platform."""
        return any(SUITES.get(suite) == "python" for suite in self.suite.split("+"))

    def entry(self) -> TestEntry:
        """The report's row in the manifest."""
        return TestEntry(name=self.target, suite=self.suite, wheel=self.wheel, counts=dict(self.counts))


@dataclass(frozen=True, kw_only=True)
class Dist:
    """The content of a folder of build results."""

    wheels: tuple[Wheel, ...]
    reports: tuple[Report, ...] = ()
    provenance: Mapping[str, Path] = field(default_factory=dict)  #: wheel's file name -> provenance file


def read_wheel(path: Path) -> Wheel:
    """Read a wheel and check all of it: archive, every file's hash in RECORD, metadata, release information.

    :raises VerificationError: ``wheel-corrupt`` or ``wheel-not-ours``
    """
    from installer.exceptions import InstallerError
    from installer.sources import WheelFile

    slot = Slot.of_file(path.name)
    if slot is None:
        raise _corrupt(path, "its file name is not a wheel's")
    try:
        with WheelFile.open(path) as source:
            source.validate_record(validate_contents=True)
            metadata = source.read_dist_info("METADATA").encode()
        with zipfile.ZipFile(path) as archive:
            # The bytes as they are: what pip compares with the .metadata file's hash.
            name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1)
            metadata = archive.read(name)
            info = archive.read(RELEASE_INFO) if RELEASE_INFO in archive.namelist() else None
        core = Metadata.from_email(metadata, validate=False)
        fields = (str(core.name), str(core.version), str(core.requires_python or ""), core.requires_dist or [])
    except InvalidMetadata as error:
        raise _corrupt(path, f"its METADATA is wrong: {error}") from error
    except (InstallerError, zipfile.BadZipFile, zlib.error, EOFError, KeyError, StopIteration, ValueError) as error:
        raise _corrupt(path, str(error) or type(error).__name__) from error
    name, version, requires_python, requires_dist = fields
    filename_name, filename_version, _, tags = parse_wheel_filename(path.name)
    if canonicalize_name(name) != filename_name or version != str(filename_version):
        raise _corrupt(path, f"its METADATA says {name} {version}, its file name {filename_name} {filename_version}")
    return Wheel(
        path=path,
        filename=path.name,
        slot=slot,
        distribution=canonicalize_name(name),
        version=version,
        platforms=tuple(sorted({tag.platform for tag in tags})),
        requires_python=requires_python,
        requires_dist=tuple(str(requirement) for requirement in requires_dist),
        size=path.stat().st_size,
        sha256=sha256_of(path),
        metadata=metadata,
        **_read_release_info(path, info),
    )


def _read_release_info(path: Path, content: bytes | None) -> dict[str, Any]:
    why = f"it has no {RELEASE_INFO}, which says what release it belongs to"
    if content is not None:
        try:
            row = Record(json.loads(content))
            return {
                "tag": row.get("tag", text),
                "revision": row.get("revision", sha1),
                "target": row.get("target", text),
                "profile": row.get("profile", text),
                "llvm_version": row.get("llvm_version", text, ""),
                "toolkit_version": row.get("toolkit_version", text, ""),
            }
        except MalformedError as error:
            why = f"in its {RELEASE_INFO}, {error}"
        except ValueError as error:
            why = f"its {RELEASE_INFO} is not JSON: {error}"
    raise VerificationError(
        "wheel-not-ours",
        f"{path.name} does not say which release it belongs to",
        where=str(path),
        why=why,
        remedy="build it with `mlir-release wheels build`; only such wheels are published",
    )


def _corrupt(path: Path, why: str) -> VerificationError:
    return VerificationError(
        "wheel-corrupt",
        f"{path.name} is not a sound wheel",
        where=str(path),
        why=why,
        remedy="download or build it again; nothing was uploaded",
    )


def read_report(path: Path) -> Report:
    """Read a test report. :raises VerificationError: ``report-invalid``"""
    try:
        row = Record(json.loads(path.read_bytes()))
        if (schema := row.get("schema", whole)) != 1:
            raise MalformedError("schema", f"is {schema}, and this version of mlir-release reads 1")
        report = Report(
            path=path,
            target=row.get("target", text),
            suite=row.get("suite", text),
            wheel=row.get("wheel", text, ""),
            wheel_sha256=row.get("wheel_sha256", digest, "") if row.data.get("wheel_sha256") else "",
            passed=row.get("passed", flag),
            counts=row.numbers("counts"),
            failures=tuple(failure.get("name", text) for failure in row.rows("failures")),
        )
        if report.filename != path.name:
            raise MalformedError("target", f"is {report.target!r}, which the file name contradicts")
        if report.target.partition("-")[0] not in report.suite.split("+"):
            raise MalformedError("suite", f"is {report.suite!r}, which the target {report.target!r} contradicts")
        if report.wheel and not report.wheel_sha256:
            raise MalformedError("wheel_sha256", "is missing, so nobody knows which build was tested")
    except ValueError as error:  # MalformedError and JSONDecodeError are ValueErrors
        raise VerificationError(
            "report-invalid",
            f"{path.name} is not a test report",
            where=str(path),
            why=str(error),
            remedy="run the tests again: mlir-release wheels test",
        ) from error
    return report


def read_dist(folder: Path) -> Dist:
    """All wheels and test reports below ``folder``, each read and checked; other files are none of our business.

    :raises UsageError: ``dist-empty`` if there is neither
    :raises VerificationError: for the first unsound file, or ``duplicate-file`` for two files of one name
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    unique: dict[str, Path] = {}
    for path in files:
        if not path.name.endswith((".whl", REPORT_SUFFIX, ".whl" + PROVENANCE_SUFFIX)):
            continue
        other = unique.setdefault(path.name, path)
        if other is not path and sha256_of(other) != sha256_of(path):
            raise VerificationError(
                "duplicate-file",
                f"two different files are called {path.name}",
                where=f"{other} and {path}",
                why="a release can hold one file of a name; two rows of the build matrix made the same one",
                remedy="give the two rows different distribution names, or remove the file that is not meant",
            )
    wheels = tuple(read_wheel(path) for name, path in unique.items() if name.endswith(".whl"))
    reports = tuple(read_report(path) for name, path in unique.items() if name.endswith(REPORT_SUFFIX))
    if not wheels and not reports:
        raise UsageError(
            "dist-empty",
            "there is neither a wheel nor a test report to upload",
            where=str(folder),
            remedy="name the folder that `mlir-release wheels build -o` wrote to",
        )
    return Dist(
        wheels=wheels,
        reports=reports,
        provenance={
            name.removesuffix(PROVENANCE_SUFFIX): path
            for name, path in unique.items()
            if name.endswith(PROVENANCE_SUFFIX)
        },
    )


def check_wheel(wheel: Wheel, expected: Expected) -> None:
    """Check that a wheel belongs to the release. :raises VerificationError: ``wheel-of-another-release``"""
    contradictions = [
        f"its {word} is {found}, the release's is {wanted}"
        for word, found, wanted in (
            ("tag", wheel.tag, str(expected.tag)),
            ("revision", wheel.revision, expected.revision),
            ("version", wheel.version, expected.version),
        )
        if found != wanted
    ]
    if contradictions:
        raise VerificationError(
            "wheel-of-another-release",
            f"{wheel.filename} does not belong to {expected.tag}",
            where=str(wheel.path),
            why="; ".join(contradictions),
            remedy="build the wheels from the tag itself, and keep the dist folders of different releases apart",
        )


def check_slots(wheels: tuple[Wheel, ...]) -> None:
    """Check that no two wheels are for the same users. :raises VerificationError: ``duplicate-target``"""
    for key in ("slot", "target"):
        seen: dict[object, Wheel] = {}
        for wheel in wheels:
            other = seen.setdefault(getattr(wheel, key), wheel)
            if other is not wheel:
                raise VerificationError(
                    "duplicate-target",
                    f"two wheels are for the same users: {other.filename} and {wheel.filename}",
                    where=f"{other.path} and {wheel.path}",
                    why=f"both have the {key} {wheel.target if key == 'target' else wheel.slot}",
                    remedy="keep one of them in the dist folder",
                )
