from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sigstore

from mlir_release.ground.errors import UsageError
from mlir_release.release.provenance.bundle import is_about
from mlir_release.release.provenance.policy import SignerPolicy, Subject, check_signer
from mlir_release.release.provenance.trust import TRUST_VARIABLE, load_trust, signing_config
from mlir_release.release.provenance.verify import verify_file
from tests.refusals import refused
from tests.sigstore.instance import COMMIT, MadeSigstore, statement_of, workflow_claims

if TYPE_CHECKING:
    from collections.abc import Callable

TAG = "snapshot-20261120.01"
NAME, DIGEST = "a.whl", "a" * 64
FILE = Subject(name=NAME, sha256=DIGEST)
POLICY = SignerPolicy(repository="https://github.com/octo/releases", tag=TAG, commit=COMMIT)
REAL = Path(__file__).parent / "data" / "github_provenance_demo-0.0.0-py3-none-any.whl.sigstore.json"
#: Sigstore's production root, as the package carries it.
ROOT = Path(sigstore.__file__).parent / "_store" / "https%3A%2F%2Ftuf-repo-cdn.sigstore.dev" / "trusted_root.json"

UNPROVEN = "its signature, or the record of it in the transparency log, does not verify"
NO_AUTHORITY = "its certificate is from no authority that is trusted"


@pytest.fixture(scope="module")
def made() -> MadeSigstore:
    return MadeSigstore()


@pytest.fixture(scope="module")
def bundle(made: MadeSigstore) -> bytes:
    return made.bundle(statement_of((NAME, DIGEST)))


def refusal(bundle: bytes | None, made: MadeSigstore, *, file: Subject = FILE, policy: SignerPolicy = POLICY) -> str:
    """What is said of a file that is refused."""
    id = "signature-invalid" if bundle is not None else "provenance-missing"
    error = refused(lambda: verify_file(file, bundle, policy, made.trust()), id, file.name)
    assert error.where == file.name
    return error.what.removeprefix(f"{file.name} is not to be trusted: ")


# -- a real bundle, made on GitHub by a reusable workflow and verified with Sigstore's own root ----------------------


def test_a_real_bundle_of_a_reusable_workflow_is_proven_offline() -> None:
    """What signed it is another workflow than ours, so all is proven up to that: chain, log, signature come first."""
    file = Subject(name=REAL.name.removesuffix(".sigstore.json"), sha256="49a3aa60" + "0" * 56)
    policy = SignerPolicy(repository="https://github.com/malancas/attest-demo")
    error = refused(lambda: verify_file(file, REAL.read_bytes(), policy, load_trust(ROOT)), "signature-invalid")
    assert "github/artifact-attestations-workflows/.github/workflows/attest.yml" in error.why


@pytest.fixture
def anyone(monkeypatch: pytest.MonkeyPatch) -> None:
    """May sign."""
    monkeypatch.setattr("mlir_release.release.provenance.verify.check_signer", lambda signer, policy: None)


def test_a_real_bundle_is_accepted_whole(anyone: None) -> None:
    """The same, with the one thing changed in which it differs from ours: who may sign."""
    sha = "49a3aa6075e0f49f82843e74b5baa614ad2a588e6675612bf108a0a008c5ac25"
    file = Subject(name=REAL.name.removesuffix(".sigstore.json"), sha256=sha)
    signer = verify_file(file, REAL.read_bytes(), POLICY, load_trust(ROOT))
    assert signer.issuer == "https://token.actions.githubusercontent.com"
    assert signer.workflow == (
        "https://github.com/github/artifact-attestations-workflows/.github/workflows/attest.yml"
        "@09b495c3f12c7881b3cc17209a327792065c1a1d"
    )
    assert signer.repository == "https://github.com/malancas/attest-demo"
    assert (signer.ref, signer.commit) == ("refs/heads/main", "95baf27389e83e6a5c48f42e190d48d7abcea19e")
    assert signer.runner == "github-hosted"
    assert signer.caller == "https://github.com/malancas/attest-demo/.github/workflows/shared.yml@refs/heads/main"
    assert signer.run == "https://github.com/malancas/attest-demo/actions/runs/9228858953/attempts/1"
    refused(
        lambda: verify_file(replace(file, sha256="0" * 64), REAL.read_bytes(), POLICY, load_trust(ROOT)),
        "signature-invalid",
    )


def test_a_real_bundle_that_was_changed_is_refused(anyone: None) -> None:
    document = json.loads(REAL.read_bytes())
    payload = base64.b64decode(document["dsseEnvelope"]["payload"]).replace(b"49a3aa60", b"00000000")
    document["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    refused(
        lambda: verify_file(
            Subject(name="x", sha256="0" * 64), json.dumps(document).encode(), POLICY, load_trust(ROOT)
        ),
        "signature-invalid",
        UNPROVEN,
    )


def test_a_real_bundle_counts_nothing_with_another_root(made: MadeSigstore) -> None:
    assert refusal(REAL.read_bytes(), made) == NO_AUTHORITY


# -- the made instance -----------------------------------------------------------------------------------------


def test_what_the_release_process_signed_is_accepted(made: MadeSigstore, bundle: bytes, tmp_path: Path) -> None:
    signer = verify_file(FILE, bundle, POLICY, made.trust())
    assert signer.run == "https://github.com/octo/releases/actions/runs/7/attempts/1"
    check_signer(signer, POLICY)
    path = tmp_path / "b.whl"
    path.write_bytes(b"wheel")
    about = made.bundle(statement_of(("b.whl", "b2dd4e1da6d8d4bbd7d1b0c4a0ed5b3aa8a8ed3b0b2a0ce4e4e4e4e4e4e4e4e4")))
    refused(lambda: verify_file(path, about, POLICY, made.trust()), "signature-invalid")


def test_a_bundle_says_what_it_is_about_before_it_is_verified(bundle: bytes) -> None:
    assert is_about(bundle, DIGEST)
    assert not is_about(bundle, "b" * 64)
    assert not is_about(b"{}", DIGEST)
    assert not is_about(b"[1]", DIGEST)
    assert not is_about(b"\xff", DIGEST)


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("it was signed for another repository", {"repository": "octo/fork"}),
        ("it was signed for another release", {"tag": "snapshot-20261120.02"}),
        ("it was not signed by a workflow of GitHub", {"iss": "https://gitlab.com"}),
    ],
)
def test_a_signature_of_another_run_is_refused(made: MadeSigstore, what: str, changes: dict[str, str]) -> None:
    """Every other difference: test_policy.py."""
    assert refusal(made.bundle(statement_of((NAME, DIGEST)), workflow_claims(**changes)), made).endswith(what)


def test_another_file_is_refused(made: MadeSigstore, bundle: bytes) -> None:
    other = replace(FILE, sha256="b" * 64)
    assert refusal(bundle, made, file=other) == "what was signed is another content of the file"
    assert refusal(bundle, made, file=replace(FILE, name="b.whl")) == "what was signed is another file"


def test_a_statement_about_two_files_is_refused(made: MadeSigstore) -> None:
    two = made.bundle(statement_of((NAME, DIGEST), ("b.whl", "b" * 64)))
    assert refusal(two, made) == "what was signed is not about one file"


def test_a_signature_after_the_certificate_had_expired_is_refused() -> None:
    late = MadeSigstore(late=timedelta(hours=1))
    bundle = late.bundle(statement_of((NAME, DIGEST)))
    assert refusal(bundle, late) == "it was signed when the certificate was not valid"


def test_a_root_that_is_not_trusted_proves_nothing(made: MadeSigstore, bundle: bytes) -> None:
    other = MadeSigstore()
    assert refusal(other.bundle(statement_of((NAME, DIGEST))), made) == NO_AUTHORITY
    both = replace(made.trust(), roots=[*other.trust().roots, *made.trust().roots])
    verify_file(FILE, bundle, POLICY, both)


def test_a_file_that_nobody_signed_is_refused(made: MadeSigstore) -> None:
    assert refusal(None, made) == "nobody signed it"


def changed(bundle: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(bundle)
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(mediaType="application/json"),
        lambda document: document["verificationMaterial"].pop("certificate"),
        lambda document: document["verificationMaterial"].update(tlogEntries=[]),
        lambda document: document["verificationMaterial"]["certificate"].update(rawBytes="AAAA"),
        lambda document: document["dsseEnvelope"].update(signatures=[]),
        lambda document: document.pop("dsseEnvelope"),
    ],
)
def test_a_bundle_that_lacks_something_is_refused(
    made: MadeSigstore, bundle: bytes, change: Callable[[dict[str, Any]], object]
) -> None:
    assert refusal(changed(bundle, change), made) in ("its bundle can't be read", UNPROVEN)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b"<html>", b'{"mediaType": 1}'])
def test_what_is_no_bundle_is_refused(made: MadeSigstore, content: bytes) -> None:
    assert refusal(content, made) == "its bundle can't be read"


def test_a_statement_of_another_type_is_refused(made: MadeSigstore, bundle: bytes) -> None:
    def retype(document: dict[str, Any]) -> None:
        document["dsseEnvelope"]["payloadType"] = "text/plain"

    assert refusal(changed(bundle, retype), made) == UNPROVEN


def test_a_signature_taken_from_another_bundle_is_refused(made: MadeSigstore, bundle: bytes) -> None:
    other = json.loads(made.bundle(statement_of((NAME, "b" * 64))))

    def swap(document: dict[str, Any]) -> None:
        document["dsseEnvelope"] = other["dsseEnvelope"]

    assert refusal(changed(bundle, swap), made, file=replace(FILE, sha256="b" * 64)) == UNPROVEN


def test_a_record_of_another_log_is_refused(made: MadeSigstore, bundle: bytes) -> None:
    """The certificate is of the trusted authority; its record is of a log that the root does not name."""
    twin = MadeSigstore()
    twin.authority = made.authority
    twin._issuer_key = made._issuer_key
    assert refusal(twin.bundle(statement_of((NAME, DIGEST))), made) == UNPROVEN


# -- roots of trust ----------------------------------------------------------------------------------------------------


def test_a_root_is_read_from_each_kind_of_file(made: MadeSigstore, tmp_path: Path) -> None:
    root, path = made.trusted_root(), tmp_path / "root.json"
    path.write_text(json.dumps(root, indent=1))
    assert len(load_trust(path).roots) == 1
    path.write_text(f"{json.dumps(root)}\n{json.dumps(root)}\n")
    assert len(load_trust(path).roots) == 2
    path.write_text(json.dumps(made.client_config("http://127.0.0.1:1")))
    assert len(load_trust(None, {TRUST_VARIABLE: str(path)}).roots) == 1
    assert signing_config({TRUST_VARIABLE: str(path)}).signing_config.get_fulcio().url == "http://127.0.0.1:1"


def test_githubs_own_root_is_passed_over_where_there_is_another(made: MadeSigstore, tmp_path: Path) -> None:
    root, path = made.trusted_root(), tmp_path / "root.jsonl"
    private = {**root, "tlogs": []}
    path.write_text(f"{json.dumps(root)}\n{json.dumps(private)}\n")
    assert len(load_trust(path).roots) == 1
    path.write_text(json.dumps(private))
    error = refused(lambda: load_trust(path), "input-invalid")
    assert "private" in error.why


@pytest.mark.parametrize("text", ["", "[]", "{", "1", '{"mediaType": "x", "tlogs": [{}]}', '{"tlogs": [1]}'])
def test_what_is_no_root_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "root.json"
    path.write_text(text)
    error = refused(lambda: load_trust(path), "input-invalid")
    assert error.where == str(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = refused(lambda: signing_config({TRUST_VARIABLE: str(tmp_path / "none.json")}), kind=UsageError)
    assert error.where.endswith("none.json")
