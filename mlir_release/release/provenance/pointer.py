"""The signed pointer to the newest snapshot: which tag ``latest`` names, since when and until when.

It also names the digests of ``index.json`` and ``quality.json`` beside it, and the snapshot of ``latest-good``.

It works like the timestamp role of TUF: small, signed often, and soon out of date. A server can't show an old state for
long, because the pointer expires. It can't go back either, because readers remember the date of the newest pointer.
The statement has a predicate type of its own, so it can't stand in for the signature of a file.
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Struct

from mlir_release.ground.documents.decode import MalformedError, Sha1, Sha256, Sha256OrEmpty, convert, doc, parse_json
from mlir_release.ground.documents.times import format_time, parse_time
from mlir_release.ground.errors import VerificationError
from mlir_release.release.model.release_tags import LATEST, LATEST_GOOD, SnapshotTag, parse_tag
from mlir_release.release.provenance.bundle import STATEMENT_TYPE, malformed, read_statement
from mlir_release.release.provenance.policy import SignerPolicy, Subject, check_predicate
from mlir_release.release.provenance.verify import verify_payload

if TYPE_CHECKING:
    from mlir_release.release.provenance.trust import Trust

#: The predicate type of such a statement. Files of a release need another one.
POINTER_TYPE = "urn:mlir-release:latest:v1"

#: Allowed difference between the clocks of machines.
SKEW = timedelta(minutes=5)

#: Bytes that a bundle with a pointer may have. It has about 8,000.
LIMIT = 200_000


class ChannelRelease(Struct, frozen=True, kw_only=True):
    """The snapshot that a channel names."""

    tag: str
    commit: Annotated[Sha1, doc("That its wheels were made at, as its signed manifest says")]
    manifest: Annotated[Sha256, doc("Of its `release.json`")]

    def __post_init__(self) -> None:
        _check_snapshot(self.tag)


class Pointer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest published snapshot that nobody has yanked, at the moment when the release repository signed this.

    Pointers of older toolkits lack the fields that are optional; older toolkits ignore them.
    """

    repository: Annotated[str, doc("Address of the release repository, `https://github.com/OWNER/NAME`")]
    tag: str
    commit: Annotated[Sha1, doc("That its wheels were made at, as its signed manifest says")]
    manifest: Annotated[Sha256, doc("Of the release's `release.json`")]
    issued: Annotated[str, doc("UTC, `2026-11-20T12:00:00Z`")]
    expires: Annotated[str, doc("UTC; nobody should believe it afterwards")]
    index: Annotated[Sha256OrEmpty, doc("Of `index.json` beside it, which names the digests of its months")] = ""
    quality: Annotated[Sha256OrEmpty, doc("Of `quality.json` beside it")] = ""
    good: Annotated[ChannelRelease | None, doc("The snapshot of the channel `latest-good`; null: no such one")] = None

    def __post_init__(self) -> None:
        _check_snapshot(self.tag)
        for name in ("issued", "expires"):
            try:
                parse_time(getattr(self, name))
            except ValueError:
                raise MalformedError(name, f"is {getattr(self, name)!r}, not a UTC time") from None

    @property
    def snapshot(self) -> SnapshotTag:
        """:attr:`tag`, which can be compared."""
        found = parse_tag(self.tag)
        assert isinstance(found, SnapshotTag)
        return found

    @property
    def issued_at(self) -> datetime:
        """:attr:`issued` as a timezone-aware time."""
        return parse_time(self.issued)

    @property
    def expires_at(self) -> datetime:
        """:attr:`expires` as a timezone-aware time."""
        return parse_time(self.expires)

    @property
    def channels(self) -> dict[str, str]:
        """The tags that its channels name, by the channels' names."""
        return {LATEST: self.tag} | ({LATEST_GOOD: self.good.tag} if self.good is not None else {})

    @property
    def subject(self) -> Subject:
        """The subject of the statement: the release, by its manifest's digest."""
        return Subject(name=self.tag, sha256=self.manifest)

    def statement(self) -> dict[str, Any]:
        """To be signed (in-toto.io/Statement/v1)."""
        return {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": self.subject.name, "digest": {"sha256": self.subject.sha256}}],
            "predicateType": POINTER_TYPE,
            "predicate": msgspec.to_builtins(self),
        }


def _check_snapshot(tag: str) -> None:
    if not isinstance(parse_tag(tag), SnapshotTag):
        raise MalformedError("tag", f"is {tag!r}, which is not the tag of a snapshot")


def pointer_policy(repository: str, branch: str) -> SignerPolicy:
    """Who must have signed a pointer: ``attest.yml`` of the protected branch, in a run on that branch, not on a tag.

    :param repository: ``https://github.com/OWNER/NAME``
    """
    return SignerPolicy(repository=repository, branch=branch, ref=f"refs/heads/{branch}")


def claimed_repository(bundle: bytes) -> str:
    """The repository that a pointer names, without any proof; empty if it names none."""
    try:
        payload = base64.b64decode(parse_json(bundle, limit=LIMIT)["dsseEnvelope"]["payload"], validate=True)
        return str(parse_json(payload)["predicate"]["repository"])
    except (ValueError, KeyError, TypeError):
        return ""


def verify_pointer(bundle: bytes, policy: SignerPolicy, trust: Trust) -> Pointer:
    """Read the pointer in a bundle and prove who signed it. :func:`check_time` finds out whether it is out of date.

    :param policy: of :func:`pointer_policy`
    :raises VerificationError: ``signature-invalid``
    """
    try:
        if len(bundle) > LIMIT:
            raise malformed(f"it has {len(bundle)} bytes; a pointer has {LIMIT} at most")
        payload, _ = verify_payload(bundle, policy, trust)
        statement = read_statement(payload)
        check_predicate(statement, POINTER_TYPE)
        try:
            pointer = convert(parse_json(payload).get("predicate"), Pointer)
        except MalformedError as error:
            raise malformed(f"its predicate can't be read: {error}") from error
        if statement.subjects != (pointer.subject,):
            raise malformed(f"its statement is not about {pointer.tag} alone")
        if pointer.repository != policy.repository:
            raise malformed(f"it is about {pointer.repository}, and {policy.repository} signed it")
    except VerificationError as error:
        error.what = f"the signed pointer to the newest snapshot is not to be trusted: {error.what}"
        raise
    return pointer


def check_time(pointer: Pointer, now: datetime, *, where: str) -> None:
    """Check that a pointer is neither of the future nor expired.

    :param now: by this machine's clock: a mirror can set its own as it likes
    :param where: it was read
    :raises VerificationError: ``latest-stale``
    """
    if pointer.issued_at > now + SKEW:
        raise VerificationError(
            "latest-stale",
            "the signed pointer to the newest snapshot is from the future",
            where=where,
            why=f"it is dated {pointer.issued}, and this machine's clock says {format_time(now)}",
            remedy="set this machine's clock",
        )
    if now > pointer.expires_at + SKEW:
        raise stale(
            f"the signed pointer to the newest snapshot expired on {pointer.expires}",
            where=where,
            why=f"it names {pointer.tag} and is dated {pointer.issued}; this machine's clock says {format_time(now)}",
        )


def stale(what: str, *, where: str, why: str) -> VerificationError:
    """The error for a place that does not prove which snapshot is the newest."""
    return VerificationError(
        "latest-stale",
        what,
        where=where,
        why=f"{why}. Someone may be withholding newer releases, or nobody has updated this place",
        remedy="name the tag of a snapshot; a mirror's operators run `mlir-release mirror` again, the repository's "
        'look at latest.yml (docs/operating.md, "The signed latest"); check this machine\'s clock, too',
    )
