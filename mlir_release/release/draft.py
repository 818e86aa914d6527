"""A release in the making: whose tag it is, which draft is the one, and adding files to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mlir_release.errors import ConflictError, ForgeError, NeedsPersonError, UsageError, VerificationError
from mlir_release.forge.base import Taken
from mlir_release.forge.files import matrix_at
from mlir_release.host.files import sha256_of
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.manifest import Waiver
from mlir_release.model.names import Slot
from mlir_release.model.release_tags import (
    TRAILER_REVISION,
    TRAILER_TOOLKIT,
    TRAILER_WHEEL_VERSION,
    ReleaseTag,
    SnapshotTag,
    parse_numbered,
    parse_snapshot,
)
from mlir_release.model.test_report import REPORT_SUFFIX, TestReport
from mlir_release.model.trailers import parse_trailers
from mlir_release.release.assets import Expected, read_report
from mlir_release.snapshot.state import ABANDONED_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from mlir_release.forge.base import Asset, Forge, Release
    from mlir_release.model.matrix import Matrix

#: Waivers stand in the draft as ``waiver-<target>.json``.
WAIVER_PREFIX = "waiver-"
WAIVER_SUFFIX = ".json"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a release's tag says: the promise that its wheels must keep."""

    tag: ReleaseTag
    commit: str  #: of the release repository
    revision: str  #: of llvm-project
    version: str  #: of the wheels
    toolkit_version: str
    abandoned: bool  #: somebody gave it up (without effect if it is published)

    @property
    def kind(self) -> Literal["snapshot", "numbered"]:
        """Which of the two channels it belongs to."""
        return "snapshot" if isinstance(self.tag, SnapshotTag) else "numbered"

    @property
    def expected(self) -> Expected:
        """What each wheel must say of itself."""
        return Expected(tag=self.tag, revision=self.revision, version=self.version)


def origin_of(forge: Forge, tag: str) -> Origin:
    """Read a release's tag.

    :raises UsageError: ``tag-invalid``, ``tag-missing``
    :raises NeedsPersonError: ``tag-not-ours``
    """
    parsed: ReleaseTag = parse_numbered(tag) if tag.startswith("llvm-") else parse_snapshot(tag)
    tags = {candidate.name: candidate for candidate in forge.tags()}
    found = tags.get(tag)
    if found is None:
        raise UsageError(
            "tag-missing",
            f"there is no tag {tag}",
            where=forge.description,
            remedy="`mlir-release tag list` shows the tags; `mlir-release snapshot` makes the next one",
        )
    trailers = parse_trailers(found.message)
    missing = [key for key in (TRAILER_REVISION, TRAILER_WHEEL_VERSION) if not trailers.get(key)]
    if missing:
        raise NeedsPersonError(
            "tag-not-ours",
            f"the tag {tag} was not made by mlir-release",
            where=forge.description,
            why=f"its message has no {' and no '.join(missing)} trailer",
            remedy="use a tag that `mlir-release snapshot` or `mlir-release number` made",
        )
    return Origin(
        tag=parsed,
        commit=found.commit,
        revision=trailers[TRAILER_REVISION],
        version=trailers[TRAILER_WHEEL_VERSION],
        toolkit_version=trailers.get(TRAILER_TOOLKIT, ""),
        abandoned=ABANDONED_PREFIX + tag in tags,
    )


def find_release(forge: Forge, tag: str) -> Release:
    """The release of ``tag``: the published one, else the oldest draft (forges allow several of one tag).

    :raises UsageError: ``draft-missing``
    """
    mine = [release for release in forge.releases() if release.tag == tag]
    for release in mine:
        if not release.draft:
            return release
    if not mine:
        raise UsageError(
            "draft-missing",
            f"there is neither a draft nor a release of {tag}",
            where=forge.description,
            remedy="`mlir-release snapshot` resumes the tag and makes its draft; an abandoned tag stays abandoned",
        )
    return mine[0]


def need_pending(origin: Origin, release: Release) -> None:
    """Refuse to go on with a job that somebody gave up. :raises NeedsPersonError: ``tag-abandoned``"""
    if release.draft and origin.abandoned:
        raise NeedsPersonError(
            "tag-abandoned",
            f"{origin.tag} was abandoned",
            where=str(origin.tag),
            remedy="make another release: mlir-release snapshot --force, or mlir-release number",
        )


def need_draft(release: Release) -> None:
    """Refuse to change what is published. :raises UsageError: ``release-published``"""
    if not release.draft:
        raise UsageError(
            "release-published",
            f"{release.tag} is published, and a published release never changes",
            where=release.tag,
            remedy="make another snapshot: mlir-release snapshot --force; or yank this one: mlir-release release yank",
        )


@dataclass(frozen=True, kw_only=True)
class Put:
    """What became of one file that was to stand in the draft."""

    name: str
    action: Literal["uploaded", "present", "kept"]  #: kept: the draft has other bytes of that name, and they win
    sha256: str  #: of what stands in the draft now


def put(
    forge: Forge, release: Release, name: str, source: Path, *, replace: Callable[[Asset], bool] = lambda _: False
) -> tuple[Release, Put]:
    """Make ``source`` stand in a draft as ``name``, whatever others do meanwhile.

    A complete asset of that name wins unless ``replace`` says that it is worthless; an incomplete one is deleted.
    Returns the release as it was last seen, and what was done.
    """
    ours = sha256_of(source)
    for _ in range(20):
        asset = release.asset(name)
        if asset is None:
            try:
                asset = forge.upload(release, name, source)
            except Taken:
                release = find_release(forge, release.tag)
                continue
            except ForgeError:
                # Somebody else may have finished it, or deleted our half of it: look before giving up.
                release = find_release(forge, release.tag)
                asset = release.asset(name)
                if asset is None or not asset.complete:
                    raise
                continue
            if asset.sha256 != ours:
                raise VerificationError(
                    "upload-damaged",
                    f"{name} arrived with another digest than it left with",
                    where=asset.url,
                    why=f"sha256 {asset.sha256} instead of {ours}",
                    remedy=f"run this again after `mlir-release publish {release.tag} --discard {name}`",
                )
            return release, Put(name=name, action="uploaded", sha256=ours)
        if asset.complete and asset.sha256 == ours:
            return release, Put(name=name, action="present", sha256=ours)
        if asset.complete and not (release.draft and replace(asset)):
            return release, Put(name=name, action="kept", sha256=asset.sha256)
        need_draft(release)
        forge.delete_asset(release, asset)
        release = find_release(forge, release.tag)
    raise ConflictError(
        "asset-contested",
        f"{name} keeps changing in the draft of {release.tag}",
        where=forge.description,
        why="another run uploads or deletes it at the same time",
        remedy="wait for the other run to end, then run this again",
    )


def put_bytes(
    forge: Forge, release: Release, name: str, content: bytes, *, replace: Callable[[Asset], bool] = lambda _: False
) -> tuple[Release, Put]:
    """:func:`put` for content that is not a file yet."""
    with scratch_folder("asset") as folder:
        source = folder / "content"
        source.write_bytes(content)
        return put(forge, release, name, source, replace=replace)


def fetch(forge: Forge, release: Release, asset: Asset, folder: Path) -> Path:
    """Download an asset into ``folder`` and check its digest; what is there already is not fetched again.

    :raises VerificationError: ``asset-corrupt``
    """
    destination = folder / asset.name
    if not (destination.is_file() and sha256_of(destination) == asset.sha256):
        forge.download(release, asset, destination)
        found = sha256_of(destination)
        if found != asset.sha256:
            destination.unlink()
            raise VerificationError(
                "asset-corrupt",
                f"{asset.name} is not what the forge says it is",
                where=asset.url,
                why=f"downloaded, its sha256 is {found}; the forge records {asset.sha256}",
                remedy=f"mlir-release publish {release.tag} --discard {asset.name}, then upload it again",
            )
    return destination


def fetch_wheel(forge: Forge, tag: str, target: str, folder: Path) -> Path:
    """Download the wheel of a target into ``folder``. :raises UsageError: ``target-unknown``, ``wheel-missing``"""
    matrix = matrix_at(forge, origin_of(forge, tag).commit)
    release = find_release(forge, tag)
    asset = wheel_assets(release).get(Slot.of_target(matrix.wheel(target)))
    if asset is None:
        raise UsageError(
            "wheel-missing",
            f"{tag} has no complete wheel of {target}",
            where=forge.description,
            remedy="build and upload it first: mlir-release publish --dist … --upload-only",
        )
    folder.mkdir(parents=True, exist_ok=True)
    return fetch(forge, release, asset, folder)


def wheel_assets(release: Release) -> dict[Slot, Asset]:
    """The complete wheels of a release by what they are for."""
    return {
        slot: asset
        for asset in release.assets
        if asset.complete and asset.name.endswith(".whl") and (slot := Slot.of_file(asset.name)) is not None
    }


def read_reports(forge: Forge, release: Release, folder: Path) -> dict[str, TestReport]:
    """The test reports of a release by their target; downloads them into ``folder``."""
    return {
        asset.name.removesuffix(REPORT_SUFFIX): read_report(fetch(forge, release, asset, folder))
        for asset in release.assets
        if asset.complete and asset.name.endswith(REPORT_SUFFIX)
    }


def read_waivers(forge: Forge, release: Release, folder: Path) -> dict[str, Waiver]:
    """The waivers of a release by their target; downloads them into ``folder``."""
    found = {}
    for asset in release.assets:
        if asset.complete and asset.name.startswith(WAIVER_PREFIX) and asset.name.endswith(WAIVER_SUFFIX):
            waiver = Waiver.from_text(fetch(forge, release, asset, folder).read_bytes(), where=asset.url)
            found[waiver.target] = waiver
    return found


def is_about(report: TestReport, release: Release) -> bool:
    """Whether a report tells about the wheel that stands in the draft, or about a platform and no wheel at all."""
    if not report.wheel:
        return not report.needs_wheel
    asset = release.asset(report.wheel)
    return asset is not None and asset.complete and asset.sha256 == report.wheel_sha256


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Targets of the build matrix that a draft still lacks, in the matrix's order."""

    wheels: tuple[str, ...]
    tests: tuple[str, ...]  #: no report, a failing one, or one about another build of the wheel

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {"wheels": list(self.wheels), "tests": list(self.tests)}


def missing(forge: Forge, tag: str, matrix: Matrix) -> Missing:
    """What a release still lacks; waived targets are not asked for again, and a published release lacks nothing."""
    origin = origin_of(forge, tag)
    release = find_release(forge, tag)
    if not release.draft:
        return Missing(wheels=(), tests=())
    matrix = matrix.due(origin.tag)
    with scratch_folder("missing") as folder:
        waivers = read_waivers(forge, release, folder)
        reports = read_reports(forge, release, folder)
    wheels = wheel_assets(release)
    return Missing(
        wheels=tuple(
            target.name
            for target in matrix.wheels
            if Slot.of_target(target) not in wheels and target.name not in waivers
        ),
        tests=tuple(
            test.name
            for test in matrix.tests
            if test.name not in waivers
            and not all(name in waivers for name in test.wheels)
            and not _passes(reports, test.name, release)
        ),
    )


def _passes(reports: Mapping[str, TestReport], name: str, release: Release) -> bool:
    report = reports.get(name)
    return report is not None and report.passed and is_about(report, release)
