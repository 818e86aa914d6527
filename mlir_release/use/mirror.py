"""Copy the published releases of one forge to another: an air-gapped mirror, or a move to another host.

The copy is exact to the byte: the same tags with the same messages, the same assets with the same digests, the same
yanks. Only what names a place is the mirror's own: its commits (each holds the pin and the matrix of the release), and
the links in the notes. Re-running after an interruption resumes at the first unfinished step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.ground.console import console, format_bytes
from mlir_release.ground.documents.trailers import format_message, parse_trailers
from mlir_release.ground.errors import ConflictError, ForgeError, NeedsPersonError, VerificationError
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.ground.programs.races import Races
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.forge.base import BranchMoved, Forge, Release, Taken
from mlir_release.release.forge.files import head_of
from mlir_release.release.instructions.notes import write_page
from mlir_release.release.judging.check import fetch_listed, need_its_tag, need_listed
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy, TrustedRelease, read_trusted
from mlir_release.release.latest.latest_branch import copy_pointer
from mlir_release.release.model.manifest import MANIFEST_NAME
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import (
    TRAILER_REVISION,
    TRAILER_WHEEL_VERSION,
    line_file,
    parse_release_tag,
    parse_tag,
)
from mlir_release.release.model.yanks import YANKS_PATH
from mlir_release.release.transaction.draft import previous_manifest
from mlir_release.release.transaction.release_assets import RemoteRelease, find_release

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


#: Names, in the mirror's commit of a release, the source's commit that it copies.
TRAILER_MIRRORED = "Mirrored-Commit"

#: The notes of a copy until it is published.
_COPYING = "Being copied.\n"


@dataclass(frozen=True, kw_only=True)
class MirrorOutcome:
    """What was copied, or, with ``dry_run``, would be."""

    copied: tuple[str, ...]  #: tags, oldest first
    present: int  #: releases that the mirror had
    size: int  #: bytes of the copied releases
    yanks: bool  #: the list of yanks was brought up to date
    signed_by: tuple[str, ...] = ()  #: the repositories that signed what was copied; none: nobody did
    pointer: bool = False  #: the signed pointer to the newest snapshot was brought up to date
    dry_run: bool = False

    def text(self) -> str:
        """A line, and one for each copied release."""
        verb = "to copy" if self.dry_run else "copied"
        lines = [f"releases {verb}: {len(self.copied)} ({format_bytes(self.size)}); there already: {self.present}"]
        lines += [f"  {tag}" for tag in self.copied]
        if self.copied and not self.dry_run:
            lines.append(f"  signed by {', '.join(self.signed_by) or 'nobody, or that was not checked'}")
        if self.yanks:
            lines.append(f"  {YANKS_PATH} {'differs' if self.dry_run else 'brought up to date'}")
        if self.pointer:
            lines.append(f"  the signed latest {'differs' if self.dry_run else 'brought up to date'}")
        return "\n".join(lines)


def mirror(
    source: Forge, destination: Forge, signed_by: SignedBy = AS_DECLARED, *, dry_run: bool = False
) -> MirrorOutcome:
    """Bring ``destination`` up to ``source``: every published release that it lacks, oldest first, then the yanks.

    :param signed_by: who must have signed what is copied; its branch is the one of both forges that holds the pin and
        ``yanked.toml``
    :raises NeedsPersonError: ``tag-foreign``, if a tag of the mirror is not a copy
    :raises UsageError: ``branch-missing``
    :raises VerificationError: ``signature-invalid``, ``release-tampered``, ``file-damaged``: a release is not as it
        has to be; it and what is newer is not copied
    """
    branch = signed_by.branch
    tags = {tag.name: tag for tag in source.tags()}
    present = list(destination.releases())
    there = {release.tag for release in present if not release.draft}
    ours = [
        release
        for release in source.releases()
        if not release.draft and release.asset(MANIFEST_NAME) and parse_tag(release.tag) is not None
    ]
    originals = {release.tag: release for release in sorted(ours, key=lambda each: parse_release_tag(each.tag))}
    wanted = [release for release in originals.values() if release.tag not in there]
    size = sum(asset.size for release in wanted for asset in release.assets)
    signers: dict[str, None] = {}
    if not dry_run:
        _tidy(destination, (release for release in present if release.tag in there))
        for release in wanted:
            with console.step(f"copy {release.tag}"), scratch_folder("mirror") as folder:
                trusted = read_trusted(source, release, signed_by, warn=not signers)
                need_listed(trusted)
                tag = tags.get(trusted.manifest.tag)
                said = parse_trailers(tag.message) if tag is not None else {}
                revision, version = said.get(TRAILER_REVISION, ""), said.get(TRAILER_WHEEL_VERSION, "")
                need_its_tag(source, trusted.manifest, revision=revision, version=version)
                assert tag is not None  # else it had named no revision
                if trusted.signer is not None:
                    signers[trusted.signer.repository] = None
                # The same tag, on a commit of the mirror with the same pin and the same matrix.
                mine = destination.tag(tag.name)
                if mine is None:
                    line = parse_release_tag(tag.name).line
                    paths = (PIN_FILE, TARGETS_FILE, *([line_file(line)] if line is not None else []))
                    files = {path: text for path in paths if (text := source.read(path, commit=tag.commit))}
                    message = format_message(f"Mirror {tag.name}", "", {TRAILER_MIRRORED: tag.commit})
                    commit = _commit(destination, branch, files, message)
                    try:
                        mine = destination.create_tag(tag.name, commit, tag.message)
                    except Taken:
                        mine = destination.tag(tag.name)
                if mine is None or mine.message.strip() != tag.message.strip():
                    raise NeedsPersonError(
                        "tag-foreign",
                        f"the mirror has another tag {tag.name}",
                        where=destination.description,
                        why="its message differs, so it is of another release",
                        remedy="mirror into an empty repository, or delete that tag there if nobody uses it",
                    )
                present.append(_copy(source, destination, trusted, present, folder))
    listed = source.read(YANKS_PATH, commit=head_of(source, branch))
    yanks = listed is not None and listed != destination.read(YANKS_PATH, commit=head_of(destination, branch))
    if listed is not None and yanks and not dry_run:
        _commit(destination, branch, {YANKS_PATH: listed}, "Copy the yanks\n")
    # It must name nothing that is not there yet.
    pointer = copy_pointer(source, destination, signed_by, dry_run=dry_run)
    why = []
    for copy in sorted((release for release in present if release.tag in there), key=lambda release: release.tag):
        original = originals.get(copy.tag)
        if original is None:
            console.warn(f"the mirror has {copy.tag}, which the source has not published, or has withdrawn")
            continue
        digests = {asset.name: asset.sha256 for asset in original.assets}
        differing = [asset.name for asset in copy.assets if digests.get(asset.name, "none") not in ("", asset.sha256)]
        why += [f"{copy.tag}: {', '.join(differing)}"] if differing else []
    if why:
        raise VerificationError(
            "release-tampered",
            "the mirror has files that the source has not",
            where=destination.description,
            why="; ".join(why),
            remedy="find out who put them there; delete these releases in the mirror, then run this again",
        )
    return MirrorOutcome(
        copied=tuple(release.tag for release in wanted),
        present=len(there),
        size=size,
        yanks=yanks,
        signed_by=tuple(signers),
        pointer=pointer,
        dry_run=dry_run,
    )


def _copy(
    source: Forge, destination: Forge, trusted: TrustedRelease, present: Sequence[Release], folder: Path
) -> Release:
    """Copy a release whose tag is there, each file checked as it arrives. ``present``: what the mirror has.

    Returns the published copy. Its bundles are assets, so that the mirror's users can check them, too.
    """
    release = trusted.release
    try:
        found = find_release(destination, release.tag)  # the one draft that all processes fill is the oldest
        if found is None:
            made = destination.create_draft(
                release.tag, title=release.title, body=_COPYING, prerelease=release.prerelease
            )
            found = find_release(destination, release.tag) or made
            if found.id != made.id:
                destination.delete_draft(made)
        copy = RemoteRelease(destination, found)
        for asset in release.assets:
            path = fetch_listed(trusted, asset, folder)
            copy.put(asset.name, path, replace=lambda _: True)
            path.unlink()
        copy.refresh()
        if not copy.release.draft:
            return copy.release
        for asset in copy.release.assets:
            if release.asset(asset.name) is None:  # an earlier try took more than was listed
                destination.delete_asset(copy.release, asset)
        previous = previous_manifest(destination, (other.tag for other in present), release.tag)
        return destination.publish(write_page(destination, copy.release, trusted.manifest, previous))
    except (ConflictError, ForgeError):
        faster = destination.published(release.tag)
        if faster is None or {(each.name, each.sha256) for each in faster.assets} != {
            (each.name, each.sha256) for each in release.assets
        }:
            raise
        _tidy(destination, destination.drafts(release.tag))
        return faster


def _tidy(destination: Forge, drafts: Iterable[Release]) -> None:
    """Delete the drafts of ours that others were faster than, also those that a killed process left."""
    for draft in drafts:
        if draft.draft and draft.body.strip() == _COPYING.strip():
            destination.delete_draft(draft)


def _commit(forge: Forge, branch: str, files: dict[str, bytes], message: str) -> str:
    """Commit on top of the branch, however often others commit first."""
    races = Races(where=f"{branch} of {forge.description}")
    while True:
        head = head_of(forge, branch)
        try:
            return forge.commit(branch, expected=head, files=files, message=message)
        except BranchMoved as error:
            races.retry(f"commit to {branch}", error)
