"""A signed pointer is never the provenance of a file."""

from __future__ import annotations

from functools import partial

import pytest

from mlir_release.release.provenance.pointer import POINTER_TYPE, Pointer, pointer_policy, verify_pointer
from mlir_release.release.provenance.policy import SignerPolicy, Subject
from mlir_release.release.provenance.verify import verify_file
from tests.refusals import refused
from tests.sigstore.instance import COMMIT, REPOSITORY, MadeSigstore, branch_claims, statement_of, workflow_claims

TAG = "snapshot-20261120.01"
URL = f"https://github.com/{REPOSITORY}"
DIGEST = "1" * 64
POLICY = SignerPolicy(repository=URL, tag=TAG, commit=COMMIT)
POINTER = Pointer(
    repository=URL,
    tag=TAG,
    commit=COMMIT,
    manifest=DIGEST,
    issued="2026-11-20T12:00:00Z",
    expires="2026-12-04T12:00:00Z",
)


@pytest.fixture(scope="module")
def made() -> MadeSigstore:
    return MadeSigstore()


@pytest.mark.parametrize("name", ["release.json", "mlir-1-py3-none-any.whl", TAG])
def test_a_pointer_is_accepted_as_the_provenance_of_no_file(made: MadeSigstore, name: str) -> None:
    bundle = made.bundle(POINTER.statement(), branch_claims())
    assert verify_pointer(bundle, pointer_policy(URL, "main"), made.trust()) == POINTER
    refused(lambda: verify_file(Subject(name=name, sha256=DIGEST), bundle, POLICY, made.trust()), "signature-invalid")


@pytest.mark.parametrize("name", ["release.json", "mlir-1-py3-none-any.whl"])
def test_nor_would_be_one_that_the_run_of_a_release_signed_about_that_very_file(made: MadeSigstore, name: str) -> None:
    bundle = made.bundle(statement_of((name, DIGEST), predicate_type=POINTER_TYPE), workflow_claims(TAG))
    refused(lambda: verify_file(Subject(name=name, sha256=DIGEST), bundle, POLICY, made.trust()), "signature-invalid")


def test_the_provenance_of_a_file_is_accepted_as_no_pointer_wherever_it_was_signed(made: MadeSigstore) -> None:
    for claims, what in (
        (workflow_claims(TAG), "it was signed in a run on another branch or tag"),
        (branch_claims(), "what was signed is a statement of another kind"),
    ):
        bundle = made.bundle(statement_of((TAG, DIGEST)), claims)
        refused(partial(verify_pointer, bundle, pointer_policy(URL, "main"), made.trust()), "signature-invalid", what)


def test_a_pointer_whose_signature_is_changed_is_refused(made: MadeSigstore) -> None:
    bundle = made.bundle(POINTER.statement(), branch_claims())
    other = made.bundle(statement_of((TAG, DIGEST)), branch_claims())
    import json

    mixed = json.loads(bundle)
    mixed["dsseEnvelope"]["payload"] = json.loads(other)["dsseEnvelope"]["payload"]
    refused(
        lambda: verify_pointer(json.dumps(mixed).encode(), pointer_policy(URL, "main"), made.trust()),
        "signature-invalid",
        "its signature, or the record of it in the transparency log, does not verify",
    )
