"""All published releases of a forge, as programs choose among them: the index, and what was learnt since."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.forge.files import read_yanks
from mlir_release.host.files import read_document
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.model.release_index import (
    INDEX_NAME,
    MonthIndex,
    Quality,
    ReleaseIndex,
    make_index,
    month_file,
    parse_index,
    parse_month,
)
from mlir_release.model.release_tags import parse_tag
from mlir_release.model.yanks import yank_reason
from mlir_release.release.ledger import Ledger
from mlir_release.release.release_assets import parse_manifest
from mlir_release.release.signed import AS_DECLARED, SignedBy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mlir_release.forge.base import Forge
    from mlir_release.model.release_index import IndexRow, OlderMonth, WheelShape
    from mlir_release.model.release_tags import Kind


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A release of the catalogue."""

    row: IndexRow
    wheels: tuple[WheelShape, ...]
    yanked: str | None = None  #: the reason; None: it is not yanked

    @property
    def tag(self) -> str:
        """The release's tag."""
        return self.row.tag


@dataclass(frozen=True)
class Catalogue:
    """The index of a forge. Older months are read when they are first needed."""

    index: ReleaseIndex
    quality: Quality
    read_month: Callable[[OlderMonth], bytes] = field(repr=False)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All releases, the newest tag first: this reads every month."""
        return tuple(self._entries())

    def _entries(self) -> Iterator[Entry]:
        yanked = self.index.yanked
        months = (parse_month(self.read_month(month)) for month in self.index.months)
        parts = ((part.releases, part.shapes) for part in chain[ReleaseIndex | MonthIndex]([self.index], months))
        for rows, shapes in parts:
            for row in rows:
                yield Entry(row=row, wheels=shapes[row.wheels], yanked=yanked.get(row.tag))

    def of_kind(self, kind: Kind) -> list[Entry]:
        """The releases of a kind, oldest first: by their tags, which snapshots get in order."""
        return sorted((each for each in self.entries if each.row.order.kind == kind), key=lambda each: each.row.order)

    def find(self, tag: str) -> Entry | None:
        """A release by its tag."""
        return next((each for each in self.entries if each.tag == tag), None)


def read_index(forge: Forge, signed_by: SignedBy = AS_DECLARED) -> Catalogue:
    """The catalogue of a forge, computed from its manifests.

    :raises VerificationError: ``file-damaged``, ``release-tampered``
    """
    yanks = read_yanks(forge, signed_by.branch)
    manifests = list(_manifests(forge))
    repository = forge.services.url if forge.services is not None else "local"
    reasons = {each.tag: reason for each in manifests if (reason := yank_reason(yanks, each.tag)) is not None}
    upstream = manifests[0].upstream if manifests else ""
    files = make_index(manifests, repository=repository, upstream=upstream, yanked=reasons)
    return Catalogue(
        parse_index(files[INDEX_NAME]), Quality(repository=repository), lambda month: files[month_file(month.month)]
    )


def _manifests(forge: Forge) -> Iterator[Manifest]:
    """The manifests of all published releases."""
    rows = [row for row in Ledger(forge, whole=True).rows if not row.draft and parse_tag(row.tag) is not None]
    with scratch_folder("catalogue") as folder:
        for row in rows:
            place = folder / row.tag / MANIFEST_NAME
            place.parent.mkdir()
            if not forge.fetch_published(row.tag, MANIFEST_NAME, place):
                console.warn(f"{row.tag} is published without {MANIFEST_NAME}; the index leaves it out")
                continue
            yield parse_manifest(read_document(place), row.tag, where=forge.file_url(row.tag, MANIFEST_NAME))
