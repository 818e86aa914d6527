"""What a bundle is about, read without verifying anything: to see which bundles belong to which files."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from mlir_release.errors import VerificationError
from mlir_release.provenance.policy import REVISION_NAME, Statement, Subject

#: Type of the payload of an envelope that holds a statement.
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"


def is_about(bundle: bytes, sha256: str) -> bool:
    """Whether a bundle claims to be about one file with that digest. It proves nothing; False for what is no bundle."""
    try:
        envelope = json.loads(bundle)["dsseEnvelope"]
        statement = read_statement(base64.b64decode(envelope["payload"], validate=True))
    except (VerificationError, ValueError, KeyError, TypeError, binascii.Error):
        return False
    return [subject.sha256 for subject in statement.subjects] == [sha256]


def read_statement(payload: bytes) -> Statement:
    """Read an in-toto statement. :raises VerificationError: ``provenance-malformed``"""
    try:
        data: dict[str, Any] = json.loads(payload)
        if data["_type"] != _STATEMENT_TYPE:
            raise malformed(f"it is a {data['_type']}, not a {_STATEMENT_TYPE}")
        return Statement(
            predicate_type=str(data["predicateType"]),
            subjects=tuple(
                Subject(name=str(subject.get("name", "")), sha256=str(subject["digest"].get("sha256", "")))
                for subject in data["subject"]
            ),
            revision=_revision(data.get("predicate")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise malformed(f"its statement can't be read: {error!r}") from error


def _revision(predicate: Any) -> str:
    """The llvm-project commit that a predicate names among what was built from; empty if it names none."""
    definition = predicate.get("buildDefinition", {}) if isinstance(predicate, dict) else {}
    for source in definition.get("resolvedDependencies", ()):
        if source.get("name") == REVISION_NAME:
            return str(source["digest"]["gitCommit"])
    return ""


def malformed(why: str) -> VerificationError:
    """The error for a bundle that can't be read."""
    return VerificationError(
        "provenance-malformed",
        "its bundle can't be read",
        why=why,
        remedy="fetch the bundle again (it is the asset FILE.sigstore.json of the release); if it is the same, do not "
        "use the file",
    )
