"""Verify signed files by the bundles beside them, with sigstore-python; offline if need be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import ReleaseError, VerificationError
from mlir_release.release.provenance.bundle import PAYLOAD_TYPE, malformed, parse_bundle, read_statement
from mlir_release.release.provenance.policy import Signer, SignerPolicy, Subject, check_signer, check_statement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cryptography.x509 import Certificate
    from sigstore.models import Bundle

    from mlir_release.release.provenance.trust import Trust


class _SignerCheck:
    """Our policy as sigstore-python calls it, once the chain of the certificate is proven."""

    def __init__(self, policy: SignerPolicy) -> None:
        self._policy = policy

    def verify(self, cert: Certificate) -> None:
        """See ``sigstore.verify.policy.VerificationPolicy``."""
        check_signer(read_signer(cert), self._policy)


def verify_file(file: Path | Subject, bundle: bytes | None, policy: SignerPolicy, trust: Trust) -> Signer:
    """Check that the release process signed a file. Returns the certificate's facts about the signing run.

    :param file: a file, or its name and digest
    :param bundle: the content of the bundle beside it; None if it has no bundle
    :raises VerificationError: ``signature-invalid``, ``provenance-missing``; it names the file
    """
    subject = file if isinstance(file, Subject) else Subject(name=file.name, sha256=sha256_of(file))
    try:
        if bundle is None:
            raise VerificationError(
                "provenance-missing",
                "nobody signed it",
                why="there is no bundle beside it",
                remedy="fetch the asset FILE.sigstore.json of the release; if there is none, do not use the file",
            )
        payload, signer = verify_payload(bundle, policy, trust)
        statement = read_statement(payload)
        check_statement(statement, subject, policy)
        return replace(signer, revision=statement.revision)
    except VerificationError as error:
        error.where = error.where or subject.name
        error.what = f"{subject.name} is not to be trusted: {error.what}"
        raise


def verify_payload(bundle: bytes, policy: SignerPolicy, trust: Trust) -> tuple[bytes, Signer]:
    """Prove who signed a bundle; returns its statement, which the caller has to check, and the signer.

    :raises VerificationError: ``signature-invalid``
    """
    signed = parse_bundle(bundle)
    payload_type, payload = _prove(signed, policy, trust)
    if payload_type != PAYLOAD_TYPE:
        raise malformed(f"what is signed is a {payload_type}, not a {PAYLOAD_TYPE}")
    return payload, read_signer(signed.signing_certificate)


def _prove(bundle: Bundle, policy: SignerPolicy, trust: Trust) -> tuple[str, bytes]:
    """The type and the bytes of the signed statement, once one of the roots proves it."""
    from sigstore.errors import CertValidationError, Error
    from sigstore.verify import Verifier

    why = "no root of trust is given"
    for root in trust.roots:
        try:
            return Verifier(trusted_root=root).verify_dsse(bundle, _SignerCheck(policy))
        except CertValidationError as error:
            why = str(error)
        except Error as error:
            raise VerificationError(
                "signature-invalid",
                "its signature, or the record of it in the transparency log, does not verify",
                why=str(error),
                remedy="do not use the file: the bundle was changed after it was made",
            ) from error
        except ReleaseError:  # of the policy
            raise
        except Exception as error:  # whatever another's content makes a parser of certificates or logs raise
            raise malformed(f"{type(error).__name__}: {error}") from error
    certificate = bundle.signing_certificate
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if late := [time for time in _times(bundle) if not begin <= time <= end]:
        raise VerificationError(
            "signature-invalid",
            "it was signed when the certificate was not valid",
            why=f"signed at {late[0]:%Y-%m-%dT%H:%M:%SZ}, valid from {begin:%H:%M:%S} to {end:%H:%M:%SZ}",
            remedy="do not use the file: someone signed it later, with a key that should be gone",
        )
    raise VerificationError(
        "signature-invalid",
        "its certificate is from no authority that is trusted",
        why=why,
        remedy="do not use the file; if its repository has a Sigstore of its own, give that one's root with "
        "--trusted-root",
    )


def _times(bundle: Bundle) -> Iterator[datetime]:
    """When a bundle says that it was signed: by the log, and by timestamp authorities."""
    # sigstore-python has no public property for the log's time; the bundle's format, which it writes, has.
    for entry in parse_json(bundle.to_json())["verificationMaterial"]["tlogEntries"]:
        if integrated := int(entry.get("integratedTime") or 0):
            yield datetime.fromtimestamp(integrated, tz=UTC)
    if stamps := bundle.verification_material.timestamp_verification_data:
        yield from (stamp.tst_info.gen_time for stamp in stamps.rfc3161_timestamps)


def read_signer(certificate: Certificate) -> Signer:
    """The run that a certificate names. A field that it lacks is empty, and then no policy accepts it."""
    from sigstore.verify import policy as extensions

    return Signer(
        issuer=_extension(certificate, extensions.OIDCIssuerV2),
        workflow=_extension(certificate, extensions.OIDCBuildSignerURI),
        repository=_extension(certificate, extensions.OIDCSourceRepositoryURI),
        ref=_extension(certificate, extensions.OIDCSourceRepositoryRef),
        commit=_extension(certificate, extensions.OIDCSourceRepositoryDigest),
        runner=_extension(certificate, extensions.OIDCRunnerEnvironment),
        caller=_extension(certificate, extensions.OIDCBuildConfigURI),
        run=_extension(certificate, extensions.OIDCRunInvocationURI),
    )


def _extension(certificate: Certificate, kind: type) -> str:
    """The value of one of Fulcio's extensions, a DER-encoded UTF8String; empty if the certificate lacks it."""
    from cryptography.hazmat import asn1
    from cryptography.x509 import ExtensionNotFound, UnrecognizedExtension

    try:
        value = certificate.extensions.get_extension_for_oid(kind.oid).value  # type: ignore[attr-defined]
        assert isinstance(value, UnrecognizedExtension)
        return asn1.decode_der(str, value.value)
    except (ExtensionNotFound, ValueError):
        return ""


def publish_provenance(bundle: bytes) -> bytes:
    """The provenance file of a distribution, as indexes serve it (PEP 740), made from its bundle, which was verified.

    The publisher is the run's top-level workflow, as it is for PyPI's trusted publishing.
    """
    from pypi_attestations import Attestation, AttestationBundle, GitHubPublisher, Provenance

    signed = parse_bundle(bundle)
    signer = read_signer(signed.signing_certificate)
    publisher = GitHubPublisher(
        repository="/".join(signer.repository.split("/")[-2:]),
        workflow=signer.caller.partition("@")[0].rpartition("/")[2],
    )
    attested = AttestationBundle(publisher=publisher, attestations=[Attestation.from_bundle(signed)])
    return Provenance(attestation_bundles=[attested]).model_dump_json().encode()
