"""The branch ``latest``: the signed pointer to the newest snapshot, and the index of all releases beside it.

attest.yml computes and signs them, a job that may not sign stores them in one commit, and a mirror copies them. A
publication costs the same however many releases there are: the index is made of the one before, and rewrites at most
the files of the newest months.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import structs

from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.documents.times import format_time, parse_time
from mlir_release.ground.errors import ConflictError, VerificationError
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.ground.programs.races import Races
from mlir_release.ground.storage.files import read_if_there, write_all
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.forge.base import BranchMoved, Forge
from mlir_release.release.forge.files import head_of, matrix_if_there, matrix_of_branch, read_yanks
from mlir_release.release.judging.signed import (
    Manifests,
    SignedBy,
    is_required,
    read_published,
    read_trusted,
    repository_of,
)
from mlir_release.release.latest import latest
from mlir_release.release.latest.canary_records import read_records
from mlir_release.release.latest.catalogue import Catalogue, need_signed, parsed, read_stored
from mlir_release.release.latest.channels import GoodChoice, find_good, known_here
from mlir_release.release.latest.latest import POINTER_FILE, Head, prove, read_head
from mlir_release.release.latest.reverts import built_from, find_reverts, watched
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.release.model.release_index import (
    INDEX_FOLDER,
    INDEX_NAME,
    QUALITY_NAME,
    Quality,
    ReleaseQuality,
    list_release,
    listed,
    month_file,
    parse_index,
    to_bytes,
    write_index,
    yanked_of,
)
from mlir_release.release.model.release_settings import LATEST_BRANCH, ReleaseConfig
from mlir_release.release.model.release_tags import LATEST_GOOD, parse_tag
from mlir_release.release.provenance.pointer import ChannelRelease, Pointer, check_time, pointer_policy, stale
from mlir_release.release.provenance.trust import load_trust
from mlir_release.release.transaction.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from mlir_release.release.model.release_index import CatalogueEntry, ReleaseIndex
    from mlir_release.release.model.yanks import Yank


@dataclass(frozen=True, kw_only=True)
class PointerOutcome:
    """The pointer that was signed, stored or read; None if there was nothing to sign or to store."""

    pointer: Pointer | None
    done: str
    stored: bool = False
    releases: int | None = None  #: in the index; None: it was not looked at, or is not there
    choice: GoodChoice | None = None  #: what speaks against newer snapshots than that of latest-good

    def text(self) -> str:
        """A line."""
        found, chosen = self.pointer, [self.choice.text()] if self.choice is not None else []
        if found is None:
            return "\n".join([self.done, *chosen])
        parts = [f"{found.tag} is the newest snapshot as of {found.issued}, until {found.expires}"]
        parts += [f"{INDEX_NAME} has {self.releases:,} releases"] if self.releases is not None else []
        return "\n".join(["; ".join([*parts, self.done]), *chosen])

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {**vars(self), "channels": self.pointer.channels if self.pointer is not None else {}}


def show_pointer(forge: Forge, signed_by: SignedBy) -> PointerOutcome:
    """What the pointer of a forge says, once it is checked, as is the index beside it.

    :raises VerificationError: ``latest-stale``, ``signature-invalid``, ``tampered``, ``file-damaged``
    """
    head, where = read_head(forge), forge.description
    if head.bundle is None:
        matrix = None if signed_by.required else matrix_if_there(forge, signed_by.branch)
        if matrix is None or is_required(forge, matrix.release.provenance):
            why = "nobody has signed one yet"
            raise stale("there is no signed pointer to the newest snapshot", where=where, why=why)
        choice = find_good(forge, known_here(forge, matrix), branch=signed_by.branch, signed_by=signed_by)
        return PointerOutcome(pointer=None, done="nothing is signed here; what this place shows:", choice=choice)
    asked = head.asked(signed_by)
    pointer = prove(head.bundle, asked)
    check_time(pointer, latest.now(), where=where)
    done = f"signed by {pointer.repository}"
    if not pointer.index:
        return PointerOutcome(pointer=pointer, done=done)
    stored = read_stored(head, pointer.repository, index=pointer.index, quality=pointer.quality)
    before, tags = pointer.channels.get(LATEST_GOOD, ""), stored.index.tags
    choice = find_good(forge, stored.quality, branch=signed_by.branch, before=before, signed_by=asked, tags=tags)
    return PointerOutcome(pointer=pointer, done=done, releases=len(tags), choice=choice)


def renewal_due(ledger: Ledger, newest: str, yanks: Sequence[Yank], config: ReleaseConfig, *, branch: str) -> str:
    """Why what a forge signs itself has to be signed anew; empty if it has not. Three requests on GitHub.

    :param newest: the tag that the pointer should name
    :param yanks: that the index should have
    """
    head = read_head(ledger.forge)
    if head.bundle is None:
        return "nothing signed says that it is the newest"
    try:
        pointer = prove(head.bundle, head.asked(SignedBy(branch=branch)))
        return next(_differences(head, pointer, ledger, newest, yanks, config), "")
    except VerificationError as error:
        return error.what


def _differences(
    head: Head, pointer: Pointer, ledger: Ledger, newest: str, yanks: Sequence[Yank], config: ReleaseConfig
) -> Iterator[str]:
    """What should be signed, and is not."""
    if pointer.tag != newest:
        yield f"the signed pointer still names {pointer.tag}"
    if ledger.now >= pointer.issued_at + timedelta(days=config.latest_lifetime_days) / 2:
        yield f"what says that it is the newest expires on {pointer.expires}"
    if not pointer.index:
        yield f"the signed pointer names no {INDEX_NAME}"
    index = read_stored(head, pointer.repository, index=pointer.index).index
    good = parse_tag(pointer.good.tag) if pointer.good is not None else None
    for row in index.releases:
        old_enough = parse_time(row.created_at) + timedelta(hours=config.good_after_hours)
        newer = row.order.kind == "snapshot" and (good is None or row.order > good)
        if newer and pointer.issued_at < old_enough <= ledger.now:
            yield f"{row.tag} has become old enough for {LATEST_GOOD}"
    there = frozenset(index.tags)
    published = (state.name for state in ledger.states if state.state == "published")
    yield from (f"{INDEX_NAME} lacks {tag}" for tag in published if tag not in there)
    if yanked_of(yanks, index.tags) != index.yanked:
        yield f"{INDEX_NAME} has other yanks"


# -- who signs ---------------------------------------------------------------------------------------------------------


def sign_pointer(forge: Forge, output: Path, *, branch: str, environ: Mapping[str, str] = os.environ) -> PointerOutcome:
    """Sign, as the workflow run that this is, which snapshot is the newest. Nothing of it is taken from other jobs.

    :param output: gets the bundle, and what it names: the index, months that have changed, the releases' quality
    :param branch: the protected one: what ``attest.yml`` is called at, and what the run has to be on
    :raises VerificationError: if the newest snapshot is not signed, or what this run signs would be refused
    :raises ForgeError: ``forge-unreachable``
    """
    from mlir_release.release.provenance.sign import Signatory, own_repository

    config = matrix_of_branch(forge, branch).release
    ledger, yanks = Ledger(forge), read_yanks(forge, branch)
    newest = ledger.newest_published(yanks)
    release = forge.published(newest) if newest else None
    if release is None or not is_required(forge, config.provenance):
        return PointerOutcome(pointer=None, done="nothing to sign: no snapshot is published, or releases are unsigned")
    signer = SignedBy(repository=own_repository(environ), branch=branch, trust=load_trust(environ=environ))
    asked = SignedBy(branch=branch, expectation="require")
    trusted = read_trusted(forge, release, asked)
    pointed, before = _believed(read_head(forge), signer)
    manifests = Manifests(forge, required=True, branch=branch, signed_by=asked)
    files = renew_index(ledger, before, manifests, trusted.manifest, repository=signer.repository, yanks=yanks)
    index = parse_index(files[INDEX_NAME])
    quality = learn_quality(forge, index, before, branch=branch)
    named = pointed.channels.get(LATEST_GOOD, "") if pointed is not None else ""
    choice = find_good(forge, quality, branch=branch, before=named, signed_by=asked, tags=index.tags)
    good = None
    if choice.tag:
        found = read_published(forge, choice.tag, asked)
        digest = found.remote.release.digest(MANIFEST_NAME)
        good = ChannelRelease(tag=choice.tag, commit=found.manifest.commit, manifest=digest)
    issued = forge.now()
    pointer = Pointer(
        repository=signer.repository,
        tag=release.tag,
        commit=trusted.manifest.commit,
        manifest=trusted.remote.release.digest(MANIFEST_NAME),
        issued=format_time(issued),
        expires=format_time(issued + timedelta(days=config.latest_lifetime_days)),
        good=good,
    )
    files[INDEX_NAME] = to_bytes(structs.replace(index, channels=pointer.channels))
    files[QUALITY_NAME] = to_bytes(quality)
    pointer = structs.replace(pointer, index=sha256_of(files[INDEX_NAME]), quality=sha256_of(files[QUALITY_NAME]))
    with console.step(f"sign that {release.tag} is the newest snapshot"):
        bundle = Signatory(environ, pointer_policy(signer.repository, branch)).sign(pointer.statement())
    prove(bundle, signer)
    write_all(output, {POINTER_FILE: bundle, **files})
    return PointerOutcome(pointer=pointer, done="signed", releases=len(index.tags), choice=choice)


def renew_index(
    ledger: Ledger,
    before: Catalogue | None,
    manifests: Manifests,
    newest: Manifest,
    *,
    repository: str,
    yanks: Sequence[Yank],
) -> dict[str, bytes]:
    """The files of the next index that differ from those of the one before: its head, still without the channels, and
    months.

    Only the manifests of releases that it lacks are read.

    :param before: None: all manifests are read
    :param newest: of the newest snapshot, which was read already
    """
    rows, months = (listed(before.index), before.index.months) if before is not None else ([], ())
    known = {each.tag: parse_time(each.row.created_at) for each in rows}
    known |= {tag: parse_time(f"{month.month}-01T00:00:00Z") for month in months for tag in month.tags}
    there = ledger.published(known).keys()
    with scratch_folder("index") as folder:

        def read(tags: AbstractSet[str]) -> list[CatalogueEntry]:
            names = sorted(set(tags) - {newest.tag})
            with console.waiting(f"read the manifests of {len(names)} releases"):
                found = [manifests.fetch(tag, folder, otherwise="the index leaves it out") for tag in names]
            read = [each.manifest for each in found if each is not None]
            return [*map(list_release, read), *([list_release(newest)] if newest.tag in tags else [])]

        rows += read(there - known.keys())
        changed = {each.row.created_at[:7] for each in rows}
        older = [month for month in months if month.month not in changed and there >= set(month.tags)]
        for month in (month for month in months if month not in older):
            assert before is not None
            try:
                rows += before.month(month)
            except VerificationError as error:
                console.warn(f"{error.what} ({error.why}); the manifests of its releases are read again")
                rows += read(there & set(month.tags))
    return write_index(
        [each for each in rows if each.tag in there],
        repository=repository,
        upstream=newest.upstream,
        yanks=yanks,
        older=older,
    )


def learn_quality(forge: Forge, index: ReleaseIndex, before: Catalogue | None, *, branch: str) -> Quality:
    """What is known now of the snapshots of the newest months: upstream's reverts, and the canaries' results.

    :param index: the next one
    :param before: the stored and signed index, whose answers stand where upstream can't be reached; None: none is
    """
    matrix = matrix_of_branch(forge, branch)
    old = before.quality if before is not None else Quality(repository=index.repository)

    # The months of the head alone: older ones would cost requests, and hardly anyone chooses their snapshots.
    newest = Catalogue(structs.replace(index, months=()), old, lambda _: None, forge.description)
    rows = watched(newest, matrix.release.linked_days)
    with console.step(f"look for reverts of what {len(rows)} snapshots have"):
        watch = find_reverts(Upstream.of(matrix.release), rows, paths=built_from(newest), known=old)
    canaries = read_records(forge).known({row.tag for row in rows}, matrix.canaries)
    learnt = {
        tag: ReleaseQuality(reverted=watch.releases.get(tag, ()), canaries=canaries.get(tag, ()))
        for tag in sorted({*watch.releases, *canaries})
    }
    told = {tag: each for tag, each in learnt.items() if each.reverted or each.canaries}  # of others nothing is kept
    return structs.replace(old, upstream_head=watch.upstream_head, releases=told)


# -- who stores --------------------------------------------------------------------------------------------------------


def store_pointer(forge: Forge, folder: Path, *, branch: str) -> PointerOutcome:
    """Commit what was signed to its branch, unless something as new is there. Safe to repeat.

    :param folder: with the bundle and what it names; without a bundle nothing is done
    :raises VerificationError: ``signature-invalid``, ``latest-stale``, ``tampered``
    :raises ConflictError: ``changed-meanwhile``
    """

    def beside(path: str) -> bytes | None:
        return read_if_there(folder / path)

    bundle = beside(POINTER_FILE)
    if bundle is None:
        return PointerOutcome(pointer=None, done="nothing to store")
    return _put(forge, bundle, beside, SignedBy(repository=repository_of(forge), branch=branch))


def copy_pointer(source: Forge, destination: Forge, signed_by: SignedBy, *, dry_run: bool) -> bool:
    """Bring the branch of a mirror up to date. Returns whether it was, or, with ``dry_run``, would be.

    What is refused is not copied, with a warning: whoever reads the mirror would refuse it, too.
    """
    ours, there = read_head(source), read_head(destination)
    if ours.bundle is None or (ours.bundle == there.bundle and ours.read(INDEX_NAME) == there.read(INDEX_NAME)):
        return False
    if dry_run:
        return True
    try:
        return _put(destination, ours.bundle, ours.read, ours.asked(signed_by)).stored
    except (VerificationError, ConflictError) as error:
        console.warn(f"{error.what}; the mirror keeps the one that it has: {error.why}")
        return False


def _put(forge: Forge, bundle: bytes, beside: Callable[[str], bytes | None], signed_by: SignedBy) -> PointerOutcome:
    """Commit a pointer and what it names, if who had to has signed it, its release is there, and no newer pointer is.

    :param beside: reads another file of the place that the bundle is from
    """
    pointer = prove(bundle, signed_by)
    check_time(pointer, latest.now(), where=forge.description)
    if forge.published(pointer.tag) is None:
        why = "it was published after the others were listed, or withdrawn"
        raise stale(f"the signed pointer names {pointer.tag}, which is not there", where=forge.description, why=why)
    files, where = {POINTER_FILE: bundle}, "the place that it is from"
    for name, digest in ((INDEX_NAME, pointer.index), (QUALITY_NAME, pointer.quality)):
        if digest:
            files[name] = need_signed(beside(name), digest, name, where=where)
    index = parsed(parse_index, files[INDEX_NAME], INDEX_NAME, where=where) if pointer.index else None
    months, yanked = (index.months, index.yanked) if index is not None else ((), {})
    races = Races(where=f"{LATEST_BRANCH} of {forge.description}")
    while True:
        head = read_head(forge)
        known, stored = _believed(head, signed_by, quality=False)
        issued = known.issued if known is not None else ""
        if issued > pointer.issued or (issued == pointer.issued and (stored is not None or not pointer.index)):
            return PointerOutcome(pointer=pointer, done="one that is as new is there")
        # Two runs may list the releases in one order and sign in the other.
        older = known is not None and pointer.snapshot < known.snapshot
        if known is not None and older and known.tag not in yanked and forge.published(known.tag) is not None:
            return PointerOutcome(pointer=pointer, done=f"one to {known.tag} is there, which was published meanwhile")
        own = {month.month: month.sha256 for month in stored.index.months} if stored is not None else {}
        more = dict(files)
        for month in (month for month in months if own.get(month.month) != month.sha256):
            path = month_file(month.month)
            if (content := beside(path)) is None:
                raise ConflictError(
                    "changed-meanwhile",
                    f"{path} is not to be stored, and no longer on the branch {LATEST_BRANCH}",
                    why="the index was made of another one, which that branch had then",
                    remedy="run latest.yml again: it begins with what is there",
                )
            more[path] = need_signed(content, month.sha256, path, where=where)
        try:
            forge.commit(
                LATEST_BRANCH,
                expected=head.commit or None,
                files=more,
                message=f"Point latest at {pointer.tag}\n\nUntil {pointer.expires}.\n",
                base=head_of(forge, signed_by.branch),  # whose workflow files a job's token must not change
                keep=INDEX_FOLDER,
            )
            return PointerOutcome(pointer=pointer, done=f"stored on the branch {LATEST_BRANCH}", stored=True)
        except BranchMoved as error:
            races.retry(f"commit to {LATEST_BRANCH}", error)


def _believed(head: Head, signed_by: SignedBy, *, quality: bool = True) -> tuple[Pointer | None, Catalogue | None]:
    """The pointer of the branch, whatever its age, and what it names; None: it counts for nothing.

    :param quality: also read the quality of the releases
    """
    pointer = None
    try:
        if head.bundle is not None:
            pointer = prove(head.bundle, signed_by)
            if pointer.index:
                learnt = pointer.quality if quality else ""
                return pointer, read_stored(head, pointer.repository, index=pointer.index, quality=learnt)
    except VerificationError as error:
        console.warn(f"what is on the branch {LATEST_BRANCH} is not believed: {error.what} ({error.why})")
    return pointer, None
