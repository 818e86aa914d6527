"""The provenance file of a distribution, as package indexes serve it (PEP 740), made from its Sigstore bundle."""

from __future__ import annotations

from mlir_release.release.provenance.bundle import parse_bundle
from mlir_release.release.provenance.verify import read_signer


def publish_provenance(bundle: bytes) -> bytes:
    """The provenance object of a bundle that was verified: who published, and the attestation.

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
