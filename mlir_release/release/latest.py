"""The signed pointer to the newest snapshot: where it is kept, how it is renewed, what ``install latest`` asks of it.

It changes daily, so it is no asset of a release, which never changes: it is a file on a branch of its own, which every
forge can read and every mirror can copy. Whoever can push there can put an older one, which its date gives away, or
delete it, which the signed manifests give away, and the memory of whoever has seen one.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import UsageError, VerificationError
from mlir_release.forge.base import BranchMoved
from mlir_release.forge.files import head_of, matrix_of_branch, read_yanks
from mlir_release.host.cache import cache_directory
from mlir_release.host.files import read_if_there, write_atomically
from mlir_release.host.races import Races
from mlir_release.model.decode import parse_json
from mlir_release.model.digests import sha256_of
from mlir_release.model.manifest import MANIFEST_NAME, format_time, parse_time
from mlir_release.model.release_tags import LATEST, SnapshotTag, parse_tag
from mlir_release.model.targets import LATEST_BRANCH
from mlir_release.model.yanks import yank_reason
from mlir_release.provenance.pointer import (
    Pointer,
    check_time,
    claimed_repository,
    pointer_policy,
    stale,
    verify_pointer,
)
from mlir_release.provenance.trust import load_trust
from mlir_release.release.ledger import Ledger
from mlir_release.release.release_assets import need_published
from mlir_release.release.signed import AS_DECLARED, SignedBy, is_required, read_trusted, repository_of, signs_itself

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.forge.base import Forge, Release
    from mlir_release.model.yanks import Yank
    from mlir_release.provenance.policy import SignerPolicy
    from mlir_release.provenance.trust import Trust
    from mlir_release.release.signed import TrustedRelease

#: The bundle with the pointer, on its branch.
POINTER_FILE = "latest.sigstore.json"

#: Has the pointer signed and stored; dispatched on the protected branch.
LATEST_WORKFLOW = "latest.yml"


@dataclass(frozen=True, kw_only=True)
class PointerOutcome:
    """The pointer that was signed, stored or read; None if there was nothing to sign or to store."""

    pointer: Pointer | None
    done: str
    stored: bool = False

    def text(self) -> str:
        """A line."""
        found = self.pointer
        if found is None:
            return self.done
        return f"{found.tag} is the newest snapshot as of {found.issued}, until {found.expires}; {self.done}"


def now() -> datetime:
    """By the clock of this machine: a mirror's says what the mirror likes."""
    return datetime.now(UTC)


def read_pointer(forge: Forge) -> bytes | None:
    """The bundle with the pointer, of which nothing is proven; None if it is not there. Two requests on GitHub."""
    head = forge.head(LATEST_BRANCH)
    return forge.read(POINTER_FILE, commit=head) if head is not None else None


# -- the release that a person names ----------------------------------------------------------------------------------


def read_release(forge: Forge, tag: str, signed_by: SignedBy = AS_DECLARED) -> TrustedRelease:
    """The published release of a tag, or of :data:`LATEST`, with its manifest. A yanked one comes with a warning.

    :param signed_by: its branch also holds ``yanked.toml``
    :raises UsageError: ``option-invalid``, ``release-not-published``
    :raises VerificationError: ``latest-stale``, and those of :func:`~mlir_release.release.signed.read_trusted`
    """
    yanks = read_yanks(forge, signed_by.branch)
    release = _newest(forge, yanks) if tag == LATEST else _of_tag(forge, tag, yanks)
    trusted = read_trusted(forge, release, signed_by)
    return follow_pointer(forge, trusted, yanks, signed_by) if tag == LATEST else trusted


def concrete_tag(forge: Forge, tag: str, signed_by: SignedBy = AS_DECLARED) -> str:
    """The tag that a person means: of :data:`LATEST` what :func:`read_release` finds, otherwise the same."""
    return read_release(forge, tag, signed_by).manifest.tag if tag == LATEST else tag


def _newest(forge: Forge, yanks: Sequence[Yank]) -> Release:
    for release in forge.published_newest_first():
        if isinstance(parse_tag(release.tag), SnapshotTag) and yank_reason(yanks, release.tag) is None:
            return release
    raise UsageError(
        "release-not-published",
        "no snapshot is published",
        where=forge.description,
        remedy="name the tag of a numbered release",
    )


def _of_tag(forge: Forge, tag: str, yanks: Sequence[Yank]) -> Release:
    if parse_tag(tag) is None:
        raise UsageError(
            "option-invalid",
            f"{tag!r} is not the tag of a release",
            remedy=f"give one like snapshot-20261120.01 or llvm-22.1.8.01, or {LATEST}",
        )
    found = need_published(forge, tag)
    reason = yank_reason(yanks, tag)
    if reason is not None:
        console.warn(f"{tag} is yanked: {reason}")
    return found


# -- who installs ------------------------------------------------------------------------------------------------------


def follow_pointer(forge: Forge, found: TrustedRelease, yanks: Sequence[Yank], signed_by: SignedBy) -> TrustedRelease:
    """The newest snapshot, if the one that a forge offers as such is not older than what the pointer names.

    A newer one is as good: the pointer lags a little behind. Whatever is wrong is an error where a signature is asked
    for, and on GitHub, and otherwise a warning. A release that nobody signs has no pointer.

    :param found: the newest snapshot that the forge lists
    :raises VerificationError: ``latest-stale``, ``signature-invalid``
    """
    if found.signatures is None:
        return found
    try:
        pointer = _read_newest(forge, found, signed_by)
        return found if pointer is None else _not_older(forge, found, pointer, yanks, signed_by)
    except VerificationError as error:
        if forge.services is not None or signed_by.required:
            raise
        console.warn(f"{error.what}: {error.why}")
        return found


def _read_newest(forge: Forge, found: TrustedRelease, signed_by: SignedBy) -> Pointer | None:
    """The pointer, checked; None, with a warning, if the repository may be one from before pointers."""
    assert found.signatures is not None
    repository, where, tag = found.signatures.policy.repository, forge.description, found.release.tag
    seen = _Seen(repository)
    bundle = read_pointer(forge)
    if bundle is not None:
        pointer = verify_pointer(bundle, pointer_policy(repository, signed_by.branch), found.signatures.trust)
        check_time(pointer, now(), where=where)
        seen.check(pointer, where=where)
        return pointer
    if seen.issued or found.manifest.signed_latest:
        raise stale(
            f"the signed pointer to the newest snapshot of {repository} is missing",
            where=where,
            why=f"one of {seen.issued} was seen before" if seen.issued else f"{tag} says that there is one",
        )
    console.warn(
        f"{where} has no signed pointer to its newest snapshot, as it is where an older toolkit is used; "
        f"{tag} is the newest that it shows, and may be an old one"
    )
    return None


def _not_older(
    forge: Forge, found: TrustedRelease, pointer: Pointer, yanks: Sequence[Yank], signed_by: SignedBy
) -> TrustedRelease:
    tag = parse_tag(found.release.tag)
    assert isinstance(tag, SnapshotTag)
    if tag > pointer.snapshot:
        return found
    where = forge.page_url(pointer.tag)
    if tag < pointer.snapshot:
        reason = yank_reason(yanks, pointer.tag)
        if reason is not None and signs_itself(forge, signed_by.repository):
            return found  # the pointer follows soon
        release = forge.published(pointer.tag) if reason is None else None
        if release is None:
            raise stale(
                f"{found.release.tag} is offered as the newest snapshot, and {pointer.tag} is signed as such",
                where=where,
                why="that one is not there"
                if reason is None
                else f"that one is said to be yanked ({reason}), which nothing signed confirms",
            )
        found = read_trusted(forge, release, signed_by)
    digest = found.remote.digest(MANIFEST_NAME)
    if digest != pointer.manifest:
        raise stale(
            f"{pointer.tag} is not the release that is signed as the newest snapshot",
            where=where,
            why=f"the sha256 of its {MANIFEST_NAME} is {digest}, and not {pointer.manifest}",
        )
    return found


class _Seen:
    """The newest pointer of a repository that this user has seen, by which going back is noticed."""

    def __init__(self, repository: str) -> None:
        name = sha256_of(repository)[:24]
        self._path = cache_directory() / "latest" / f"{name}.json"
        self.tag, self.issued = self._read()

    def _read(self) -> tuple[str, str]:
        try:
            found = parse_json(read_if_there(self._path) or b"null")
            return str(found["tag"]), format_time(parse_time(found["issued"]))
        except (OSError, ValueError, TypeError, KeyError):
            return "", ""

    def check(self, pointer: Pointer, *, where: str) -> None:
        """Refuse to go back to another release; remember a newer pointer. :raises VerificationError: ``latest-stale``

        An older pointer to the same release withholds nothing: places are not renewed at the same time.
        """
        if pointer.issued < self.issued:
            if pointer.tag == self.tag:
                return
            raise stale(
                "the signed pointer to the newest snapshot is older than one that was seen before",
                where=where,
                why=f"it names {pointer.tag} and is dated {pointer.issued}; that of {self.issued} names {self.tag}",
            )
        if (pointer.tag, pointer.issued) != (self.tag, self.issued):
            found = {"repository": pointer.repository, "tag": pointer.tag, "issued": pointer.issued}
            with suppress(OSError):  # a reader without a home of its own remembers nothing
                write_atomically(self._path, json.dumps(found))


def show_pointer(forge: Forge, signed_by: SignedBy) -> PointerOutcome:
    """What the pointer of a forge says, once it is checked.

    :raises VerificationError: ``latest-stale``, ``signature-invalid``
    """
    bundle, where = read_pointer(forge), forge.description
    if bundle is None:
        raise stale("there is no signed pointer to the newest snapshot", where=where, why="nobody has signed one yet")
    repository = signed_by.repository or repository_of(forge, claimed_repository(bundle))
    pointer = verify_pointer(bundle, pointer_policy(repository, signed_by.branch), signed_by.trust or load_trust())
    check_time(pointer, now(), where=where)
    return PointerOutcome(pointer=pointer, done=f"signed by {repository}")


# -- who renews --------------------------------------------------------------------------------------------------------


def renewal_due(forge: Forge, newest: str, *, branch: str, lifetime: timedelta, now: datetime) -> str:
    """Why the pointer of a forge that signs itself has to be renewed; empty if it has not.

    :param newest: the tag that it should name
    :param now: by the forge's clock
    """
    bundle = read_pointer(forge)
    if bundle is None:
        return "nothing signed says that it is the newest"
    try:
        pointer = verify_pointer(bundle, pointer_policy(repository_of(forge), branch), load_trust())
    except VerificationError as error:
        return error.what
    if pointer.tag != newest:
        return f"the signed pointer still names {pointer.tag}"
    if now >= pointer.issued_at + lifetime / 2:
        return f"what says that it is the newest expires on {pointer.expires}"
    return ""


def sign_pointer(forge: Forge, output: Path, *, branch: str, environ: Mapping[str, str] = os.environ) -> PointerOutcome:
    """Sign, as the workflow run that this is, which snapshot is the newest. Nothing of it is taken from other jobs.

    :param output: gets the bundle
    :param branch: the protected one: what ``attest.yml`` is called at, and what the run has to be on
    :raises VerificationError: if the newest snapshot is not signed, or what this run signs would be refused
    :raises ForgeError: ``forge-unreachable``
    """
    from mlir_release.provenance.sign import Signatory, own_repository

    config = matrix_of_branch(forge, branch).release
    newest = Ledger(forge).newest_published(read_yanks(forge, branch))
    release = forge.published(newest.tag) if newest is not None else None
    if release is None or not is_required(forge, config.provenance):
        return PointerOutcome(pointer=None, done="nothing to sign: no snapshot is published, or releases are unsigned")
    policy = pointer_policy(own_repository(environ), branch)
    trusted = read_trusted(forge, release, SignedBy(branch=branch, expectation="require"))
    issued = forge.now()
    pointer = Pointer(
        repository=policy.repository,
        tag=release.tag,
        commit=trusted.manifest.commit,
        manifest=trusted.remote.digest(MANIFEST_NAME),
        issued=format_time(issued),
        expires=format_time(issued + timedelta(days=config.latest_lifetime_days)),
    )
    with console.step(f"sign that {release.tag} is the newest snapshot"):
        bundle = Signatory(environ, policy).sign(pointer.statement())
    verify_pointer(bundle, policy, load_trust(environ=environ))
    write_atomically(output / POINTER_FILE, bundle)
    return PointerOutcome(pointer=pointer, done="signed")


def store_pointer(forge: Forge, folder: Path, *, branch: str) -> PointerOutcome:
    """Put the signed pointer on its branch, unless one that is as new is there. Safe to repeat.

    :param folder: with the bundle; without one nothing is done
    :raises VerificationError: ``signature-invalid``, ``latest-stale``
    """
    bundle = read_if_there(folder / POINTER_FILE)
    if bundle is None:
        return PointerOutcome(pointer=None, done="nothing to store")
    return _put(forge, bundle, SignedBy(repository=repository_of(forge), branch=branch))


def copy_pointer(source: Forge, destination: Forge, signed_by: SignedBy, *, dry_run: bool) -> bool:
    """Bring the pointer of a mirror up to date. Returns whether it was, or, with ``dry_run``, would be.

    What is refused is not copied, with a warning: whoever installs from the mirror would refuse it, too.
    """
    bundle = read_pointer(source)
    if bundle is None or bundle == read_pointer(destination):
        return False
    if dry_run:
        return True
    repository = signed_by.repository or repository_of(source, claimed_repository(bundle))
    try:
        return _put(destination, bundle, replace(signed_by, repository=repository)).stored
    except VerificationError as error:
        console.warn(f"{error.what}; the mirror keeps the one that it has: {error.why}")
        return False


def _put(forge: Forge, bundle: bytes, signed_by: SignedBy) -> PointerOutcome:
    """Commit a pointer to its branch, if who had to has signed it, its release is there, and no newer pointer is."""
    policy, trust = pointer_policy(signed_by.repository, signed_by.branch), signed_by.trust or load_trust()
    pointer = verify_pointer(bundle, policy, trust)
    check_time(pointer, now(), where=forge.description)
    if forge.published(pointer.tag) is None:
        why = "it was published after the others were listed, or withdrawn"
        raise stale(f"the signed pointer names {pointer.tag}, which is not there", where=forge.description, why=why)
    races = Races(where=f"{LATEST_BRANCH} of {forge.description}")
    while True:
        head = forge.head(LATEST_BRANCH)
        there = forge.read(POINTER_FILE, commit=head) if head is not None else None
        if there is not None and _issued(there, policy, trust) >= pointer.issued:
            return PointerOutcome(pointer=pointer, done="one that is as new is there")
        try:
            forge.commit(
                LATEST_BRANCH,
                expected=head,
                files={POINTER_FILE: bundle},
                message=f"Point latest at {pointer.tag}\n\nUntil {pointer.expires}.\n",
                base=head_of(forge, signed_by.branch),  # whose workflow files a job's token must not change
            )
            return PointerOutcome(pointer=pointer, done=f"stored on the branch {LATEST_BRANCH}", stored=True)
        except BranchMoved as error:
            races.retry(f"commit to {LATEST_BRANCH}", error)


def _issued(bundle: bytes, policy: SignerPolicy, trust: Trust) -> str:
    """When a pointer was issued; empty, which is before all times, if it counts for nothing."""
    try:
        return verify_pointer(bundle, policy, trust).issued
    except VerificationError:
        return ""
