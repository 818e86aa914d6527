"""All manifests in one file of the pages, from which the next run begins: it fetches only what was published since.

The file is believed row by row: a row with another digest, or a file of another repository, counts as not there.
What is published never changes, so a file that a cache serves for some minutes too long lacks something, but is never
wrong.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import ReleaseError
from mlir_release.host.download import download
from mlir_release.model.manifest import Manifest, format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from mlir_release.index.site import Published

ARCHIVE_NAME = "manifests.json.gz"

_SCHEMA = 1


@dataclass(frozen=True)
class Known:
    """A release that the pages show already."""

    text: str  #: of its manifest
    published_at: datetime

    @property
    def manifest(self) -> Manifest:
        """The parsed text."""
        return Manifest.from_text(self.text, where=ARCHIVE_NAME)


def pack(source: str, published: Iterable[Published]) -> bytes:
    """The file's content; the same releases give the same bytes. ``source``: the repository, for people."""
    rows = [
        {
            "tag": release.tag,
            "published_at": format_time(release.published_at),
            "sha256": release.digest,
            "manifest": release.text,
        }
        for release in sorted(published, key=lambda release: release.tag)
    ]
    data = {"schema": _SCHEMA, "source": source, "releases": rows}
    return gzip.compress(json.dumps(data).encode(), mtime=0)


def unpack(content: bytes | None, source: str) -> Mapping[str, Known]:
    """The releases in a file of :func:`pack` by their tags: nothing, unless it is whole and of ``source``."""
    try:
        data = json.loads(gzip.decompress(content or b""))
        if (data["schema"], data["source"]) != (_SCHEMA, source):
            return {}
        return {
            row["tag"]: Known(row["manifest"], parse_time(row["published_at"]))
            for row in filter(_holds, data["releases"])
        }
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _holds(row: Mapping[str, str]) -> bool:
    """Whether a row has the manifest that it says."""
    text = row["manifest"]
    try:
        whole = hashlib.sha256(text.encode()).hexdigest() == row["sha256"]
        return whole and Manifest.from_text(text, where=ARCHIVE_NAME).tag == row["tag"]
    except ReleaseError:
        return False


def read_served(base_url: str, scratch: Path) -> bytes | None:
    """The file as it is served; None if it can't be had, which only means more to fetch."""
    place = scratch / ARCHIVE_NAME
    try:
        download(f"{base_url.rstrip('/')}/{ARCHIVE_NAME}", place)
    except ReleaseError as error:
        console.say(f"{error.where}: {error.why}; all manifests are read from the releases")
        return None
    return place.read_bytes()
