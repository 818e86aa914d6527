"""What is published, found without a listing that grows: what is known already, the newest releases, and the tags."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError, from_large_json
from mlir_release.ground.documents.times import format_time, parse_time
from mlir_release.ground.errors import ReleaseError, VerificationError
from mlir_release.ground.storage.archives import ArchiveError, gunzip
from mlir_release.ground.storage.download import download
from mlir_release.ground.storage.files import read_document
from mlir_release.release.forge.files import read_yanks
from mlir_release.release.index.site import Published
from mlir_release.release.judging.signed import AS_DECLARED, KnownManifest, Manifests, SignedBy
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX
from mlir_release.release.transaction.ledger import FEW, Ledger
from mlir_release.release.transaction.release_assets import asset_corrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from mlir_release.release.forge.base import Forge, Release
    from mlir_release.release.model.yanks import Yank


# -- what is known already ---------------------------------------------------------------------------------------------

#: All manifests in one file of the pages, from which the next run begins: it fetches only what was published since.
#: Nobody needs to believe the file: :func:`observe` compares each row with the digest that the forge lists, or with the
#: row's own signature. What is published never changes, so a file that a cache serves for some minutes too long lacks
#: something, but is never wrong.
ARCHIVE_NAME = "manifests.json.gz"

#: Bytes of the file, unpacked and as it is served: two thousand releases of sixty wheels.
_LIMIT, SERVED_LIMIT = 128 << 20, 32 << 20


class _ArchivedRelease(Struct, frozen=True, kw_only=True):
    tag: str
    published_at: str
    sha256: str
    manifest: str
    bundle: str = ""


class _Archive(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    source: str
    releases: tuple[_ArchivedRelease, ...]


def pack(source: str, published: Iterable[Published]) -> bytes:
    """The file's content; the same releases give the same bytes. ``source``: the repository, for people."""
    rows = [
        {
            "tag": release.tag,
            "published_at": format_time(release.published_at),
            "sha256": release.digest,
            "manifest": release.text,
            **({"bundle": release.bundle.decode()} if release.bundle else {}),
        }
        for release in sorted(published, key=lambda release: release.tag)
    ]
    data = {"schema": 1, "source": source, "releases": rows}
    return gzip.compress(json.dumps(data).encode(), mtime=0)


def unpack(content: bytes | None, source: str) -> Mapping[str, KnownManifest]:
    """The releases in a file of :func:`pack` by their tags: nothing, with a warning, unless it is whole and of
    ``source``."""
    if content is None:
        return {}
    try:
        found = from_large_json(gunzip(content, limit=_LIMIT), _Archive)
    except (ArchiveError, MalformedError) as error:
        console.warn(f"{ARCHIVE_NAME} is not believed, and all manifests are read from the releases: {error}")
        return {}
    if found.source != source:
        return {}
    known = {}
    for row in found.releases:
        with suppress(ReleaseError, ValueError):  # a row without the manifest that it says is left out
            manifest = Manifest.from_text(row.manifest, where=ARCHIVE_NAME)
            bundle, when = row.bundle.encode() or None, parse_time(row.published_at)
            entry = KnownManifest(manifest=manifest, text=row.manifest, bundle=bundle, published_at=when)
            if entry.digest == row.sha256 and manifest.tag == row.tag:
                known[row.tag] = entry
    return known


def read_served(base_url: str, scratch: Path) -> bytes | None:
    """The file as it is served; None if it can't be had, which only means more to fetch."""
    place = scratch / ARCHIVE_NAME
    try:
        download(f"{base_url.rstrip('/')}/{ARCHIVE_NAME}", place, limit=SERVED_LIMIT)
    except ReleaseError as error:
        console.say(f"{error.where}: {error.why}; all manifests are read from the releases")
        return None
    return read_document(place, limit=SERVED_LIMIT)


# -- what is published -------------------------------------------------------------------------------------------------


def observe(
    ledger: Ledger,
    known: Mapping[str, KnownManifest],
    scratch: Path,
    *,
    required: bool = False,
    signed_by: SignedBy = AS_DECLARED,
) -> tuple[list[Published], tuple[str, ...]]:
    """The published releases, and the tags of those that are not known yet.

    Where releases must be signed, one whose manifest can't be read or isn't signed is left out, with a warning: whoever
    can push can publish one by hand, and must not keep the others from being shown.

    :param ledger: whole, if nothing is known
    :param known: releases that need not be read again
    :param required: whether releases must be signed
    :param signed_by: who must have signed them, where that is asked for; its branch holds ``yanked.toml``
    :raises VerificationError: ``file-damaged``, ``release-tampered``
    :raises UsageError: ``config-invalid``
    """
    forge = ledger.forge
    yanks = read_yanks(forge, signed_by.branch)
    there = published_tags(ledger, known)
    manifests = Manifests(forge, required=required, branch=signed_by.branch, signed_by=signed_by)
    same = {tag for tag, listed in there.items() if tag in known and _holds(known[tag], *listed, manifests)}
    new = sorted(there.keys() - same)
    found = [_published(forge, known[tag], yanks) for tag in sorted(same)]
    for tag in new:
        entry = _read(forge, tag, there[tag][0], scratch, manifests, whole=len(new) <= FEW)
        if entry is not None:
            found.append(_published(forge, entry, yanks))
    return found, tuple(release.tag for release in found[len(same) :])


def _holds(entry: KnownManifest, when: datetime | None, digest: str, manifests: Manifests) -> bool:
    """Whether a known manifest is the release's, as the forge lists it, or else as its signature proves.

    :param when: the release was published. Of another time: the tag was released again, in a repository made anew.
    :param digest: of the manifest, as the forge lists it; empty: its list has no digests. Then an unsigned manifest is
        believed.
    """
    if entry.published_at != when or digest not in ("", entry.digest):
        return False
    try:
        if not digest and manifests.is_signed(entry.manifest):
            manifests.check(entry)
    except VerificationError as error:
        console.warn(f"{entry.tag}: {error.what}; its manifest is read again")
        return False
    return True


def published_tags(ledger: Ledger, known: Mapping[str, KnownManifest]) -> Mapping[str, tuple[datetime | None, str]]:
    """The release tags that are published: when, and the digest of the manifest as far as the forge lists it."""
    found = ledger.published({tag: entry.manifest.created for tag, entry in known.items()})
    return {
        tag: (row.published_at, row.digest(MANIFEST_NAME))
        if row is not None and row.published_at is not None
        else (known[tag].published_at, "")
        for tag, row in found.items()
    }


def _read(
    forge: Forge, tag: str, when: datetime | None, scratch: Path, manifests: Manifests, *, whole: bool
) -> KnownManifest | None:
    """A published release's manifest, from its public address; None, with a warning, if it has none that counts.

    :param when: it was published
    :param whole: also look at the release itself: the manifest's digest, and that every file is there
    """
    found = manifests.fetch(tag, scratch, otherwise="no page shows it")
    if found is None:
        return None
    if whole and (release := forge.published(tag)) is not None:
        _check_whole(release, found)
    return replace(found, published_at=when)


def _needed(manifest: Manifest) -> set[str]:
    """The files that a manifest names, and the bundles of those that are signed."""
    files = {file.filename for file in manifest.files}
    signed = {*files, MANIFEST_NAME} if manifest.provenance == "required" else set()
    bundles = {name + BUNDLE_SUFFIX for name in signed}
    locks = {lock.filename for lock in manifest.locks}
    return files | locks | bundles | {file.provenance for file in manifest.files} - {""}


def _check_whole(release: Release, known: KnownManifest) -> None:
    asset = release.asset(MANIFEST_NAME)
    if asset is not None and asset.sha256 != known.digest:
        raise asset_corrupt(release.tag, asset, known.digest)
    if missing := sorted(_needed(known.manifest) - {asset.name for asset in release.assets}):
        raise VerificationError(
            "release-tampered",
            f"{release.tag} is published, but lacks {missing[0]}",
            where=asset.url if asset is not None else release.tag,
            why="its manifest names that file; someone removed it from the release",
            remedy="restore the file from a mirror, or delete the release by hand",
        )


def _published(forge: Forge, entry: KnownManifest, yanks: tuple[Yank, ...]) -> Published:
    tag = entry.tag
    return Published(
        **{each.name: getattr(entry, each.name) for each in fields(entry)},
        page_url=forge.page_url(tag),
        urls={name: forge.file_url(tag, name) for name in _needed(entry.manifest)},
        yanks=tuple(yank for yank in yanks if yank.tag == tag),
        folder=forge.published_folder(tag),
    )
