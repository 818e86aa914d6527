"""The index of all releases as the pages serve it: for programs that ask no forge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import VerificationError
from mlir_release.model.digests import sha256_of
from mlir_release.model.release_index import (
    QUALITY_NAME,
    Quality,
    make_index,
    month_file,
    to_bytes,
)
from mlir_release.release.catalogue import need_signed, read_signed
from mlir_release.release.latest import read_head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mlir_release.forge.base import Forge
    from mlir_release.index.site import Published
    from mlir_release.release.catalogue import Catalogue
    from mlir_release.release.signed import SignedBy


def index_files(forge: Forge, published: Sequence[Published], signed_by: SignedBy) -> dict[str, bytes]:
    """``index.json``, its months and ``quality.json`` by their paths; what others name comes first.

    They are copies of the branch ``latest``, with the signed pointer, if that has the releases that the pages show.
    Otherwise they are made of those, and nothing signs them: pages and index are renewed in runs of their own.
    """
    repository = forge.services.url if forge.services is not None else "local"
    computed = make_index(
        [release.manifest for release in published],
        repository=repository,
        yanks=[yank for release in published for yank in release.yanks],
    )
    (commit, bundle), quality = read_head(forge), Quality(repository=repository)
    try:
        stored = read_signed(forge, commit, bundle, signed_by) if bundle is not None else None
        if stored is not None:
            if set(stored.index.tags) == {release.tag for release in published}:
                return {**dict(_months(stored, computed)), **stored.files}
            quality = stored.quality
    except VerificationError as error:
        console.warn(f"{error.what} ({error.why}); the pages serve an index that nobody signed")
    return {**{name: computed[name] for name in sorted(computed, reverse=True)}, QUALITY_NAME: to_bytes(quality)}


def _months(stored: Catalogue, computed: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The files of the older months; only those that were not computed alike are read from the branch."""
    for month in stored.index.months:
        name = month_file(month.month)
        content = computed.get(name, b"")
        if sha256_of(content) != month.sha256:
            content = need_signed(stored.read_month(month), month.sha256, name, where=stored.where)
        yield name, content
