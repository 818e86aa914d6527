"""The parts together: an issuer of workflows' identities, an authority, a log, and the roots that trust them."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from sigstore_models.trustroot.v1 import TrustedRoot as Document

from mlir_release.release.provenance.policy import ISSUER, PREDICATE_TYPE, SIGNER_WORKFLOW
from mlir_release.release.provenance.trust import Trust
from sigstore._internal.fulcio.client import FulcioCertificateSigningResponse
from sigstore._internal.rekor.client import RekorClient
from sigstore.dsse import Statement
from sigstore.models import TransparencyLogEntry, TrustedRoot
from sigstore.oidc import IdentityToken
from sigstore.sign import SigningContext
from tests.sigstore.authority import Authority, der_of, id_of, new_key
from tests.sigstore.log import Log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.x509 import CertificateSigningRequest

REPOSITORY = "octo/releases"
COMMIT = "c" * 40


def workflow_claims(
    tag: str = "snapshot-20261120.01", *, repository: str = REPOSITORY, commit: str = COMMIT, **changes: str
) -> dict[str, str]:
    """What GitHub says about the run of ``release.yml`` on a tag that has called ``attest.yml`` of ``main``.

    Source: docs.github.com, "OpenID Connect reference".
    """
    return {
        "iss": ISSUER,
        "sub": f"repo:{repository}:ref:refs/tags/{tag}",
        "repository": repository,
        "repository_id": "101",
        "repository_owner": repository.partition("/")[0],
        "repository_owner_id": "202",
        "repository_visibility": "public",
        "ref": f"refs/tags/{tag}",
        "sha": commit,
        "workflow": "Release",
        "workflow_ref": f"{repository}/.github/workflows/release.yml@refs/tags/{tag}",
        "workflow_sha": commit,
        "job_workflow_ref": f"{repository}/{SIGNER_WORKFLOW}@refs/heads/main",
        "job_workflow_sha": "d" * 40,
        "event_name": "workflow_dispatch",
        "run_id": "7",
        "run_attempt": "1",
        "runner_environment": "github-hosted",
    } | changes


def branch_claims(branch: str = "main", **changes: str) -> dict[str, str]:
    """The same of a run of ``latest.yml`` on a branch."""
    repository = changes.get("repository", REPOSITORY)
    ref = f"refs/heads/{branch}"
    return workflow_claims(
        **{
            "sub": f"repo:{repository}:ref:{ref}",
            "ref": ref,
            "workflow": "Latest",
            "workflow_ref": f"{repository}/.github/workflows/latest.yml@{ref}",
        }
        | changes
    )


def statement_of(*files: tuple[str, str], predicate_type: str = PREDICATE_TYPE) -> dict[str, Any]:
    """A statement about files: name, SHA-256."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in files],
        "predicateType": predicate_type,
        "predicate": {"buildDefinition": {}, "runDetails": {}},
    }


class MadeSigstore:
    """An instance. :meth:`bundle` signs with sigstore's own signer; only the services are ours.

    :param late: how much later than it was the log dates what it records
    """

    def __init__(self, *, late: timedelta = timedelta()) -> None:
        self.authority = Authority(datetime.now(UTC))
        self.log = Log()
        self.late = late
        self._issuer_key = new_key()

    # -- the services -----------------------------------------------------------------------------------------------

    def token(self, claims: Mapping[str, str], *, audience: str = "sigstore") -> str:
        """The identity token of a run, for five minutes."""
        now = int(datetime.now(UTC).timestamp())
        whole = {**claims, "aud": audience, "iat": now, "nbf": now, "exp": now + 300}
        return jwt.encode(whole, self._issuer_key, algorithm="ES256")

    def certify(self, request: CertificateSigningRequest, token: str) -> list[bytes]:
        """A certificate and its chain, PEM, for whom a token of ours names. :raises jwt.InvalidTokenError:"""
        claims = jwt.decode(token, self._issuer_key.public_key(), algorithms=["ES256"], audience="sigstore")
        key = request.public_key()
        assert request.is_signature_valid
        assert isinstance(key, ec.EllipticCurvePublicKey)
        return self.authority.issue(key, claims, datetime.now(UTC))

    def record(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """An entry of the log, as Rekor answers."""
        return self.log.add(request, datetime.now(UTC) + self.late)

    # -- the roots --------------------------------------------------------------------------------------------------

    def trusted_root(self) -> dict[str, Any]:
        """As ``gh attestation trusted-root`` prints it."""
        start = {"start": f"{self.authority.begin:%Y-%m-%dT%H:%M:%SZ}"}

        def log(url: str, key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
            public = {
                "rawBytes": base64.b64encode(der_of(key)).decode(),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": start,
            }
            name = {"keyId": base64.b64encode(id_of(key)).decode()}
            return {"baseUrl": url, "hashAlgorithm": "SHA2_256", "publicKey": public, "logId": name}

        chain = [self.authority.certificate, self.authority.root]
        certificates = [{"rawBytes": base64.b64encode(one.public_bytes(Encoding.DER)).decode()} for one in chain]
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log("https://log.made.example", self.log.key)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "made", "commonName": "made-sigstore"},
                    "uri": "https://fulcio.made.example",
                    "certChain": {"certificates": certificates},
                    "validFor": start,
                }
            ],
            "ctlogs": [log("https://ct.made.example", self.authority.ct_key)],
            "timestampAuthorities": [],
        }

    def trust(self) -> Trust:
        """For :func:`mlir_release.release.provenance.verify.verify_file`."""
        return Trust([TrustedRoot(Document.from_json(json.dumps(self.trusted_root())))])

    def client_config(self, url: str) -> dict[str, Any]:
        """The trust configuration of a client: the services at ``url``, and the trusted root."""
        service = {
            "url": url,
            "majorApiVersion": 1,
            "validFor": {"start": "2020-01-01T00:00:00Z"},
            "operator": "made.example",
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.trusted_root(),
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": [service],
                "oidcUrls": [service],
                "rekorTlogUrls": [service],
                "tsaUrls": [],
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaConfig": {"selector": "ANY"},
            },
        }

    # -- bundles ----------------------------------------------------------------------------------------------------

    def bundle(self, statement: Mapping[str, Any], claims: Mapping[str, str] | None = None) -> bytes:
        """Sign a statement as a run with these claims would; default: :func:`workflow_claims`."""
        token = IdentityToken(self.token(claims if claims is not None else workflow_claims()))
        root = TrustedRoot(Document.from_json(json.dumps(self.trusted_root())))
        context = SigningContext(fulcio=_Fulcio(self), rekor=_Rekor(self), trusted_root=root)  # type: ignore[arg-type]
        with context.signer(token) as signer:
            return signer.sign_dsse(Statement(json.dumps(statement).encode())).to_json().encode()


class _Fulcio:
    """Sigstore's client of the authority, without a connection."""

    def __init__(self, made: MadeSigstore) -> None:
        self._made = made
        self.signing_cert = self

    def post(self, request: CertificateSigningRequest, identity: IdentityToken) -> FulcioCertificateSigningResponse:
        leaf, *chain = map(x509.load_pem_x509_certificate, self._made.certify(request, str(identity)))
        return FulcioCertificateSigningResponse(leaf, chain)


class _Rekor(RekorClient):
    """Sigstore's client of the log, without a connection."""

    def __init__(self, made: MadeSigstore) -> None:
        super().__init__("https://log.made.example")
        self._made = made

    def create_entry(self, request: Any) -> TransparencyLogEntry:
        return TransparencyLogEntry._from_v1_response(self._made.record(request))
