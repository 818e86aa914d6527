"""All published releases of a forge, as programs choose among them: the index, and what was learnt since.

The index is read from the branch ``latest``, if the signed pointer beside it names its digest. Where nothing is signed,
it is computed from the releases' manifests.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import VerificationError
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.storage.files import read_if_there, write_atomically
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.forge.base import Forge, public_name
from mlir_release.release.forge.files import matrix_if_there, read_yanks
from mlir_release.release.judging.signed import (
    AS_DECLARED,
    Manifests,
    SignedBy,
    expects_signatures,
    is_required,
    read_trusted,
)
from mlir_release.release.latest.channels import choose_good, find_good, known_here
from mlir_release.release.latest.latest import POINTER_FILE, believe, need_no_pointer, newest_release, prove, read_head
from mlir_release.release.model.release_index import (
    INDEX_NAME,
    QUALITY_NAME,
    Quality,
    ReleaseIndex,
    listed,
    make_index,
    month_file,
    parse_index,
    parse_month,
    parse_quality,
)
from mlir_release.release.model.release_settings import LATEST_BRANCH
from mlir_release.release.model.release_tags import LATEST_GOOD, Kind, parse_release_tag
from mlir_release.release.transaction.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mlir_release.release.latest.latest import Head
    from mlir_release.release.model.release_index import CatalogueEntry, MonthIndex, OlderMonth

Document = TypeVar("Document")


@dataclass(frozen=True)
class Catalogue:
    """The index of a forge. Older months are read when they are first needed.

    :param read_month: the content of a month's file, which is checked here; None: it is not there
    """

    index: ReleaseIndex
    quality: Quality
    read_month: Callable[[OlderMonth], bytes | None] = field(repr=False)
    where: str = ""  #: for errors
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)  #: the signed documents, as they were read
    _months: dict[str, list[CatalogueEntry]] = field(init=False, repr=False, compare=False, default_factory=dict)

    @property
    def learnt(self) -> tuple[Quality, str]:
        """As :func:`read_learnt` has it."""
        return self.quality, self.index.channels.get(LATEST_GOOD, "")

    @cached_property
    def entries(self) -> tuple[CatalogueEntry, ...]:
        """All releases, the last one first: this reads every month. :raises VerificationError: as :meth:`month`"""
        return tuple(self.walk())

    def walk(self) -> Iterator[CatalogueEntry]:
        """All releases, the last one first. Months are read as far as the releases are consumed."""
        yield from listed(self.index, self.index.yanked)
        for month in self.index.months:
            yield from self.month(month)

    def of_kind(self, kind: Kind) -> list[CatalogueEntry]:
        """The releases of a kind, oldest first: by their tags, which snapshots get in order."""
        return sorted((each for each in self.entries if each.row.order.kind == kind), key=lambda each: each.row.order)

    def find(self, tag: str) -> CatalogueEntry | None:
        """A release by its tag. One month is read at most."""
        month = next((month for month in self.index.months if tag in month.tags), None)
        found = listed(self.index, self.index.yanked) if month is None else self.month(month)
        return next((each for each in found if each.tag == tag), None)

    def month(self, month: OlderMonth) -> list[CatalogueEntry]:
        """The releases of an older month.

        :raises VerificationError: ``tampered``, ``file-damaged``: it is not the one that the head names
        """
        if month.month not in self._months:
            name = month_file(month.month)
            content = need_signed(self.read_month(month), month.sha256, name, where=self.where)
            part: MonthIndex = parsed(parse_month, content, name, where=self.where)
            if part.month != month.month or tuple(row.tag for row in part.releases) != month.tags:
                raise _tampered(f"{name} has other releases than {INDEX_NAME} says", self.where, "the two do not fit")
            self._months[month.month] = listed(part, self.index.yanked)
        return self._months[month.month]


def read_index(forge: Forge, signed_by: SignedBy = AS_DECLARED) -> Catalogue:
    """The catalogue of a forge: two requests on GitHub, two more for its documents, and one for each older month.

    What is wrong with the signed index is an error where a signature is asked for, and on GitHub. Elsewhere it is a
    warning, as it is for ``install latest``, and the catalogue is computed: what the place itself shows.

    :raises VerificationError: ``latest-stale``, ``signature-invalid``, ``tampered``, ``file-damaged``,
        ``release-tampered``
    """
    head, found = read_head(forge), None
    try:
        if head.bundle is None:  # whose newest release may be signed, and say that there is one
            release = newest_release(forge, read_yanks(forge, signed_by.branch))
            newest = read_trusted(forge, release, signed_by) if release is not None else None
            if newest is not None and newest.signatures is not None:
                need_no_pointer(newest, where=forge.description)
        elif not signed_by.skipped or head.read(INDEX_NAME):
            found = read_signed(head, signed_by)
    except VerificationError as error:
        if forge.services.url or signed_by.required:
            raise
        console.warn(f"{error.what}: {error.why}")
    return found or compute(forge, signed_by)


def read_signed(head: Head, signed_by: SignedBy) -> Catalogue | None:
    """The catalogue that a pointer names; None, with a warning, if an older toolkit made none.

    :param head: has a pointer
    :raises VerificationError: as :func:`read_index`
    """
    assert head.bundle is not None
    asked = head.asked(signed_by)
    if signed_by.skipped:
        return read_stored(head, asked.repository)
    pointer = believe(head.bundle, asked, where=head.forge.description, whole=True)
    if pointer.index:
        return read_stored(head, asked.repository, index=pointer.index, quality=pointer.quality)
    console.warn(
        f"the signed pointer of {asked.repository} names no {INDEX_NAME}, as an older toolkit made it; "
        "the manifests of all releases are read instead"
    )
    return None


def read_stored(head: Head, repository: str, *, index: str = "", quality: str = "") -> Catalogue:
    """The catalogue on the branch ``latest``.

    :param repository: that it must be of
    :param index: SHA-256 of ``index.json``, and
    :param quality: of ``quality.json``, as the signed pointer says; empty: nothing says it
    :raises VerificationError: ``tampered``, ``file-damaged``
    """
    files = {INDEX_NAME: need_signed(head.read(INDEX_NAME), index, INDEX_NAME, where=head.where)}
    found, learnt = parsed(parse_index, files[INDEX_NAME], INDEX_NAME, where=head.where), Quality(repository=repository)
    if quality:
        files[QUALITY_NAME] = need_signed(head.read(QUALITY_NAME), quality, QUALITY_NAME, where=head.where)
        learnt = parsed(parse_quality, files[QUALITY_NAME], QUALITY_NAME, where=head.where)
    for name, document in ((INDEX_NAME, found), (QUALITY_NAME, learnt)):
        if document.repository != repository:
            why = f"it is of {document.repository}, and {repository} was asked for"
            raise _tampered(f"{name} is that of another repository", head.where, why)
    if index and head.bundle is not None:
        files[POINTER_FILE] = head.bundle

    def read_month(month: OlderMonth) -> bytes | None:
        place = cache_directory() / "index" / f"{month.sha256}.json"
        with suppress(OSError):
            if (kept := read_if_there(place)) is not None and sha256_of(kept) == month.sha256:
                return kept
        content = head.read(month_file(month.month))
        if content is not None and sha256_of(content) == month.sha256:
            with suppress(OSError):  # a reader without a home of its own reads it again
                write_atomically(place, content)
        return content

    return Catalogue(found, learnt, read_month, head.where, files)


# -- what was learnt since ---------------------------------------------------------------------------------------------


def read_learnt(forge: Forge, signed_by: SignedBy) -> tuple[Quality, str]:
    """What is known of snapshots since they were published, and the tag of ``latest-good``; empty: no snapshot is.

    The index is not read: three requests on GitHub.

    :raises VerificationError: ``signature-invalid``, ``tampered``, ``file-damaged``
    """
    head = read_head(forge)
    if head.bundle is None:
        return learnt_here(forge, signed_by)
    pointer = prove(head.bundle, head.asked(signed_by))
    quality = Quality(repository=pointer.repository)
    if pointer.quality:
        content = need_signed(head.read(QUALITY_NAME), pointer.quality, QUALITY_NAME, where=head.where)
        quality = parsed(parse_quality, content, QUALITY_NAME, where=head.where)
    return quality, pointer.channels.get(LATEST_GOOD, "")


def learnt_here(forge: Forge, signed_by: SignedBy) -> tuple[Quality, str]:
    """The same, of a folder where nothing is signed: what it shows. Nothing is learnt where releases must be signed.

    On GitHub it would cost a request for each snapshot; ``release latest`` shows it there.
    """
    matrix = None if forge.services.url else matrix_if_there(forge, signed_by.branch)
    if matrix is None or is_required(forge, matrix.release.provenance):
        return Quality(repository=public_name(forge)), ""
    head, quality = read_head(forge), known_here(forge, matrix)
    if (content := head.read(QUALITY_NAME)) is not None:
        stored = parsed(parse_quality, content, QUALITY_NAME, where=head.where)
        quality = structs.replace(quality, releases={**stored.releases, **quality.releases})
    return quality, find_good(forge, quality, branch=signed_by.branch, signed_by=signed_by).tag


# -- what nothing signs ------------------------------------------------------------------------------------------------


def compute(forge: Forge, signed_by: SignedBy = AS_DECLARED) -> Catalogue:
    """The catalogue by the manifests of all releases. Where releases must be signed, others are left out."""
    yanks = read_yanks(forge, signed_by.branch)
    ledger = Ledger(forge, whole=True)
    required = bool(forge.services.url) and expects_signatures(forge, signed_by.branch)
    manifests = Manifests(forge, required=required, branch=signed_by.branch, signed_by=signed_by)
    tags = sorted(ledger.published({}))
    with scratch_folder("catalogue") as folder, console.waiting(f"read the manifests of {len(tags)} releases"):
        read = (manifests.fetch(tag, folder, otherwise="the index leaves it out") for tag in tags)
        found = [each.manifest for each in read if each is not None]
    repository = public_name(forge)
    files = make_index(found, repository=repository, yanks=yanks)
    index, quality = parse_index(files[INDEX_NAME]), Quality(repository=repository)
    if (matrix := matrix_if_there(forge, signed_by.branch)) is not None:
        quality = known_here(forge, matrix)
        snapshots = {each.tag: each for each in found if each.kind == "snapshot"}
        tags = sorted(snapshots, key=parse_release_tag, reverse=True)
        choice = choose_good(
            tags, snapshots.get, matrix=matrix, quality=quality, yanks=yanks, probes={}, now=forge.now()
        )
        if choice.tag:
            index = structs.replace(index, channels={**index.channels, LATEST_GOOD: choice.tag})
    return Catalogue(index, quality, lambda month: files[month_file(month.month)], forge.description)


def need_signed(content: bytes | None, digest: str, name: str, *, where: str) -> bytes:
    """The content of a file, if it has the digest that is signed. :raises VerificationError: ``tampered``"""
    if content is None:
        raise _tampered(f"{name} is missing", where, "something signed names it")
    if digest and (found := sha256_of(content)) != digest:
        raise _tampered(f"{name} is not the one that is signed", where, f"its sha256 is {found}, and not {digest}")
    return content


def _tampered(what: str, where: str, why: str) -> VerificationError:
    return VerificationError(
        "tampered",
        what,
        where=where,
        why=why,
        remedy="read another copy; the repository's operators run latest.yml, and if that does not help, delete the "
        f"branch {LATEST_BRANCH} first: then all of it is made anew",
    )


def parsed(parse: Callable[[bytes], Document], content: bytes, name: str, *, where: str) -> Document:
    """Read a document. :raises VerificationError: ``file-damaged``"""
    try:
        return parse(content)
    except MalformedError as error:
        raise VerificationError(
            "file-damaged",
            f"{name} can't be read",
            where=where,
            why=str(error),
            remedy="use the newest mlir-release; if it can't read it either, the repository's operators delete its "
            f"branch {LATEST_BRANCH} and run latest.yml",
        ) from error
