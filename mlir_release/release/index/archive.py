"""All manifests in one file of the pages, from which the next run begins: it fetches only what was published since.

Nobody needs to believe the file: :func:`mlir_release.release.index.observe.observe` compares each row with the digest
that the forge lists, or with the row's own signature. What is published never changes, so a file that a cache serves
for some minutes too long lacks something, but is never wrong.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError, from_large_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.documents.times import format_time, parse_time
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.storage.archives import ArchiveError, gunzip
from mlir_release.ground.storage.download import download
from mlir_release.ground.storage.files import read_document
from mlir_release.release.model.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from mlir_release.release.index.site import Published

ARCHIVE_NAME = "manifests.json.gz"

#: Bytes of the file, unpacked and as it is served: two thousand releases of sixty wheels.
_LIMIT, SERVED_LIMIT = 128 << 20, 32 << 20


@dataclass(frozen=True)
class Known:
    """A release that the pages show already."""

    text: str  #: of its manifest
    published_at: datetime
    bundle: bytes | None = None  #: of its manifest's signature

    @cached_property
    def manifest(self) -> Manifest:
        """The parsed text."""
        return Manifest.from_text(self.text, where=ARCHIVE_NAME)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return sha256_of(self.text)


class _Row(Struct, frozen=True, kw_only=True):
    tag: str
    published_at: str
    sha256: str
    manifest: str
    bundle: str = ""


class _Archive(Struct, frozen=True, kw_only=True, tag_field="schema", tag=1):
    source: str
    releases: tuple[_Row, ...]


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


def unpack(content: bytes | None, source: str) -> Mapping[str, Known]:
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
    return {row.tag: known for row in found.releases if (known := _known(row)) is not None}


def _known(row: _Row) -> Known | None:
    """What a row says; None if it has not the manifest that it says."""
    try:
        known = Known(row.manifest, parse_time(row.published_at), row.bundle.encode() or None)
        return known if known.digest == row.sha256 and known.manifest.tag == row.tag else None
    except (ReleaseError, ValueError):
        return None


def read_served(base_url: str, scratch: Path) -> bytes | None:
    """The file as it is served; None if it can't be had, which only means more to fetch."""
    place = scratch / ARCHIVE_NAME
    try:
        download(f"{base_url.rstrip('/')}/{ARCHIVE_NAME}", place, limit=SERVED_LIMIT)
    except ReleaseError as error:
        console.say(f"{error.where}: {error.why}; all manifests are read from the releases")
        return None
    return read_document(place, limit=SERVED_LIMIT)
