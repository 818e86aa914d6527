"""The signed pointer to the newest snapshot: where it is kept, and what ``install latest`` asks of it.

It changes daily, so it is no asset of a release, which never changes: it is a file on a branch of its own, which every
forge can read and every mirror can copy. Whoever can push there can put an older one, which its date gives away, or
delete it, which the signed manifests give away, and the memory of whoever has seen one.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.documents.times import format_time, parse_time
from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.storage.files import read_if_there, write_atomically
from mlir_release.release.forge.files import matrix_of_branch, read_yanks
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy, read_published, read_trusted, signs_itself
from mlir_release.release.latest.channels import find_good, known_here
from mlir_release.release.model.manifest import MANIFEST_NAME
from mlir_release.release.model.release_settings import LATEST_BRANCH
from mlir_release.release.model.release_tags import CHANNELS, LATEST, LATEST_GOOD, SnapshotTag, parse_tag
from mlir_release.release.model.yanks import Yank, newest_tag, yank_reason
from mlir_release.release.provenance.pointer import (
    Pointer,
    check_time,
    claimed_repository,
    pointer_policy,
    stale,
    verify_pointer,
)
from mlir_release.release.provenance.trust import load_trust
from mlir_release.release.transaction.release_assets import need_published

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.release.forge.base import Forge, Release
    from mlir_release.release.judging.signed import TrustedRelease

#: The bundle with the pointer, on its branch.
POINTER_FILE = "latest.sigstore.json"

#: Of GitHub's newest releases, so many are compared: a page has ten, of which a few may be drafts. It lists them by
#: their commits, so that tags are in order but for races. Whatever is behind them, the signed pointer names.
_LISTED = 8

#: Has the pointer signed and stored; dispatched on the protected branch.
LATEST_WORKFLOW = "latest.yml"


def now() -> datetime:
    """By the clock of this machine: a mirror's says what the mirror likes."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Head:
    """The head of the pointer's branch. Nothing of it counts before :func:`prove` has checked the pointer."""

    forge: Forge
    commit: str  #: empty: there is no branch
    bundle: bytes | None  #: with the pointer

    @property
    def where(self) -> str:
        """For errors."""
        return f"the branch {LATEST_BRANCH} of {self.forge.description}"

    def read(self, path: str) -> bytes | None:
        """The content of a file; None if it is not there."""
        return self.forge.read(path, commit=self.commit) if self.commit else None

    def asked(self, signed_by: SignedBy) -> SignedBy:
        """With the repository that has to have signed: who names none means the forge's, or a mirror's source."""
        claimed = self.forge.services.url or claimed_repository(self.bundle or b"")
        return replace(signed_by, repository=signed_by.repository or claimed)


def read_head(forge: Forge) -> Head:
    """The head of the pointer's branch. Two requests on GitHub."""
    head = forge.head(LATEST_BRANCH)
    return Head(forge, head or "", forge.read(POINTER_FILE, commit=head) if head is not None else None)


def prove(bundle: bytes, signed_by: SignedBy) -> Pointer:
    """The pointer in a bundle, if who had to has signed it, whatever its age.

    :param signed_by: names the repository
    :raises VerificationError: ``signature-invalid``
    """
    policy = pointer_policy(signed_by.repository, signed_by.branch)
    return verify_pointer(bundle, policy, signed_by.trust or load_trust())


# -- the release that a person names ----------------------------------------------------------------------------------


def read_release(forge: Forge, tag: str, signed_by: SignedBy = AS_DECLARED) -> TrustedRelease:
    """The published release of a tag, or of a channel, with its manifest. A yanked one comes with a warning.

    :param tag: or one of :data:`CHANNELS`
    :param signed_by: its branch also holds ``yanked.toml``
    :raises UsageError: ``option-invalid``, ``release-not-published``
    :raises VerificationError: ``latest-stale``, and those of :func:`~mlir_release.release.judging.signed.read_trusted`
    """
    yanks = read_yanks(forge, signed_by.branch)
    if tag not in CHANNELS:
        if parse_tag(tag) is None:
            raise UsageError(
                "option-invalid",
                f"{tag!r} is not the tag of a release",
                remedy=f"give one like snapshot-20261120.01 or llvm-22.1.8.01, or {' or '.join(CHANNELS)}",
            )
        found = need_published(forge, tag)
        reason = yank_reason(yanks, tag)
        if reason is not None:
            console.warn(f"{tag} is yanked: {reason}")
        return read_trusted(forge, found, signed_by)
    if (release := newest_release(forge, yanks)) is None:
        raise UsageError(
            "release-not-published",
            "no snapshot is published",
            where=forge.description,
            remedy="name the tag of a numbered release",
        )
    newest = read_trusted(forge, release, signed_by)
    if tag == LATEST_GOOD:
        return _good(forge, newest, yanks, signed_by)
    return follow_pointer(forge, newest, yanks, signed_by)


def concrete_tag(forge: Forge, tag: str, signed_by: SignedBy = AS_DECLARED) -> str:
    """The tag that a person means: of a channel what :func:`read_release` finds, otherwise the same."""
    return read_release(forge, tag, signed_by).manifest.tag if tag in CHANNELS else tag


def newest_release(forge: Forge, yanks: Sequence[Yank]) -> Release | None:
    """The newest published snapshot. A folder shows all releases at once, GitHub a page for each request."""
    releases = forge.published_newest_first()
    while listed := {release.tag: release for release in islice(releases, _LISTED if forge.services.url else None)}:
        if newest := newest_tag(listed, yanks):
            return listed[newest]
    return None


def _good(forge: Forge, newest: TrustedRelease, yanks: Sequence[Yank], signed_by: SignedBy) -> TrustedRelease:
    """The release of ``latest-good``: as the signed pointer says, or, where nothing is signed, as this place shows."""
    remedy = f"name a tag, or {LATEST}; `mlir-release release latest` says what speaks against the newest snapshots"
    if newest.signatures is None:
        quality = known_here(forge, matrix_of_branch(forge, signed_by.branch))
        choice = find_good(forge, quality, branch=signed_by.branch, signed_by=signed_by)
        if not choice.tag:
            why = "\n".join(f"{tag}: {reason}" for tag, reason in choice.why_not.items())
            raise _no_good("no snapshot is good yet", forge, why, remedy)
        return read_published(forge, choice.tag, signed_by)
    pointer = _read_newest(forge, newest, signed_by)
    if pointer is None or pointer.good is None:
        why = "no pointer is signed" if pointer is None else f"the pointer of {pointer.issued} names none"
        raise _no_good("no snapshot is signed as good yet", forge, why, remedy)
    tag = pointer.good.tag
    if (reason := yank_reason(yanks, tag)) is not None:
        raise _no_good(f"{LATEST_GOOD} names {tag}, which is yanked", forge, reason, remedy)
    release = forge.published(tag)
    if release is None:
        raise stale(f"{tag} is signed as {LATEST_GOOD}", where=forge.page_url(tag), why="that one is not there")
    return _need_digest(read_trusted(forge, release, signed_by), pointer.good.manifest, LATEST_GOOD)


def _no_good(what: str, forge: Forge, why: str, remedy: str) -> UsageError:
    return UsageError("release-not-published", what, where=forge.description, why=why, remedy=remedy)


def _need_digest(found: TrustedRelease, signed: str, channel: str) -> TrustedRelease:
    """The release, if it is the one that is signed as the channel's. :raises VerificationError: ``latest-stale``"""
    digest, tag = found.remote.release.digest(MANIFEST_NAME), found.release.tag
    if digest != signed:
        raise stale(
            f"{tag} is not the release that is signed as {channel}",
            where=found.remote.forge.page_url(tag),
            why=f"the sha256 of its {MANIFEST_NAME} is {digest}, and not {signed}",
        )
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
        if forge.services.url or signed_by.required:
            raise
        console.warn(f"{error.what}: {error.why}")
        return found


def _read_newest(forge: Forge, found: TrustedRelease, signed_by: SignedBy) -> Pointer | None:
    """The pointer, checked; None, with a warning, if the repository may be one from before pointers."""
    assert found.signatures is not None
    bundle = read_head(forge).bundle
    if bundle is None:
        need_no_pointer(found, where=forge.description)
        return None
    signatures = found.signatures
    asked = replace(signed_by, repository=signatures.policy.repository, trust=signatures.trust)
    return believe(bundle, asked, where=forge.description)


def believe(bundle: bytes, signed_by: SignedBy, *, where: str, whole: bool = False) -> Pointer:
    """The pointer in a bundle, if it is signed, in force, and not older than one that this user has seen.

    :param signed_by: names the repository
    :param whole: what is beside the pointer is read, too; see :meth:`_Seen.check`
    :raises VerificationError: ``latest-stale``, ``signature-invalid``
    """
    pointer = prove(bundle, signed_by)
    check_time(pointer, now(), where=where)
    _Seen(signed_by.repository).check(pointer, where=where, whole=whole)
    return pointer


def need_no_pointer(found: TrustedRelease, *, where: str) -> None:
    """Warn that there is no pointer, if the repository may be one from before pointers.

    :param found: a signed release
    :raises VerificationError: ``latest-stale``: there was one
    """
    assert found.signatures is not None
    repository, tag = found.signatures.policy.repository, found.release.tag
    seen = _Seen(repository)
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
    return _need_digest(found, pointer.manifest, "the newest snapshot")


class _Seen:
    """The newest pointer of a repository that this user has seen, by which going back is noticed."""

    def __init__(self, repository: str) -> None:
        name = sha256_of(repository)[:24]
        self._path = cache_directory() / "latest" / f"{name}.json"
        self.tag = self.issued = self._beside = ""
        with suppress(OSError, ValueError, TypeError, KeyError):
            found = parse_json(read_if_there(self._path) or b"null")
            issued, beside = format_time(parse_time(found["issued"])), str(found.get("beside", ""))
            self.tag, self.issued, self._beside = str(found["tag"]), issued, beside

    def check(self, pointer: Pointer, *, where: str, whole: bool = False) -> None:
        """Refuse to go back to another release; remember a newer pointer. :raises VerificationError: ``latest-stale``

        An older pointer to the same release withholds nothing: places are not renewed at the same time.

        :param whole: refuse to go back to another index, too: yanks and numbered releases change it
        """
        beside = f"{pointer.index} {pointer.quality}".strip()
        if pointer.issued < self.issued:
            if pointer.tag == self.tag and not (whole and beside != self._beside):
                return
            why = f"it names {pointer.tag} and is dated {pointer.issued}; that of {self.issued} names {self.tag}"
            raise stale(
                "the signed pointer to the newest snapshot is older than one that was seen before",
                where=where,
                why=f"{why}, with another index" if pointer.tag == self.tag else why,
            )
        if (pointer.tag, pointer.issued, beside) != (self.tag, self.issued, self._beside):
            found = {"repository": pointer.repository, "tag": pointer.tag, "issued": pointer.issued, "beside": beside}
            with suppress(OSError):  # a reader without a home of its own remembers nothing
                write_atomically(self._path, json.dumps(found))
