"""An authority like Fulcio, with a log of its certificates: both keys are in the trusted root that belongs to them.

Source: github.com/sigstore/fulcio, docs/oid-info.md and docs/certificate-specification.md; RFC 6962 for the SCT.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Mapping

_FULCIO = "1.3.6.1.4.1.57264.1"
_SCT_LIST = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
ECDSA = ec.ECDSA(hashes.SHA256())


def new_key() -> ec.EllipticCurvePrivateKey:
    """A key as all parts here have."""
    return ec.generate_private_key(ec.SECP256R1())


def der_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Its public half."""
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def id_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """What logs call themselves: the digest of the public key."""
    return sha256(der_of(key)).digest()


def extensions_of(claims: Mapping[str, str]) -> dict[int, str]:
    """What Fulcio writes into a certificate for the claims of a GitHub workflow, by the last number of the OID."""
    server = claims.get("server", "https://github.com")
    repository = f"{server}/{claims['repository']}"
    return {
        8: claims["iss"],
        9: f"{server}/{claims['job_workflow_ref']}",
        10: claims["job_workflow_sha"],
        11: claims["runner_environment"],
        12: repository,
        13: claims["sha"],
        14: claims["ref"],
        15: claims["repository_id"],
        16: f"{server}/{claims['repository_owner']}",
        17: claims["repository_owner_id"],
        18: f"{server}/{claims['workflow_ref']}",
        19: claims["workflow_sha"],
        20: claims["event_name"],
        21: f"{repository}/actions/runs/{claims['run_id']}/attempts/{claims['run_attempt']}",
        22: claims["repository_visibility"],
    }


class Authority:
    """A root, an intermediate that issues certificates of ``lifetime``, and the key of their log."""

    def __init__(self, now: datetime) -> None:
        begin = now - timedelta(days=365)
        self.ct_key = new_key()
        self._root_key, self._key = new_key(), new_key()
        root = _name("made-sigstore")
        self.root = _ca(root, root, self._root_key.public_key(), self._root_key, begin, length=1)
        name = _name("made-sigstore-intermediate")
        self.certificate = _ca(name, root, self._key.public_key(), self._root_key, begin, length=0)
        self.begin = begin
        self.lifetime = timedelta(minutes=10)

    def issue(self, public_key: ec.EllipticCurvePublicKey, claims: Mapping[str, str], now: datetime) -> list[bytes]:
        """A certificate for a workflow's claims, with its timestamp of the log; and the chain above it. PEM."""
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.certificate.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(seconds=1))
            .not_valid_after(now + self.lifetime)
        )
        for extension, critical in self._extensions(public_key, claims):
            builder = builder.add_extension(extension, critical)
        early = builder.sign(self._key, hashes.SHA256())
        stamp = x509.UnrecognizedExtension(_SCT_LIST, self._timestamp(early.tbs_certificate_bytes, now))
        leaf = builder.add_extension(stamp, critical=False).sign(self._key, hashes.SHA256())
        return [certificate.public_bytes(Encoding.PEM) for certificate in (leaf, self.certificate, self.root)]

    def _extensions(
        self, public_key: ec.EllipticCurvePublicKey, claims: Mapping[str, str]
    ) -> list[tuple[x509.ExtensionType, bool]]:
        said = extensions_of(claims)
        usage = [ExtendedKeyUsageOID.CODE_SIGNING]
        return [
            (_usage(digital_signature=True), True),
            (x509.ExtendedKeyUsage(usage), False),
            (x509.SubjectKeyIdentifier.from_public_key(public_key), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
            (x509.SubjectAlternativeName([x509.UniformResourceIdentifier(said[9])]), True),
            (x509.UnrecognizedExtension(x509.ObjectIdentifier(f"{_FULCIO}.1"), claims["iss"].encode()), False),
            *(
                (x509.UnrecognizedExtension(x509.ObjectIdentifier(f"{_FULCIO}.{n}"), asn1.encode_der(text)), False)
                for n, text in said.items()
            ),
        ]

    def _timestamp(self, certificate: bytes, now: datetime) -> bytes:
        """The extension that holds a log's promise (RFC 6962, 3.2 and 3.3)."""
        millis = int(now.timestamp() * 1000)
        entry = sha256(der_of(self._key)).digest() + len(certificate).to_bytes(3) + certificate
        signed = struct.pack(f"!BBQH{len(entry)}sH", 0, 0, millis, 1, entry, 0)
        signature = self.ct_key.sign(signed, ECDSA)
        stamp = struct.pack(
            f"!B32sQHBBH{len(signature)}s", 0, id_of(self.ct_key), millis, 0, 4, 3, len(signature), signature
        )
        listed = len(stamp).to_bytes(2) + stamp
        return asn1.encode_der(len(listed).to_bytes(2) + listed)


def _name(text: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "made"), x509.NameAttribute(NameOID.COMMON_NAME, text)]
    )


def _usage(**wanted: bool) -> x509.KeyUsage:
    names = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: wanted.get(name, False) for name in names})


def _ca(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    key: ec.EllipticCurvePrivateKey,
    begin: datetime,
    **constraints: Any,
) -> x509.Certificate:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(datetime.now(UTC) + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=constraints["length"]), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
