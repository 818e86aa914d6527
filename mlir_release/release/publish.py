"""A release's way into the world: draft, uploaded, verified, published. The functions that commands call stand here.

Each can be killed anywhere and run again, by two processes at once too: what stands complete in the draft wins, and
everything else follows from it.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.console import console, format_bytes
from mlir_release.errors import ConflictError, ForgeError, NeedsPersonError, UsageError
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.model.release_tags import TRAILER_WHEEL_VERSION, SnapshotTag, parse_tag
from mlir_release.model.trailers import parse_trailers
from mlir_release.release.discard import DiscardOutcome, discard
from mlir_release.release.draft import Missing, Origin, fetch, find_release, missing, need_pending, origin_of, put_bytes
from mlir_release.release.notes import notes, title
from mlir_release.release.upload import UploadOutcome, upload
from mlir_release.release.verify import Verified, previous_release, verify

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.forge.base import Forge, Release
    from mlir_release.model.matrix import Matrix
    from mlir_release.release.install_check import Trial

__all__ = [
    "DiscardOutcome",
    "Missing",
    "PublishOutcome",
    "UploadOutcome",
    "Verified",
    "discard",
    "missing",
    "publish",
    "upload",
    "verify",
]


@dataclass(frozen=True, kw_only=True)
class PublishOutcome:
    """A published release (or, with ``dry_run``, one that could be)."""

    manifest: Manifest
    url: str  #: its page
    already: bool  #: it was published before, and nothing was done
    trials: tuple[Trial, ...] = ()
    dry_run: bool = False

    def text(self) -> str:
        """A line, and one for each thing that is not as it should be."""
        wheels = self.manifest.wheels
        did = "would be published" if self.dry_run else "was published already" if self.already else "is published"
        lines = [
            f"{self.manifest.tag} {did}: {len(wheels)} wheels, {format_bytes(self.manifest.size)}",
            f"  {self.url}",
        ]
        lines += [f"  waived: {waiver.target}: {waiver.reason}" for waiver in self.manifest.waivers]
        lines += [f"  left out: {target.target}: {target.reason}" for target in self.manifest.left_out]
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "tag": self.manifest.tag,
            "url": self.url,
            "already": self.already,
            "dry_run": self.dry_run,
            "trials": [trial.to_json() for trial in self.trials],
            "manifest": self.manifest.to_json(),
        }


def publish(
    forge: Forge,
    tag: str,
    matrix: Matrix,
    *,
    pythons: Sequence[Path] = (),
    dependencies: Sequence[str] | None = None,
    workdir: Path | None = None,
    dry_run: bool = False,
) -> PublishOutcome:
    """Verify a draft from its own assets and publish it, once.

    :param pythons: CPythons of this machine that the wheels are installed with (see :func:`verify`)
    :param dependencies: pip's options that say where the wheels' dependencies come from; None: leave them out
    :param workdir: where the assets are downloaded to; kept, so that a second run downloads less
    :param dry_run: verify only
    :raises VerificationError: see :func:`verify`; :raises NeedsPersonError: ``version-published``
    """
    origin = origin_of(forge, tag)
    release = find_release(forge, tag)
    need_pending(origin, release)
    if release.draft:
        _check_version(forge, origin)
    holder = scratch_folder("publish") if workdir is None else nullcontext(workdir)
    with holder as folder:
        if not release.draft:
            return _published_before(forge, release, folder)
        verified = verify(forge, tag, matrix, workdir=folder, pythons=pythons, dependencies=dependencies)
        url = forge.page_url(tag)
        if not dry_run:
            with console.step(f"publish {tag}"):
                _finish(forge, verified, Path(folder))
        return PublishOutcome(
            manifest=verified.manifest, url=url, already=False, trials=verified.trials, dry_run=dry_run
        )


def _published_before(forge: Forge, release: Release, folder: Path) -> PublishOutcome:
    asset = release.asset(MANIFEST_NAME)
    if asset is None:
        raise NeedsPersonError(
            "release-without-manifest",
            f"{release.tag} is published, but has no {MANIFEST_NAME}",
            where=forge.page_url(release.tag),
            why="somebody published the draft by hand",
            remedy="delete that release by hand if nobody uses it, and make another snapshot; no page will show it",
        )
    manifest = Manifest.from_text(fetch(forge, release, asset, folder).read_bytes(), where=asset.url)
    return PublishOutcome(manifest=manifest, url=forge.page_url(release.tag), already=True)


def _check_version(forge: Forge, origin: Origin) -> None:
    """Refuse a version that another published release of the same kind has: tag -> version stays injective."""
    messages = {tag.name: tag.message for tag in forge.tags()}
    for release in forge.releases():
        other = parse_tag(release.tag)
        if release.draft or other is None or other == origin.tag:
            continue
        same_kind = isinstance(other, SnapshotTag) == isinstance(origin.tag, SnapshotTag)
        version = parse_trailers(messages.get(release.tag, "")).get(TRAILER_WHEEL_VERSION)
        if same_kind and version == origin.version:
            raise NeedsPersonError(
                "version-published",
                f"version {origin.version} is published already, as {release.tag}",
                where=str(origin.tag),
                why="both tags were made before either was published",
                remedy=f"mlir-release release abandon {origin.tag}, then number the version again: it becomes a .post",
            )


def _finish(forge: Forge, verified: Verified, folder: Path) -> None:
    """Publish what was verified, unless another process that verified the same was faster."""
    try:
        _complete(forge, verified, folder)
    except (ConflictError, ForgeError, UsageError):
        if find_release(forge, verified.manifest.tag).draft:
            raise


def _complete(forge: Forge, verified: Verified, folder: Path) -> None:
    """Remove what the manifest leaves out, add the manifest, write the notes, and publish."""
    manifest = verified.manifest
    for asset in verified.excluded:
        forge.delete_asset(verified.release, asset)
    release, added = put_bytes(
        forge,
        find_release(forge, manifest.tag),
        MANIFEST_NAME,
        manifest.to_text().encode(),
        replace=lambda _: True,  # an earlier run's, from before a waiver or another report
    )
    release = find_release(forge, manifest.tag)
    if not release.draft:
        return
    _check_unchanged(release, {**verified.digests, MANIFEST_NAME: added.sha256})
    body = notes(
        manifest,
        page_url=forge.page_url(manifest.tag),
        urls={asset.name: asset.url for asset in release.assets},
        previous=previous_release(forge, manifest.tag, folder),
    )
    if (release.title, release.body) != (title(manifest), body):
        release = forge.edit_release(release, title=title(manifest), body=body)
    need_pending(origin_of(forge, manifest.tag), release)  # somebody may have given it up since
    forge.publish(release)


def _check_unchanged(release: Release, verified: Mapping[str, str]) -> None:
    """Refuse to publish what is not what was verified. :raises ConflictError: ``draft-changed``"""
    found = {asset.name: asset.sha256 for asset in release.assets}
    changed = sorted({name for name, _ in found.items() ^ verified.items()})
    if changed:
        raise ConflictError(
            "draft-changed",
            f"the draft of {release.tag} changed while it was verified",
            where=", ".join(changed),
            why="another run uploads to it or removes from it",
            remedy="wait for the other run to end, then publish again; nothing was published",
        )
