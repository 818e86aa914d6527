"""The one verification of signed files, over sigstore-python: by the bundle beside a file, offline if need be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlir_release.errors import ReleaseError, VerificationError
from mlir_release.model.decode import parse_json
from mlir_release.model.digests import sha256_of
from mlir_release.provenance.bundle import PAYLOAD_TYPE, malformed, parse_bundle, read_statement
from mlir_release.provenance.policy import Policy, Signer, Subject, check_signer, check_statement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from cryptography.x509 import Certificate
    from sigstore.models import Bundle

    from mlir_release.provenance.trust import Trust


def verify_file(file: Path | Subject, bundle: bytes | None, policy: Policy, trust: Trust) -> Signer:
    """Check that the release process signed a file. Returns what the certificate says of the run that did.

    :param file: a file, or its name and digest
    :param bundle: the content of the bundle beside it; None if there is none
    :raises VerificationError: ``signature-invalid``, one id for each thing that is wrong; it names the file
    """
    subject = file if isinstance(file, Subject) else Subject(name=file.name, sha256=sha256_of(file))
    try:
        return _verify(subject, bundle, policy, trust)
    except VerificationError as error:
        error.where = error.where or subject.name
        error.what = f"{subject.name} is not to be trusted: {error.what}"
        raise


def _verify(subject: Subject, bundle: bytes | None, policy: Policy, trust: Trust) -> Signer:
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


def verify_payload(bundle: bytes, policy: Policy, trust: Trust) -> tuple[bytes, Signer]:
    """The statement in a bundle, once it is proven who signed it, and who did. What it says is for the caller to check.

    :raises VerificationError: ``signature-invalid``
    """
    signed = _Signed(parse_bundle(bundle), policy)
    payload_type, payload = signed.payload(trust)
    if payload_type != PAYLOAD_TYPE:
        raise malformed(f"what is signed is a {payload_type}, not a {PAYLOAD_TYPE}")
    return payload, signed.signer


@dataclass
class _Signed:
    """A bundle that is verified. It is the policy that sigstore calls once the certificate's chain is proven."""

    bundle: Bundle
    policy: Policy

    @property
    def signer(self) -> Signer:
        return read_signer(self.bundle.signing_certificate)

    def verify(self, cert: Certificate) -> None:
        """See ``sigstore.verify.policy.VerificationPolicy``."""
        check_signer(read_signer(cert), self.policy)

    def payload(self, trust: Trust) -> tuple[str, bytes]:
        """The type and the bytes of what was signed, once one of the roots proves it."""
        from sigstore.errors import CertValidationError, Error
        from sigstore.verify import Verifier

        why = "no root of trust is given"
        for root in trust.roots:
            try:
                return Verifier(trusted_root=root).verify_dsse(self.bundle, self)
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
        raise self._untrusted(why)

    def _untrusted(self, why: str) -> VerificationError:
        certificate = self.bundle.signing_certificate
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        late = [time for time in _times(self.bundle) if not begin <= time <= end]
        if late:
            return VerificationError(
                "signature-invalid",
                "it was signed when the certificate was not valid",
                why=f"signed at {late[0]:%Y-%m-%dT%H:%M:%SZ}, valid from {begin:%H:%M:%S} to {end:%H:%M:%SZ}",
                remedy="do not use the file: someone signed it later, with a key that should be gone",
            )
        return VerificationError(
            "signature-invalid",
            "its certificate is from no authority that is trusted",
            why=why,
            remedy="do not use the file; if its repository has a Sigstore of its own, give that one's root with "
            "--trusted-root",
        )


def _times(bundle: Bundle) -> Iterator[datetime]:
    """When a bundle says that it was signed: by the log, and by timestamp authorities."""
    from datetime import UTC, datetime

    # sigstore-python has no public property for the log's time; the bundle's format, which it writes, has.
    for entry in parse_json(bundle.to_json())["verificationMaterial"]["tlogEntries"]:
        if integrated := int(entry.get("integratedTime") or 0):
            yield datetime.fromtimestamp(integrated, tz=UTC)
    if stamps := bundle.verification_material.timestamp_verification_data:
        yield from (stamp.tst_info.gen_time for stamp in stamps.rfc3161_timestamps)


def read_signer(certificate: Certificate) -> Signer:
    """What a certificate says of the run. What it does not say is empty, and then no policy accepts it."""
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
    """The value of one of Fulcio's extensions, a DER-encoded UTF8String; empty if there is none."""
    from cryptography.hazmat import asn1
    from cryptography.x509 import ExtensionNotFound, UnrecognizedExtension

    try:
        value = certificate.extensions.get_extension_for_oid(kind.oid).value  # type: ignore[attr-defined]
        assert isinstance(value, UnrecognizedExtension)
        return asn1.decode_der(str, value.value)
    except (ExtensionNotFound, ValueError):
        return ""
