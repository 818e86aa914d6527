"""What a release is, as data: ``release.json``, the manifest that each release carries as an asset.

The index's only state is these manifests and ``yanked.toml`` (:class:`Yank`, on the release branch). Everything here is
immutable and pure; a manifest's text is a function of its content (sorted keys, sorted rows), so that two machines that
verify the same draft write the same bytes.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import tomli_w
from packaging.version import InvalidVersion, Version

from mlir_release.errors import UsageError, VerificationError
from mlir_release.model.decode import MalformedError, Record, digest, file_name, instant, known, sha1, text, whole
from mlir_release.model.release_tags import SnapshotTag, parse_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mlir_release.model.names import Kind

#: Name of the manifest among a release's assets, and of its copy on the pages.
MANIFEST_NAME = "release.json"

#: Raised when the meaning of a field changes; a reader refuses what is newer than itself.
MANIFEST_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class WheelEntry:
    """One wheel of a release. Its file stands among the release's assets, with ``<filename>.metadata`` beside it."""

    filename: str
    target: str  #: row of the build matrix, ``mlir-linux-x86_64-cp312``
    distribution: str  #: ``mlir``, ``mlir-core``, ``mlir-full``
    profile: str  #: ``host``, ``core``, ``full``
    python: str  #: the interpreter tag, ``cp312``
    platforms: tuple[str, ...]  #: platform tags, ``manylinux_2_28_x86_64``
    requires_python: str  #: PEP 440 specifiers, or empty
    requires_dist: tuple[str, ...]  #: PEP 508 requirements of the wheel
    size: int  #: bytes
    sha256: str
    metadata_sha256: str  #: of the METADATA file, which is the ``.metadata`` asset
    provenance: str = ""  #: name of the PEP 740 provenance asset, or empty


@dataclass(frozen=True, kw_only=True)
class TestEntry:
    """A test target's passing run on what is published."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    name: str  #: ``bindings-mlir-linux-x86_64-cp312``
    suite: str
    wheel: str  #: file name of the tested wheel; empty for a suite that tests the SDK's tools
    counts: Mapping[str, int] = field(default_factory=dict)  #: ``pass``, ``expected_fail``, ``unsupported``, …


@dataclass(frozen=True, kw_only=True)
class Waiver:
    """A person's decision to publish although ``target`` (a wheel's or a test's) is missing or fails."""

    target: str
    reason: str
    by: str
    at: str  #: UTC, ``2026-11-20T12:00:00Z``


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """An experimental target that is not part of the release, and why."""

    target: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Yank:
    """A published release, or one file of it, that nobody should get unless they pinned it (PEP 592)."""

    tag: str
    reason: str
    file: str = ""  #: empty: all of the release
    by: str = ""
    at: str = ""  #: UTC, ``2026-11-20T12:00:00Z``


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """``release.json``. Rows are sorted; :meth:`to_text` is deterministic."""

    tag: str
    kind: Kind
    version: str  #: of the wheels, canonical PEP 440
    revision: str  #: llvm-project commit
    commit: str  #: commit of the release repository that pins it
    upstream: str  #: URL or path of llvm-project
    created_at: str  #: when the draft was created, by the forge's clock; UTC, ``2026-11-20T12:00:00Z``
    toolkit_version: str
    previous_tag: str = ""  #: the newest release of the same kind that was published before; may be empty
    previous_revision: str = ""
    llvm_version: str = ""
    wheels: tuple[WheelEntry, ...] = ()
    tests: tuple[TestEntry, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def created(self) -> datetime:
        """:attr:`created_at` as a timezone-aware time."""
        return parse_time(self.created_at)

    @property
    def size(self) -> int:
        """Bytes of all wheels."""
        return sum(wheel.size for wheel in self.wheels)

    def sorted(self) -> Manifest:
        """The same manifest with its rows in their one order."""
        return replace(
            self,
            wheels=tuple(sorted(self.wheels, key=lambda wheel: (wheel.distribution, wheel.filename))),
            tests=tuple(sorted(self.tests, key=lambda test: test.name)),
            waivers=tuple(sorted(self.waivers, key=lambda waiver: waiver.target)),
            left_out=tuple(sorted(self.left_out, key=lambda target: target.target)),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data, rows sorted."""
        return {"schema": MANIFEST_SCHEMA, **asdict(self.sorted())}

    def to_text(self) -> str:
        """The content of ``release.json``."""
        return json.dumps(self.to_json(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, data: object, *, where: str) -> Manifest:
        """Read :meth:`to_json`'s data; ``where`` names the source in errors. :raises VerificationError:"""
        try:
            return _read_manifest(Record(data)).sorted()
        except MalformedError as error:
            raise VerificationError(
                "manifest-invalid",
                f"{error.path or 'the document'} {error.problem}",
                where=where,
                remedy="release.json is written by `mlir-release publish`; in a draft, delete the asset and "
                "publish again; in a published release, another version wrote it: update mlir-release",
            ) from error

    @classmethod
    def from_text(cls, content: str | bytes, *, where: str) -> Manifest:
        """Read :meth:`to_text`'s text. :raises VerificationError:"""
        try:
            data = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise VerificationError(
                "manifest-invalid",
                "the manifest is not JSON",
                where=where,
                why=str(error),
                remedy="if the release is a draft, delete its release.json and publish again",
            ) from error
        return cls.from_json(data, where=where)


def _read_manifest(row: Record) -> Manifest:
    schema = row.get("schema", whole)
    if schema != MANIFEST_SCHEMA:
        raise MalformedError("schema", f"is {schema}, and this version of mlir-release reads {MANIFEST_SCHEMA}")
    tag = row.get("tag", text)
    parsed = parse_tag(tag)
    if parsed is None:
        raise MalformedError("tag", f"is {tag!r}, which is not a release tag")
    kind: Kind = "snapshot" if isinstance(parsed, SnapshotTag) else "numbered"
    if row.get("kind", text) != kind:
        raise MalformedError("kind", f"is not {kind!r}, which the tag {tag} says")
    version = row.get("version", text)
    try:
        canonical = str(Version(version)) == version
    except InvalidVersion:
        canonical = False
    if not canonical:
        raise MalformedError("version", f"is {version!r}, which is not a canonical PEP 440 version")
    manifest = Manifest(
        tag=tag,
        kind=kind,
        version=version,
        revision=row.get("revision", sha1),
        commit=row.get("commit", sha1),
        upstream=row.get("upstream", text),
        created_at=row.get("created_at", instant),
        toolkit_version=row.get("toolkit_version", text),
        previous_tag=row.get("previous_tag", text, ""),
        previous_revision=row.get("previous_revision", text, ""),
        llvm_version=row.get("llvm_version", text, ""),
        wheels=tuple(_read_wheel(entry) for entry in row.rows("wheels")),
        tests=tuple(_read_test(entry) for entry in row.rows("tests")),
        waivers=tuple(_read_waiver(entry) for entry in row.rows("waivers")),
        left_out=tuple(
            LeftOut(target=entry.get("target", text), reason=entry.get("reason", text))
            for entry in row.rows("left_out")
        ),
    )
    names = [wheel.filename for wheel in manifest.wheels]
    for name in names:
        if names.count(name) > 1:
            raise MalformedError("wheels", f"name the file {name} twice")
    return manifest


def _read_wheel(row: Record) -> WheelEntry:
    return WheelEntry(
        filename=row.get("filename", file_name(".whl")),
        target=row.get("target", text),
        distribution=row.get("distribution", text),
        profile=row.get("profile", text),
        python=row.get("python", text),
        platforms=row.texts("platforms"),
        requires_python=row.get("requires_python", text, ""),
        requires_dist=row.texts("requires_dist"),
        size=row.get("size", whole),
        sha256=row.get("sha256", digest),
        metadata_sha256=row.get("metadata_sha256", digest),
        provenance=row.get("provenance", text, ""),
    )


def _read_test(row: Record) -> TestEntry:
    return TestEntry(
        name=row.get("name", text),
        suite=row.get("suite", text),
        wheel=row.get("wheel", text, ""),
        counts=row.numbers("counts"),
    )


def _read_waiver(row: Record) -> Waiver:
    return Waiver(
        target=row.get("target", text),
        reason=row.get("reason", text),
        by=row.get("by", text, ""),
        at=row.get("at", text, ""),
    )


def read_waiver(content: bytes, *, where: str) -> Waiver:
    """Read a ``waiver-<target>.json`` asset. :raises VerificationError:"""
    try:
        return _read_waiver(Record(json.loads(content)))
    except (MalformedError, ValueError) as error:
        raise VerificationError(
            "waiver-invalid",
            "a waiver can't be read",
            where=where,
            why=str(error),
            remedy="delete that asset of the draft and waive again: mlir-release release waive TAG TARGET --reason …",
        ) from error


# -- yanked.toml ----------------------------------------------------------------------------------------------------

#: Path of the yanks on the release branch.
YANKS_PATH = "yanked.toml"

_YANKS_HEADER = """\
# Releases, and single files of releases, that nobody should get unless they pinned them (PEP 592).
# Written by `mlir-release release yank TAG [FILE] --reason …`; the pages follow when the index is next generated.

"""


def parse_yanks(content: str, *, where: str = YANKS_PATH) -> tuple[Yank, ...]:
    """The ``[[yank]]`` tables of ``yanked.toml``, in their order. :raises UsageError: with the key that is wrong"""
    try:
        document = Record(tomllib.loads(content))
        unknown = sorted(set(document.data) - {"yank"})
        if unknown:
            raise MalformedError(unknown[0], "is not known: the file consists of [[yank]] tables")
        return tuple(_read_yank(row) for row in document.rows("yank"))
    except (MalformedError, tomllib.TOMLDecodeError) as error:
        raise UsageError(
            "yanks-invalid",
            f"{YANKS_PATH} can't be read",
            where=where,
            why=str(error),
            remedy="each entry is a [[yank]] table with tag, reason and, optionally, file, by and at",
        ) from error


def _read_yank(row: Record) -> Yank:
    known(row, {"tag", "file", "reason", "by", "at"})
    tag = row.get("tag", text)
    if parse_tag(tag) is None:
        raise MalformedError(row.at("tag"), f"is {tag!r}, which is not a release tag")
    return Yank(
        tag=tag,
        reason=row.get("reason", text),
        file=row.get("file", text, ""),
        by=row.get("by", text, ""),
        at=row.get("at", text, ""),
    )


def format_yanks(yanks: Iterable[Yank]) -> str:
    """The content of ``yanked.toml`` that :func:`parse_yanks` reads back."""
    tables = [{key: value for key, value in asdict(yank).items() if value} for yank in yanks]
    return _YANKS_HEADER + (tomli_w.dumps({"yank": tables}) if tables else "")


def yank_reason(yanks: Iterable[Yank], tag: str, filename: str = "") -> str | None:
    """Why the release ``tag`` (or its file ``filename``) is yanked; None if it is not."""
    for yank in yanks:
        if yank.tag == tag and yank.file in ("", filename):
            return yank.reason
    return None


# -- times ------------------------------------------------------------------------------------------------------------


def format_time(when: datetime) -> str:
    """``when`` as all our files write times: UTC, to the second, ``2026-11-20T12:00:00Z``."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(value: str) -> datetime:
    """Read :func:`format_time`'s text. :raises ValueError:"""
    return datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
