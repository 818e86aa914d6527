"""What is published, found without a listing that grows: what is known already, the newest releases, and the tags."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import VerificationError
from mlir_release.forge.files import read_yanks
from mlir_release.index.site import Published
from mlir_release.model.manifest import MANIFEST_NAME
from mlir_release.model.release_tags import parse_tag
from mlir_release.provenance.policy import BUNDLE_SUFFIX
from mlir_release.release.remote import asset_corrupt, parse_manifest
from mlir_release.release.signed import AS_DECLARED, Manifests
from mlir_release.snapshot.state import ABANDONED_PREFIX, RECENT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from mlir_release.forge.base import Forge, Release
    from mlir_release.index.archive import Known
    from mlir_release.model.manifest import Manifest
    from mlir_release.model.yanks import Yank
    from mlir_release.release.signed import SignedBy

#: So many releases are looked up one by one, to be checked as a whole; of more, the manifests alone are read.
FEW = 20


def observe(
    forge: Forge,
    known: Mapping[str, Known],
    scratch: Path,
    *,
    branch: str,
    required: bool = False,
    signed_by: SignedBy = AS_DECLARED,
) -> tuple[list[Published], tuple[str, ...]]:
    """The published releases, and the tags of those that are not known yet.

    A release whose manifest is not signed as it has to be is left out, with a warning: whoever can push can publish one
    by hand, and must not keep the others from being shown.

    :param known: releases that need not be read again
    :param required: whether releases must be signed
    :param signed_by: who must have signed them, where that is asked for
    :raises VerificationError: ``manifest-invalid``, ``manifest-of-another``, ``release-damaged``, ``asset-corrupt``
    :raises UsageError: ``yanks-invalid``
    """
    yanks = read_yanks(forge, branch)
    there = published_tags(forge, known)
    # Of another time: the tag was released again, in a repository that was made anew.
    same = {tag for tag, when in there.items() if tag in known and known[tag].published_at == when}
    new = sorted(there.keys() - same)
    found = [_published(forge, tag, known[tag].text, there[tag], yanks) for tag in sorted(same)]
    manifests = Manifests(forge, required=required, branch=branch, signed_by=signed_by)
    for tag in new:
        text = _read(forge, tag, scratch, manifests, whole=len(new) <= FEW)
        if text is not None:
            found.append(_published(forge, tag, text, there[tag], yanks))
    return found, tuple(release.manifest.tag for release in found[len(same) :])


def published_tags(forge: Forge, known: Mapping[str, Known]) -> Mapping[str, datetime]:
    """The release tags that are published, and when.

    The newest releases are listed. Beyond them, a tag that is neither known nor abandoned is looked up, as is a known
    release that should be among the newest, but is not: someone may have deleted it.
    """
    rows = list(forge.recent(RECENT if known else None))
    found = {row.tag: row.published_at for row in rows if not row.draft}
    if known and len(rows) == RECENT:
        names = {tag.name for tag in forge.tags()}
        older = {
            name
            for name in names - known.keys() - {row.tag for row in rows}
            if parse_tag(name) is not None and ABANDONED_PREFIX + name not in names
        }
        gone = {tag for tag in known if tag not in found and known[tag].manifest.created >= rows[-1].created_at}
        if len(older) > FEW:
            found = {row.tag: row.published_at for row in forge.recent(None) if not row.draft}
        else:
            found |= {tag: entry.published_at for tag, entry in known.items() if tag not in gone}
            looked_up = filter(None, map(forge.published, sorted(older | gone)))
            found |= {release.tag: release.published_at for release in looked_up}
    return {tag: when for tag, when in found.items() if when is not None and parse_tag(tag) is not None}


def _read(forge: Forge, tag: str, scratch: Path, manifests: Manifests, *, whole: bool) -> str | None:
    """A published release's manifest, from its public address; None, with a warning, if it has none that counts.

    :param whole: also look at the release itself: the manifest's digest, and that every file is there
    """
    place = scratch / tag / MANIFEST_NAME
    place.parent.mkdir(parents=True, exist_ok=True)
    if not forge.fetch_published(tag, MANIFEST_NAME, place):
        console.warn(f"{tag} is published without {MANIFEST_NAME}; no page shows it")
        return None
    content = place.read_bytes()
    manifest = parse_manifest(content, tag, where=forge.file_url(tag, MANIFEST_NAME))
    try:
        if manifests.is_signed(manifest):
            manifests.check(manifest, content, _bundle(forge, tag, place))
    except VerificationError as error:
        console.warn(f"{tag}: {error.what} ({error.why}); no page shows it")
        return None
    if whole and (release := forge.published(tag)) is not None:
        _check_whole(release, content, manifest)
    return content.decode()


def _bundle(forge: Forge, tag: str, manifest: Path) -> bytes | None:
    """The bundle of a manifest that was fetched, from its public address; None if there is none."""
    place = manifest.with_name(MANIFEST_NAME + BUNDLE_SUFFIX)
    return place.read_bytes() if forge.fetch_published(tag, place.name, place) else None


def _needed(manifest: Manifest) -> set[str]:
    """The files that a manifest names, and the bundles of those that are signed."""
    files = {file.filename for file in manifest.files}
    signed = {*files, MANIFEST_NAME} if manifest.provenance == "required" else set()
    bundles = {name + BUNDLE_SUFFIX for name in signed}
    return files | bundles | {file.provenance for file in manifest.files} - {""}


def _check_whole(release: Release, content: bytes, manifest: Manifest) -> None:
    asset = release.asset(MANIFEST_NAME)
    digest = hashlib.sha256(content).hexdigest()
    if asset is not None and asset.sha256 != digest:
        raise asset_corrupt(release.tag, asset, digest)
    if missing := sorted(_needed(manifest) - {asset.name for asset in release.assets}):
        raise VerificationError(
            "release-damaged",
            f"{release.tag} is published, but lacks {missing[0]}",
            where=asset.url if asset is not None else release.tag,
            why="its manifest names that file; someone removed it from the release",
            remedy="restore the file from a mirror, or delete the release by hand",
        )


def _published(forge: Forge, tag: str, text: str, when: datetime, yanks: tuple[Yank, ...]) -> Published:
    manifest = parse_manifest(text.encode(), tag, where=forge.file_url(tag, MANIFEST_NAME))
    return Published(
        manifest=manifest,
        text=text,
        page_url=forge.page_url(tag),
        published_at=when,
        urls={name: forge.file_url(tag, name) for name in _needed(manifest)},
        yanks=tuple(yank for yank in yanks if yank.tag == tag),
    )
