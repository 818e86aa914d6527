"""The provenance file of a distribution, as package indexes serve it (PEP 740), made from its Sigstore bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.provenance.bundle import parse_bundle
from mlir_release.provenance.verify import read_signer

if TYPE_CHECKING:
    from sigstore.models import Bundle


def publish_provenance(bundle: bytes) -> bytes:
    """The provenance object of a bundle that was verified: who published, and the attestation.

    The publisher is the run's top-level workflow, as it is for PyPI's trusted publishing.
    """
    from pypi_attestations import Attestation, AttestationBundle, GitHubPublisher, Provenance

    signed = parse_bundle(bundle)
    repository, workflow = _publisher(signed)
    return (
        Provenance(
            attestation_bundles=[
                AttestationBundle(
                    publisher=GitHubPublisher(repository=repository, workflow=workflow),
                    attestations=[Attestation.from_bundle(signed)],
                )
            ]
        )
        .model_dump_json()
        .encode()
    )


def _publisher(bundle: Bundle) -> tuple[str, str]:
    """``OWNER/NAME`` and the workflow's file name, from the certificate."""
    signer = read_signer(bundle.signing_certificate)
    owner, name = signer.repository.split("/")[-2:]
    return f"{owner}/{name}", signer.caller.partition("@")[0].rpartition("/")[2]
