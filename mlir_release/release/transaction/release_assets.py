"""A release on its forge, with its files: reading them, and adding some while others do the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mlir_release.builder.model.names import WheelKey
from mlir_release.builder.model.test_report import REPORT_SUFFIX, TestReport
from mlir_release.ground.documents.decode import DOCUMENT_LIMIT
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ForgeError, NeedsPersonError, UsageError, VerificationError
from mlir_release.ground.programs.races import Races
from mlir_release.ground.storage.files import read_document
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.forge.base import Asset, Forge, Release, Taken
from mlir_release.release.forge.refusals import check_name
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest, Waiver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def waiver_name(target: str) -> str:
    """The asset that is the waiver of a target."""
    return f"waiver-{target}.json"


def is_waiver(name: str) -> bool:
    """Whether an asset of that name is a waiver."""
    return name.startswith("waiver-") and name.endswith(".json")


@dataclass(frozen=True, kw_only=True)
class Put:
    """What happened to one file that was to be added to a draft."""

    name: str
    action: Literal["uploaded", "present", "kept"]  #: kept: the draft has other bytes under that name, and they win
    sha256: str  #: of the file in the draft


def asset_corrupt(tag: str, asset: Asset, found: str) -> VerificationError:
    """The error for a download with another digest. ``found``: its sha256"""
    return VerificationError(
        "file-damaged",
        f"{asset.name} is not what the forge says it is",
        where=asset.url,
        why=f"downloaded, its sha256 is {found}; the forge records {asset.sha256}",
        remedy=f"mlir-release publish {tag} --discard {asset.name}, then upload it again",
    )


def need_published(forge: Forge, tag: str) -> Release:
    """The published release of a tag. :raises UsageError: ``release-not-published``"""
    release = forge.published(tag)
    if release is None:
        raise UsageError(
            "release-not-published",
            f"{tag} is not published",
            where=forge.description,
            remedy=f"check the tag and the repository: mlir-release publish {tag} publishes a pending release; a "
            "private repository needs a token in GITHUB_TOKEN",
        )
    return release


def parse_manifest(content: bytes, tag: str, *, where: str) -> Manifest:
    """Read the manifest of a release. :raises VerificationError: ``release-tampered``, ``file-damaged``"""
    manifest = Manifest.from_text(content, where=where)
    if manifest.tag != tag:
        raise VerificationError(
            "release-tampered",
            f"the {MANIFEST_NAME} of {tag} is that of {manifest.tag}",
            where=where,
            why="someone published or changed that release by hand",
            remedy="use another release; its maintainers delete this one by hand if nobody uses it",
        )
    return manifest


def not_its_manifest(forge: Forge, tag: str, what: str, why: str) -> VerificationError:
    """The error for a published release that is not as its manifest says."""
    return VerificationError(
        "release-tampered",
        f"{what} is not what {tag}'s {MANIFEST_NAME} says",
        where=forge.page_url(tag),
        why=why,
        remedy="do not use it: someone changed the release after it was published; its maintainers yank it and "
        "make another one",
    )


def find_release(forge: Forge, tag: str) -> Release | None:
    """The release of ``tag``: the published one, else the oldest draft (forges allow several of one tag)."""
    return forge.published(tag) or next(iter(forge.drafts(tag)), None)


class RemoteRelease:
    """A release or draft on a forge. ``release`` is what was last read of it."""

    def __init__(self, forge: Forge, release: Release) -> None:
        self.forge = forge
        self.release = release
        self._small: dict[str, bytes] = {}

    @property
    def tag(self) -> str:
        """The name of its tag."""
        return self.release.tag

    def refresh(self) -> None:
        """Read it again. If the draft was deleted, another one of the same tag takes its place.

        :raises UsageError: ``tag-missing``
        """
        found = self.forge.refresh(self.release) or find_release(self.forge, self.tag)
        if found is None:
            raise draft_missing(self.forge, self.tag)
        self.release = found

    def need_draft(self) -> None:
        """Refuse to change what is published. :raises UsageError: ``release-unsuitable``"""
        if not self.release.draft:
            raise UsageError(
                "release-unsuitable",
                f"{self.tag} is published, and a published release never changes",
                where=self.tag,
                remedy="make another snapshot: mlir-release snapshot --force; or yank this one: "
                "mlir-release release yank",
            )

    # -- its files ----------------------------------------------------------------------------------------------

    def fetch(self, asset: Asset, folder: Path) -> Path:
        """Download an asset into ``folder`` and check its digest; what is there already is not fetched again.

        :raises ForgeError: ``forge-refused``: it would be written elsewhere
        :raises VerificationError: ``file-damaged``
        """
        check_name("asset", asset.name, where=asset.url)
        destination = folder / asset.name
        if not (destination.is_file() and sha256_of(destination) == asset.sha256):
            self.forge.download(self.release, asset, destination)
            found = sha256_of(destination)
            if found != asset.sha256:
                destination.unlink()
                raise asset_corrupt(self.tag, asset, found)
        return destination

    def content(self, asset: Asset) -> bytes:
        """The content of a small asset. It is downloaded once, however often it is asked for.

        :raises VerificationError: ``release-tampered``: nothing that is read whole is that large
        """
        if asset.size > DOCUMENT_LIMIT:
            raise VerificationError(
                "release-tampered",
                f"{asset.name} is larger than such a file can be",
                where=asset.url,
                why=f"it has {asset.size:,} bytes, and {DOCUMENT_LIMIT:,} are read at most",
                remedy="do not use that release; in a draft of yours, discard the file: mlir-release publish "
                f"{self.tag} --discard {asset.name}",
            )
        if asset.sha256 not in self._small:
            with scratch_folder("asset") as folder:
                self._small[asset.sha256] = read_document(self.fetch(asset, folder))
        return self._small[asset.sha256]

    def know(self, path: Path) -> None:
        """Take the content of small assets that are this file from it: GitHub counts each download as a request."""
        self._small[sha256_of(path)] = read_document(path)

    def manifest(self) -> Manifest:
        """The manifest of a published release, or the one that an earlier try of publication left in a draft.

        :raises NeedsPersonError: ``tag-foreign``
        :raises VerificationError: ``release-tampered``, ``file-damaged``
        """
        asset = self.release.asset(MANIFEST_NAME)
        if asset is None:
            raise NeedsPersonError(
                "tag-foreign",
                f"{self.tag} is published, but has no {MANIFEST_NAME}",
                where=self.forge.page_url(self.tag),
                why="someone published the draft by hand",
                remedy="delete that release by hand if nobody uses it, and make another one; no page will show it",
            )
        return parse_manifest(self.content(asset), self.tag, where=asset.url)

    def complete(self, suffix: str = "") -> dict[str, Asset]:
        """Its complete files whose names end so, by what is before that."""
        found = [asset for asset in self.release.assets if asset.complete and asset.name.endswith(suffix)]
        return {asset.name.removesuffix(suffix): asset for asset in found}

    def wheels(self) -> dict[WheelKey, Asset]:
        """Its complete wheels and source distributions by what they are for."""
        files = self.complete().items()
        return {slot: asset for name, asset in files if (slot := WheelKey.of_file(name)) is not None}

    def report(self, asset: Asset) -> TestReport:
        """A test report. :raises VerificationError: ``file-damaged``"""
        return TestReport.from_text(self.content(asset), name=asset.name, where=asset.url)

    def reports(self) -> dict[str, TestReport]:
        """Its test reports by target."""
        return {name: self.report(asset) for name, asset in self.complete(REPORT_SUFFIX).items()}

    def waivers(self) -> dict[str, Waiver]:
        """Its waivers by target."""
        found = filter(None, map(self.waiver, self.waived()))
        return {waiver.target: waiver for waiver in found}

    def waiver(self, target: str) -> Waiver | None:
        """The waiver of a target."""
        asset = self.complete().get(waiver_name(target))
        return Waiver.from_text(self.content(asset), where=asset.url) if asset is not None else None

    def waived(self) -> list[str]:
        """The targets that are waived, by the names of the waivers."""
        return [name.removeprefix("waiver-") for name in self.complete(".json") if is_waiver(f"{name}.json")]

    def is_tested_by(self, report: TestReport) -> bool:
        """Whether a report is about the wheel that the draft has, or about a platform and no wheel at all."""
        if not report.wheel:
            return not report.needs_wheel
        asset = self.complete().get(report.wheel)
        return asset is not None and asset.sha256 == report.wheel_sha256

    # -- adding files -------------------------------------------------------------------------------------------

    def put(self, name: str, source: Path, *, replace: Callable[[Asset], bool] = lambda _: False) -> Put:
        """Make sure that the draft has a file called ``name``, whatever other processes do meanwhile.

        A complete asset of that name wins unless ``replace`` says that it is worthless; an incomplete one is deleted.

        :raises ConflictError: ``lost-race``; :raises VerificationError: ``file-damaged``
        """
        ours = sha256_of(source)
        races = Races(where=f"the draft of {self.tag}, {self.forge.description}")
        while True:
            asset = self.release.asset(name)
            if asset is None:
                asset = self._upload(name, source)
                if asset is not None and asset.complete:  # GitHub may answer 201 and keep nothing
                    if asset.sha256 != ours:
                        raise VerificationError(
                            "file-damaged",
                            f"the forge received other bytes of {name} than were sent",
                            where=asset.url,
                            why=f"sha256 {asset.sha256} instead of {ours}",
                            remedy=f"mlir-release publish {self.tag} --discard {name}, then run this again",
                        )
                    return Put(name=name, action="uploaded", sha256=ours)
            elif asset.complete and asset.sha256 == ours:
                return Put(name=name, action="present", sha256=ours)
            elif asset.complete and not (self.release.draft and replace(asset)):
                return Put(name=name, action="kept", sha256=asset.sha256)
            else:
                self.need_draft()
                self.forge.delete_asset(self.release, asset)
            self.refresh()
            races.retry(f"add {name}")

    def _upload(self, name: str, source: Path) -> Asset | None:
        """Add a file; None if another process added one first."""
        try:
            return self.forge.upload(self.release, name, source)
        except Taken:
            return None
        except ForgeError:
            # Another process may have finished the upload, or deleted our partial asset.
            self.refresh()
            asset = self.release.asset(name)
            if asset is None or not asset.complete:
                raise
            return None

    def put_bytes(self, name: str, content: bytes, *, replace: Callable[[Asset], bool] = lambda _: False) -> Put:
        """:meth:`put` for content that is not a file yet."""
        with scratch_folder("asset") as folder:
            source = folder / "content"
            source.write_bytes(content)
            return self.put(name, source, replace=replace)


def draft_missing(forge: Forge, tag: str) -> UsageError:
    """The error where a tag has neither a draft nor a release."""
    return UsageError(
        "tag-missing",
        f"there is neither a draft nor a release of {tag}",
        where=forge.description,
        remedy="`mlir-release snapshot` resumes the tag and makes its draft; an abandoned tag stays abandoned",
    )
