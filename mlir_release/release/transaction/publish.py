"""Publishing a draft: verified from its own assets, completed with its manifest and notes, made public once.

It can be killed anywhere and run again, also by two processes at once: what is complete in the draft wins, and
everything else follows from it.

Where releases are signed, two jobs do it, and wheels are downloaded by the first alone. It hands over one digest of the
names and digests that it has checked. The second compares that with the forge's listing: GitHub computes the digests
there itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ConflictError, NeedsPersonError, ReleaseError
from mlir_release.ground.storage.files import read_if_there, write_atomically
from mlir_release.release.instructions.notes import write_page
from mlir_release.release.judging.verify import Verified, digests_without, not_published, verify
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.release.pinning.pinned import check_pinned
from mlir_release.release.pinning.state import read_states
from mlir_release.release.provenance.bundle import is_about
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX
from mlir_release.release.transaction.draft import previous_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mlir_release.release.forge.base import Release
    from mlir_release.release.transaction.draft import Draft


@dataclass(frozen=True, kw_only=True)
class PublishOutcome:
    """A published release (or, with ``dry_run``, one that could be)."""

    manifest: Manifest
    url: str  #: its page
    already: bool  #: it was published before, and nothing was done
    dry_run: bool = False
    unsigned: bool = False  #: it was not published: the manifest is in the draft, and is to be signed first
    checked: str = ""  #: of an unsigned one: :func:`digest_of` the draft as it was checked, with the manifest

    def text(self) -> str:
        """A line, and one for each thing that is not as it should be."""
        wheels = self.manifest.wheels
        if self.unsigned:
            return (
                f"{self.manifest.tag} is verified, and is published once attest.yml has signed its {MANIFEST_NAME}\n"
                f"  {self.url}"
            )
        did = "would be published" if self.dry_run else "was published already" if self.already else "is published"
        lines = [
            f"{self.manifest.tag} {did}: {len(wheels)} wheels, {format_bytes(self.manifest.size)}"
            + "".join(f"; {source.filename}" for source in self.manifest.sources),
            f"  {self.url}",
        ]
        lines += [f"  waived: {waiver.target}: {waiver.reason}" for waiver in self.manifest.waivers]
        lines += [f"  relaxed: {row.requirement} for {row.upstream}: {row.reason}" for row in self.manifest.relaxed]
        lines += [f"  left out: {target.target}: {target.reason}" for target in self.manifest.left_out]
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "tag": self.manifest.tag,
            "url": self.url,
            "already": self.already,
            "dry_run": self.dry_run,
            "unsigned": self.unsigned,
            "manifest": self.manifest.sorted(),
        }


def publish(
    draft: Draft,
    *,
    dist: Path | None = None,
    manifest_to: Path | None = None,
    checked: str = "",
    dry_run: bool = False,
) -> PublishOutcome:
    """Verify a draft from its own assets and publish it, once.

    Where releases are signed, the manifest comes last, and only ``attest.yml`` can sign it: without a signature of this
    very manifest in ``dist`` or in the draft, the manifest is written, and nothing is published.

    :param dist: a folder that may hold the bundle of the manifest
    :param manifest_to: a folder that gets the manifest if it is to be signed
    :param checked: what the call before the signature handed over (:attr:`PublishOutcome.checked`); a draft that is
        still so is not verified again
    :param dry_run: verify only
    :raises VerificationError: those of :func:`verify` and :func:`~mlir_release.release.pinning.pinned.check_pinned`
    :raises NeedsPersonError: ``already-published``
    :raises ConflictError: ``changed-meanwhile``, also if what was signed is not what is in the draft now
    """
    draft.refresh()
    draft.need_pending()
    url = draft.forge.page_url(draft.tag)
    if not draft.release.draft:
        return PublishOutcome(manifest=draft.manifest(), url=url, already=True)
    check_pinned(draft.forge, draft.state)
    _check_version(draft)
    try:
        before = _checked_before(draft, checked) if checked else None
        verified = before or verify(draft)
        bundle = _bundle_of_manifest(draft, verified, dist)
        unsigned = draft.signatures is not None and bundle is None
        if unsigned and checked and before is None:  # what was signed is another manifest
            raise _changed(draft.release, draft.tag)
        handed_out = ""
        if unsigned and not dry_run:
            # What the draft then holds, if nobody else has changed it since it was verified.
            handed_out = digest_of(_listed(draft.release) | _add(draft, verified))
            if manifest_to is not None:
                write_atomically(manifest_to / MANIFEST_NAME, verified.manifest.to_text().encode())
        elif not dry_run:
            with console.step(f"publish {draft.tag}"):
                _complete(draft, verified, bundle)
    except ReleaseError:
        draft.need_pending()  # or its files were deleted with it
        if draft.forge.published(draft.tag) is None:
            raise
        draft.refresh()
        return PublishOutcome(manifest=draft.manifest(), url=url, already=True)
    return PublishOutcome(
        manifest=verified.manifest,
        url=url,
        already=False,
        dry_run=dry_run,
        unsigned=unsigned and not dry_run,
        checked=handed_out,
    )


def digest_of(files: Mapping[str, str]) -> str:
    """One digest of the names and digests of a draft's files.

    Without the bundle of the manifest, which comes last, so that a job which was killed after it can be run again.
    """
    rows = [f"{sha256} {name}\n" for name, sha256 in sorted(files.items()) if name != MANIFEST_NAME + BUNDLE_SUFFIX]
    return sha256_of("".join(rows))


def _listed(release: Release) -> dict[str, str]:
    """The digests of a release's files, as the forge lists them; of one whose upload was cut off it is empty."""
    return {asset.name: asset.sha256 for asset in release.assets}


def _checked_before(draft: Draft, checked: str) -> Verified | None:
    """What an earlier call checked, from the manifest that it left in the draft; None if something has changed since.

    Nothing is downloaded but that manifest, which the bundle has to be about.
    """
    listed = _listed(draft.release)
    if MANIFEST_NAME not in listed or digest_of(listed) != checked:
        return None
    manifest, state = draft.manifest(), draft.state
    if (manifest.version, manifest.revision, manifest.commit) != (state.wheel_version, state.revision, state.commit):
        return None  # the tag was made again
    excluded = not_published(
        draft, {file.filename for file in manifest.files}, {lock.filename for lock in manifest.locks}
    )
    return Verified(
        manifest=manifest,
        previous=previous_manifest(draft.forge, [manifest.previous_tag], draft.tag),
        digests=digests_without(draft.release, excluded),
        excluded=excluded,
    )


def _bundle_of_manifest(draft: Draft, verified: Verified, dist: Path | None) -> bytes | None:
    """The bundle of this very manifest, from a folder or from the draft; None if there is none.

    :raises VerificationError: ``signature-invalid``: someone else signed it
    """
    if draft.signatures is None:
        return None
    digest = sha256_of(verified.manifest.to_text())
    given = dist / (MANIFEST_NAME + BUNDLE_SUFFIX) if dist is not None else None
    for bundle in (read_if_there(given) if given is not None else None, draft.signatures.bundle(MANIFEST_NAME)):
        if bundle is not None and is_about(bundle, digest):
            draft.signatures.accept(MANIFEST_NAME, digest, bundle)
            return bundle
    return None


def _add(draft: Draft, verified: Verified) -> dict[str, str]:
    """Add what a draft still lacks, the manifest last. Returns the digests that these files have there."""
    puts = [draft.put_bytes(name, content) for name, content in verified.restored.items()]
    # In the place of an earlier try's, from before a waiver or another report.
    made = {**verified.locks, MANIFEST_NAME: verified.manifest.to_text().encode()}
    puts += [draft.put_bytes(name, content, replace=lambda _: True) for name, content in made.items()]
    return {put.name: put.sha256 for put in puts}


def _check_version(draft: Draft) -> None:
    """Refuse a version that another published release of the same kind has: tag -> version stays injective.

    :raises NeedsPersonError: ``already-published``
    """
    ours = draft.state
    if ours.tag.kind == "snapshot":  # its version is its tag's own
        return
    for other in read_states(draft.tags, ()):
        same = (other.tag.kind, other.wheel_version) == (ours.tag.kind, ours.wheel_version)
        if same and other.name != draft.tag and draft.forge.published(other.name) is not None:
            raise NeedsPersonError(
                "already-published",
                f"version {ours.wheel_version} is published already, as {other.name}",
                where=draft.tag,
                why="both tags were made before either was published",
                remedy=f"mlir-release release abandon {draft.tag}, then number the version again: it becomes a .post",
            )


def _complete(draft: Draft, verified: Verified, bundle: bytes | None) -> None:
    """Remove what the manifest leaves out, add what is lacking, write the notes, and publish.

    :raises ConflictError: ``changed-meanwhile``: the draft is not what was verified
    """
    forge, manifest = draft.forge, verified.manifest
    for asset in verified.excluded:
        forge.delete_asset(draft.release, asset)
    draft.refresh()
    digests = {**verified.digests, MANIFEST_NAME: _add(draft, verified)[MANIFEST_NAME]}
    if bundle is not None:
        name = MANIFEST_NAME + BUNDLE_SUFFIX
        digests[name] = draft.put_bytes(name, bundle, replace=lambda _: True).sha256
    draft.refresh()
    release = draft.release
    if not release.draft:
        return
    if changed := sorted({name for name, _ in _listed(release).items() ^ digests.items()}):
        raise _changed(release, ", ".join(changed))
    release = write_page(forge, release, manifest, verified.previous)
    draft.need_pending()
    _check_version(draft)
    draft.release = forge.publish(release)


def _changed(release: Release, where: str) -> ConflictError:
    """The error for a draft that is not what was verified."""
    return ConflictError(
        "changed-meanwhile",
        f"the draft of {release.tag} changed while it was verified",
        where=where,
        why="another run uploads to it or removes from it",
        remedy="wait for the other run to end, then publish again; nothing was published",
    )
