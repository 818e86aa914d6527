"""The index of all releases as the pages serve it: for programs that ask no forge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import VerificationError
from mlir_release.release.latest.catalogue import need_signed, read_signed
from mlir_release.release.latest.latest import read_head
from mlir_release.release.model.release_index import (
    INDEX_NAME,
    QUALITY_NAME,
    make_index,
    month_file,
    parse_index,
    to_bytes,
)
from mlir_release.release.model.release_tags import LATEST_GOOD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.index.site import Published
    from mlir_release.release.judging.signed import SignedBy
    from mlir_release.release.latest.catalogue import Catalogue
    from mlir_release.release.model.release_index import Quality


def stored_index(forge: Forge, signed_by: SignedBy) -> Catalogue | None:
    """What is signed on the branch ``latest``; None if nothing is, or, with a warning, if it is not to be believed."""
    head = read_head(forge)
    try:
        return read_signed(head, signed_by) if head.bundle is not None else None
    except VerificationError as error:
        console.warn(f"{error.what} ({error.why}); the pages serve an index that nobody signed")
        return None


def index_files(
    published: Sequence[Published], stored: Catalogue | None, quality: Quality, good: str
) -> dict[str, bytes]:
    """``index.json``, its months and ``quality.json`` by their paths; what others name comes first.

    They are copies of the branch ``latest``, with the signed pointer, if that has the releases that the pages show.
    Otherwise they are made of those, and nothing signs them: pages and index are renewed in runs of their own.

    :param stored: of :func:`stored_index`
    :param quality: what was learnt of releases
    :param good: the tag of the channel latest-good; empty: no snapshot is
    """
    tags = {release.tag for release in published}
    computed = make_index(
        [release.manifest for release in published],
        repository=quality.repository,
        yanks=[yank for release in published for yank in release.yanks],
    )
    if stored is not None and set(stored.index.tags) == tags:
        try:
            return {**dict(_months(stored, computed)), **stored.files}
        except VerificationError as error:
            console.warn(f"{error.what} ({error.why}); the pages serve an index that nobody signed")
    if good in tags:
        head = parse_index(computed[INDEX_NAME])
        channels = {**head.channels, LATEST_GOOD: good}
        computed[INDEX_NAME] = to_bytes(structs.replace(head, channels=dict(sorted(channels.items()))))
    return {**{name: computed[name] for name in sorted(computed, reverse=True)}, QUALITY_NAME: to_bytes(quality)}


def _months(stored: Catalogue, computed: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The files of the older months; only those that were not computed alike are read from the branch."""
    for month in stored.index.months:
        name = month_file(month.month)
        content = computed.get(name, b"")
        if sha256_of(content) != month.sha256:
            content = need_signed(stored.read_month(month), month.sha256, name, where=stored.where)
        yield name, content
