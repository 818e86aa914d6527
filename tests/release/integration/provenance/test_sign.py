from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pypi_attestations import Distribution, Provenance
from sigstore.models import Bundle
from sigstore.verify import Verifier

from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.provenance import sign
from mlir_release.release.provenance.policy import SignerPolicy
from mlir_release.release.provenance.sign import attest
from mlir_release.release.provenance.trust import TRUST_VARIABLE
from mlir_release.release.provenance.verify import verify_file
from tests.github_server.server import GitHubServer
from tests.refusals import refused
from tests.sigstore.instance import COMMIT, REPOSITORY
from tests.sigstore.services import CERTIFICATES, ENTRIES, IDENTITY, Services, serve_sigstore
from tests.wheel_factory import TAG, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Pauses

WHEEL = f"mlir-{VERSION}-cp312-cp312-manylinux_2_28_x86_64.whl"
REPORT = "smoke-mlir-linux-x86_64-cp312.tests.json"
pytestmark = pytest.mark.usefixtures("pauses")

POLICY = SignerPolicy(repository=f"https://github.com/{REPOSITORY}", tag=TAG, commit=COMMIT)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    with serve_sigstore(tmp_path / "sigstore") as services:
        yield services


class Job:
    """The job of attest.yml in a run on the tag, and the folder with what it downloaded."""

    def __init__(self, services: Services, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.services = services
        self.files = folder / "files"
        self.output = folder / "bundles"
        (self.files / "linux").mkdir(parents=True)
        self._monkeypatch = monkeypatch
        self.be()

    def be(self, **claims: str) -> None:
        """Take the identity of a run."""
        claims = {"tag": TAG} | claims
        for name, value in self.services.environment(**claims).items():
            self._monkeypatch.setenv(name, value)
        self._monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
        self._monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")

    def add(self, name: str, content: bytes = b"wheel") -> None:
        (self.files / "linux" / name).write_bytes(content)

    def attest(self, **options: Any) -> sign.Attested:
        return attest(POLICY, self.files, self.output, **options)

    def bundle(self, name: str) -> bytes:
        return (self.output / f"{name}.sigstore.json").read_bytes()


@pytest.fixture
def job(services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(services, tmp_path, monkeypatch)


def test_each_file_gets_a_statement_of_its_own(job: Job) -> None:
    job.add(WHEEL)
    job.add(REPORT, b"{}")
    job.add("release.json", b"{ }")
    job.add("notes.txt")
    done = job.attest()
    assert done.signed == (WHEEL, "release.json", REPORT)
    names = {path.name for path in job.output.iterdir()}
    assert names == {*(f"{name}.sigstore.json" for name in done.signed), f"{WHEEL}.provenance"}
    for name in done.signed:
        signer = verify_file(job.files / "linux" / name, job.bundle(name), POLICY, job.services.made.trust())
        assert signer.ref == f"refs/tags/{TAG}"
    assert job.services.requests == [IDENTITY, CERTIFICATES, ENTRIES, ENTRIES, ENTRIES]


def test_the_statement_is_what_githubs_own_action_writes(job: Job) -> None:
    job.add(WHEEL)
    job.attest()
    (entry,) = [Bundle.from_json(job.bundle(WHEEL))]
    statement = json.loads(entry._inner.dsse_envelope.payload)  # type: ignore[union-attr]
    address = f"https://github.com/{REPOSITORY}"
    assert statement == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": WHEEL, "digest": {"sha256": hashlib.sha256(b"wheel").hexdigest()}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://actions.github.io/buildtypes/workflow/v1",
                "externalParameters": {
                    "workflow": {
                        "ref": f"refs/tags/{TAG}",
                        "repository": address,
                        "path": ".github/workflows/release.yml",
                    }
                },
                "internalParameters": {
                    "github": {
                        "event_name": "workflow_dispatch",
                        "repository_id": "101",
                        "repository_owner_id": "202",
                        "runner_environment": "github-hosted",
                    }
                },
                "resolvedDependencies": [
                    {"uri": f"git+{address}@refs/tags/{TAG}", "digest": {"gitCommit": COMMIT}}
                ],
            },
            "runDetails": {
                "builder": {"id": f"{address}/.github/workflows/attest.yml@refs/heads/main"},
                "metadata": {"invocationId": f"{address}/actions/runs/7/attempts/1"},
            },
        },
    }  # fmt: skip


def test_a_second_run_keeps_what_is_valid(job: Job) -> None:
    job.add(WHEEL)
    job.add(REPORT)
    job.attest()
    first = job.bundle(WHEEL)
    (job.output / f"{REPORT}.sigstore.json").write_bytes(b"{")
    (job.output / f"{WHEEL}.provenance").unlink()
    done = job.attest()
    assert (done.signed, done.kept) == ((REPORT,), (WHEEL,))
    assert job.bundle(WHEEL) == first
    assert (job.output / f"{WHEEL}.provenance").exists()


def test_only_what_was_asked_for_is_signed(job: Job) -> None:
    job.add(WHEEL)
    job.add("release.json", b"of a build that would like to be released")
    assert job.attest(kinds=["wheels"]).signed == (WHEEL,)
    assert not (job.output / "release.json.sigstore.json").exists()
    refused(lambda: job.attest(kinds=["reports"]), "input-missing")


def test_two_files_of_one_name_are_refused(job: Job) -> None:
    job.add(WHEEL)
    (job.files / WHEEL).write_bytes(b"another")
    refused(job.attest, "input-invalid")
    (job.files / WHEEL).write_bytes(b"wheel")
    assert job.attest().signed == (WHEEL,)


@pytest.mark.parametrize(
    ("what", "claims"),
    [
        (
            "not that of the protected branch",
            {"job_workflow_ref": f"{REPOSITORY}/.github/workflows/attest.yml@refs/tags/{TAG}"},
        ),
        ("it was signed for another commit of the tag", {"commit": "e" * 40}),
    ],
)
def test_what_would_be_refused_is_not_signed(job: Job, what: str, claims: dict[str, str]) -> None:
    job.add(WHEEL)
    job.be(**claims)
    error = refused(job.attest, "signature-invalid", what)
    assert error.where == TAG
    assert not job.output.exists()
    # A signature in the log could be made a bundle of, by whoever started the run.
    assert not {CERTIFICATES, ENTRIES} & set(job.services.requests)


def test_nobody_signs_outside_a_workflow(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.add(WHEEL)
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
    refused(job.attest, "needs-github", "the job has no identity to sign with")


def test_outside_of_a_workflow_nobody_is_asked_for_a_root_of_trust(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.add(WHEEL)
    monkeypatch.delenv("GITHUB_ACTIONS")
    monkeypatch.setenv(TRUST_VARIABLE, "nowhere.json")
    error = refused(job.attest, "needs-github")
    assert error.what == "only a workflow run can sign"
    assert job.services.requests == []


def test_a_private_repository_is_not_written_into_the_public_log(job: Job) -> None:
    claims = {"repository": "octo/secret", "repository_visibility": "private"}
    refused(lambda: sign._check_visibility(claims, {}), "repository-private")
    sign._check_visibility(claims, {"MLIR_RELEASE_TRUST_CONFIG": "ours.json"})
    sign._check_visibility({"repository_visibility": "public"}, {})


@pytest.mark.parametrize("path", [CERTIFICATES, ENTRIES])
@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_service_that_is_busy_is_asked_again(job: Job, path: str, status: int) -> None:
    job.add(WHEEL)
    answers = iter([status, status])
    job.services.fault = lambda asked: next(answers, 0) if asked == path else 0
    assert job.attest().signed == (WHEEL,)
    assert job.services.requests.count(path) == 3


@pytest.mark.parametrize(("status", "count"), [(400, 1), (503, 5)])
def test_a_service_that_stays_so_ends_the_run(job: Job, status: int, count: int) -> None:
    job.add(WHEEL)
    job.services.fault = lambda asked: status if asked == ENTRIES else 0
    refused(job.attest, "forge-unreachable")
    assert job.services.requests.count(ENTRIES) == count
    assert not job.output.exists()


@pytest.mark.parametrize("status", [0, 429, 503])
def test_an_identity_that_is_late_is_asked_for_again(
    job: Job, monkeypatch: pytest.MonkeyPatch, pauses: Pauses, status: int
) -> None:
    job.add(WHEEL)
    answers = iter([status, status])
    if status:
        job.services.fault = lambda asked: next(answers, 0) if asked == IDENTITY else 0
    else:
        monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", "http://127.0.0.1:1/")  # nobody listens there
        pauses.meanwhile = lambda: job.be() if len(pauses) == 2 else None
    assert job.attest().signed == (WHEEL,)
    assert len(pauses) == 2
    assert job.services.requests.count(IDENTITY) == (3 if status else 1)


@pytest.mark.parametrize(("status", "count"), [(403, 1), (503, 5)])
def test_an_identity_that_does_not_come_is_no_missing_permission(job: Job, status: int, count: int) -> None:
    job.add(WHEEL)
    job.services.fault = lambda asked: status if asked == IDENTITY else 0
    error = refused(job.attest, "forge-unreachable", "GitHub's service of identities")
    assert "id-token" not in error.remedy
    assert job.services.requests.count(IDENTITY) == count


def test_a_mistake_of_ours_is_not_blamed_on_sigstore(job: Job) -> None:
    job.add(WHEEL)
    digest: Any = b"of which no JSON can be made"
    with pytest.raises(TypeError):
        job.attest(choose=lambda found: [replace(each, sha256=digest) for each in found])
    assert ENTRIES not in job.services.requests


def test_an_identity_that_expires_is_renewed(job: Job) -> None:
    from sigstore.oidc import ExpiredIdentity
    from sigstore.sign import Signer

    job.add(WHEEL)
    job.add(REPORT)
    sign_dsse, lives = Signer.sign_dsse, iter([True, False])

    def ageing(signer: Signer, statement: Any) -> Any:
        if not next(lives, True):
            raise ExpiredIdentity
        return sign_dsse(signer, statement)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Signer, "sign_dsse", ageing)
        assert len(job.attest().signed) == 2
    assert job.services.requests.count(CERTIFICATES) == 2


def test_a_certificate_that_is_about_to_expire_is_renewed(job: Job) -> None:
    job.add(WHEEL)
    job.add(REPORT)
    job.services.made.authority.lifetime = timedelta(seconds=50)
    assert len(job.attest().signed) == 2
    assert job.services.requests.count(CERTIFICATES) == 2


# -- PEP 740 ---------------------------------------------------------------------------------------------------------


def test_the_provenance_file_is_verified_by_pypis_own_code(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.add(WHEEL)
    job.attest()
    provenance = Provenance.model_validate_json((job.output / f"{WHEEL}.provenance").read_bytes())
    (bundle,) = provenance.attestation_bundles
    (attestation,) = bundle.attestations
    assert (bundle.publisher.kind, bundle.publisher.repository) == ("GitHub", REPOSITORY)  # type: ignore[union-attr]
    assert bundle.publisher.workflow == "release.yml"  # type: ignore[union-attr]
    (root,) = job.services.made.trust().roots
    monkeypatch.setattr(Verifier, "production", classmethod(lambda cls, *, offline=False: cls(trusted_root=root)))
    distribution = Distribution.from_file(job.files / "linux" / WHEEL)
    kind, predicate = attestation.verify(bundle.publisher, distribution)
    assert kind == "https://slsa.dev/provenance/v1"
    assert predicate is not None
    other = Distribution(name=WHEEL, digest="0" * 64)
    with pytest.raises(ValueError, match="digest"):
        attestation.verify(bundle.publisher, other)


# -- GitHub's attestations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [True, False])
def test_github_keeps_the_attestations_that_it_takes(job: Job, tmp_path: Path, allowed: bool) -> None:
    job.add(WHEEL)
    with GitHubServer(tmp_path / "github") as github:
        github.add_repository(REPOSITORY, {"a": b"a"})
        token = github.token(scopes=("contents", "attestations") if allowed else ("contents",))
        forge = GitHubForge.open(REPOSITORY, environ=github.environment(REPOSITORY, token))
        done = job.attest(store=forge.services.keep_attestation)
        assert done.signed == (WHEEL,)
        assert done.stored == allowed
        kept = github.repositories[REPOSITORY].attestations
        assert kept == ([json.loads(job.bundle(WHEEL))] if allowed else [])
