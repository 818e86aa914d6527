"""Read Sigstore bundles and the statements in them. Nothing is verified here."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from mlir_release.ground.documents.decode import MalformedError, from_json, parse_json
from mlir_release.ground.errors import VerificationError
from mlir_release.release.provenance.policy import REVISION_NAME, Statement, Subject

if TYPE_CHECKING:
    from sigstore.models import Bundle

#: Type of the payload of an envelope that holds a statement.
PAYLOAD_TYPE = "application/vnd.in-toto+json"
#: Type of a statement.
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


class _Envelope(Struct, frozen=True):
    payload: str


class _Bundle(Struct, frozen=True):
    envelope: _Envelope = field(name="dsseEnvelope")


class _Subject(Struct, frozen=True):
    digest: dict[str, str]
    name: str = ""


class _Source(Struct, frozen=True):
    digest: dict[str, str] = {}
    name: str = ""


class _Definition(Struct, frozen=True):
    sources: tuple[_Source, ...] = field(name="resolvedDependencies", default=())


class _Predicate(Struct, frozen=True):
    definition: _Definition = field(name="buildDefinition", default=_Definition())


class _Statement(Struct, frozen=True):
    """``in-toto.io/Statement/v1``: the fields that decisions depend on."""

    type: Literal["https://in-toto.io/Statement/v1"] = field(name="_type")
    predicate_type: str = field(name="predicateType")
    subject: tuple[_Subject, ...]
    predicate: _Predicate | None = None


def is_about(bundle: bytes, sha256: str) -> bool:
    """Whether a bundle claims to be about one file with that digest. This check is not proof.

    Returns False if the data isn't a bundle.
    """
    try:
        envelope = from_json(bundle, _Bundle).envelope
        statement = read_statement(base64.b64decode(envelope.payload, validate=True))
    except (VerificationError, ValueError):
        return False
    return [subject.sha256 for subject in statement.subjects] == [sha256]


def read_statement(payload: bytes) -> Statement:
    """Read an in-toto statement. :raises VerificationError: ``signature-invalid``"""
    try:
        found = from_json(payload, _Statement)
    except MalformedError as error:
        raise malformed(f"its statement can't be read: {error}") from error
    subjects = (Subject(name=each.name, sha256=each.digest.get("sha256", "")) for each in found.subject)
    sources = found.predicate.definition.sources if found.predicate is not None else ()
    revision = next((each.digest.get("gitCommit", "") for each in sources if each.name == REVISION_NAME), "")
    return Statement(predicate_type=found.predicate_type, subjects=tuple(subjects), revision=revision)


def parse_bundle(content: bytes) -> Bundle:
    """A Sigstore bundle. :raises VerificationError: ``signature-invalid``"""
    from sigstore.models import Bundle

    try:
        parse_json(content)  # for its bounds; sigstore-python decides whether this is a bundle
        return Bundle.from_json(content)
    except Exception as error:  # whatever another's content makes a parser raise
        raise malformed(str(error)) from error


def malformed(why: str) -> VerificationError:
    """The error for a bundle that can't be read."""
    return VerificationError(
        "signature-invalid",
        "its bundle can't be read",
        why=why,
        remedy="fetch the bundle again (it is the asset FILE.sigstore.json of the release); if it is the same, do not "
        "use the file",
    )
