"""A mirror that freezes, goes back or deletes what says which snapshot is the newest. Nothing is installed from it.

Nor is what says so ever the provenance of a file, or the other way round.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from msgspec import structs

from mlir_release.cli.app import app
from mlir_release.release.forge.files import read_yanks
from mlir_release.release.judging.signed import SignedBy, read_trusted
from mlir_release.release.latest.catalogue import read_index, read_learnt
from mlir_release.release.latest.latest import POINTER_FILE, follow_pointer
from mlir_release.release.model.release_index import (
    INDEX_NAME,
    QUALITY_NAME,
    CanaryResult,
    Quality,
    ReleaseQuality,
    parse_index,
    to_bytes,
)
from mlir_release.release.model.release_settings import LATEST_BRANCH
from mlir_release.release.model.yanks import Yank, format_yanks
from mlir_release.release.provenance.pointer import POINTER_TYPE, Pointer, pointer_policy, verify_pointer
from mlir_release.release.provenance.policy import SignerPolicy, Subject
from mlir_release.release.provenance.verify import verify_file
from tests.attacks.latest_stage import NEW, OLD, LatestStage, digest, latest_stage
from tests.refusals import check_error, refused
from tests.sigstore.instance import COMMIT, REPOSITORY, MadeSigstore, branch_claims, statement_of, workflow_claims

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.release.forge.local.forge import LocalForge


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LatestStage]:
    with pytest.MonkeyPatch.context() as patch, latest_stage(tmp_path_factory.mktemp("latest"), patch) as stage:
        yield stage


@pytest.fixture
def stage(made: LatestStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LatestStage:
    """The same repository, for each test with a mirror and a memory of its own."""
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    made.folder = tmp_path
    return made


def test_a_mirror_that_shows_the_newest_is_believed(stage: LatestStage) -> None:
    stage.copy()
    stage.point(NEW)
    done = stage.install()
    assert (done.error, done.tag) == (None, NEW), done.output
    assert "warning" not in done.output


def test_a_mirror_that_is_frozen_is_noticed_once_the_pointer_has_expired(stage: LatestStage) -> None:
    stage.copy(until=OLD)
    stage.point(OLD, age=13)
    assert stage.install().tag == OLD
    stage.point(OLD, age=15)
    stage.install().installed_nothing("latest-stale", "expired on")


def test_who_asks_for_no_signature_is_warned_of_a_frozen_mirror(stage: LatestStage) -> None:
    stage.copy(until=OLD)
    stage.point(OLD, age=15)
    done = stage.install(asked=False)
    assert (done.error, done.tag) == (None, OLD)
    assert "warning: the signed pointer to the newest snapshot expired on" in done.output


def test_a_mirror_that_withholds_the_release_that_the_pointer_names_is_noticed(stage: LatestStage) -> None:
    stage.copy(until=OLD)
    stage.point(NEW)
    stage.install().installed_nothing(
        "latest-stale", f"{OLD} is offered as the newest snapshot, and {NEW} is signed as such"
    )


def test_a_mirror_that_goes_back_to_an_older_pointer_is_noticed_by_who_has_seen_a_newer(stage: LatestStage) -> None:
    stage.copy()
    stage.point(NEW, age=1)
    assert stage.install().tag == NEW
    (stage.mirror.root / "releases" / NEW).rename(stage.folder / "hidden")
    stage.point(OLD, age=2)
    stage.install().installed_nothing("latest-stale", "older than one that was seen before")


def test_an_older_pointer_to_the_same_release_is_no_step_back(stage: LatestStage) -> None:
    stage.copy()
    stage.point(NEW)
    assert stage.install().tag == NEW
    stage.point(NEW, age=3)
    assert stage.install().tag == NEW


def test_a_memory_that_is_damaged_is_no_memory(stage: LatestStage) -> None:
    stage.copy()
    stage.point(NEW)
    stage.install()
    (memory,) = (stage.folder / "cache" / "latest").iterdir()
    assert json.loads(memory.read_text())["tag"] == NEW
    for content in ("", "[", '{"tag": 1, "issued": 2}', '{"issued": "2026-11-20T12:00:00Z"}', "[" * 100_000):
        memory.write_text(content)
        assert stage.install().tag == NEW


def test_a_mirror_that_deletes_the_pointer_is_noticed_by_the_signed_manifest(stage: LatestStage) -> None:
    stage.copy()
    stage.install().installed_nothing("latest-stale", f"{NEW} says that there is one")
    done = stage.install(asked=False)
    assert done.tag == NEW
    assert "is missing" in done.output


def test_a_repository_from_before_pointers_is_a_warning_until_one_was_seen(
    stage: LatestStage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.copy()
    forge, signed_by = stage.mirror, SignedBy(repository=stage.signed.url)
    release = forge.published(NEW)
    assert release is not None
    found = read_trusted(forge, release, signed_by)
    before = structs.replace(found.manifest, signed_latest=False)
    old = type(found)(remote=found.remote, manifest=before, signatures=found.signatures, signer=found.signer)
    assert follow_pointer(forge, old, (), signed_by) is old
    assert "has no signed pointer to its newest snapshot" in capsys.readouterr().err
    stage.point(NEW)
    assert stage.install().tag == NEW
    delete_branch(forge)
    error = refused(lambda: follow_pointer(forge, old, (), signed_by), "latest-stale")
    assert "was seen before" in error.why


def delete_branch(forge: LocalForge) -> None:
    (forge.repository / "refs" / "heads" / LATEST_BRANCH).unlink()


def test_a_yank_that_nothing_signed_confirms_is_no_way_back(stage: LatestStage) -> None:
    stage.copy()
    stage.point(NEW)
    forge = stage.mirror
    yank = Yank(tag=NEW, reason="so that you take the old one")
    head = forge.head("main")
    forge.commit("main", expected=head, files={"yanked.toml": format_yanks([yank]).encode()}, message="x\n")
    assert read_yanks(forge, "main") == (yank,)
    stage.install().installed_nothing("latest-stale", "which nothing signed confirms")


def test_another_release_of_the_same_tag_is_noticed(stage: LatestStage) -> None:
    stage.copy()
    stage.point(NEW, manifest="0" * 64)
    stage.install().installed_nothing("latest-stale", f"{NEW} is not the release that is signed as the newest snapshot")


@pytest.mark.parametrize(
    ("what", "claims"),
    [
        ("it was signed for another repository", {"repository": "octo/fork"}),
        (
            "it was signed by another workflow",
            {"job_workflow_ref": "octo/releases/.github/workflows/latest.yml@refs/heads/main"},
        ),
        (
            "the workflow that signed it was not that of the protected branch",
            {"job_workflow_ref": "octo/releases/.github/workflows/attest.yml@refs/heads/dev"},
        ),
        ("it was signed in a run on another branch or tag", {"ref": "refs/heads/dev"}),
        ("it was signed in a run on another branch or tag", {"ref": f"refs/tags/{NEW}"}),
    ],
)
def test_a_pointer_that_somebody_else_signed_is_refused(stage: LatestStage, what: str, claims: dict[str, str]) -> None:
    stage.copy(until=OLD)
    stage.put(stage.sign(stage.pointer(OLD).statement(), **claims))
    stage.install().installed_nothing(
        "signature-invalid", f"the signed pointer to the newest snapshot is not to be trusted: {what}"
    )


def test_the_pointer_of_another_repository_is_refused(stage: LatestStage) -> None:
    stage.copy(until=OLD)
    other = stage.pointer(OLD, repository="https://github.com/octo/fork")
    stage.put(stage.sign(other.statement()))
    stage.install().installed_nothing("signature-invalid", "it is about https://github.com/octo/fork")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[" * 1_000_000, b"[" * 100_000, b"\xff", b'{"dsseEnvelope": {"payload": "e30="}}']
)
@pytest.mark.parametrize("asked", [True, False])
def test_what_is_no_bundle_is_refused(stage: LatestStage, content: bytes, asked: bool) -> None:
    stage.copy(until=OLD)
    stage.put(content)
    done = stage.install(asked=asked)
    if asked:
        done.installed_nothing("signature-invalid", "its bundle can't be read")
    else:
        assert (done.error, done.tag) == (None, OLD)
        assert "is not to be trusted" in done.output


@pytest.mark.parametrize(
    "change",
    [
        {"tag": "llvm-22.1.8.01"},
        {"tag": "../../x"},
        {"issued": "soon"},
        {"expires": 7},
        {"manifest": "0"},
        {"commit": None},
        {"tag": OLD},
    ],
)
def test_a_statement_that_is_signed_and_wrong_is_refused(stage: LatestStage, change: dict[str, object]) -> None:
    stage.copy()
    statement = stage.pointer(NEW).statement()
    statement["predicate"] |= change
    stage.put(stage.sign(statement))
    stage.install().installed_nothing("signature-invalid", "its bundle can't be read")


def test_a_pointer_of_the_future_is_refused_and_says_that_it_may_be_the_clock(stage: LatestStage) -> None:
    stage.copy()
    stage.point(NEW, age=-1 / 24 / 60)  # a minute: clocks differ
    assert stage.install().tag == NEW
    stage.point(NEW, age=-400)
    stage.install().installed_nothing("latest-stale", "this machine's clock says")


@pytest.mark.parametrize("name", [INDEX_NAME, QUALITY_NAME])
@pytest.mark.parametrize("content", [b"{}", None])
def test_an_index_or_a_quality_that_is_not_the_one_that_the_pointer_names_is_refused(
    stage: LatestStage, name: str, content: bytes | None
) -> None:
    """A mirror hides a yank, or invents the results of canaries: whole documents, of the right repository."""
    stage.copy()
    forge, signed_by = stage.mirror, SignedBy(repository=stage.signed.url)
    honest = {INDEX_NAME: stage.index[INDEX_NAME], QUALITY_NAME: to_bytes(Quality(repository=stage.signed.url))}
    other = structs.replace(parse_index(honest[INDEX_NAME]), yanked={NEW: "so that you take the old one"})
    canary = CanaryResult(name="c", status="passed", url="")
    invented = Quality(repository=stage.signed.url, releases={OLD: ReleaseQuality(canaries=(canary,))})
    forged = {INDEX_NAME: to_bytes(other), QUALITY_NAME: to_bytes(invented)}[name] if content is not None else None
    stage.point(NEW, quality=digest(honest[QUALITY_NAME]))
    forge.commit(LATEST_BRANCH, expected=forge.head(LATEST_BRANCH), files=honest, message="x\n")
    assert NEW in read_index(forge, signed_by).index.tags
    head = forge.head(LATEST_BRANCH)
    served = {**honest, POINTER_FILE: stage.mirror.read(POINTER_FILE, commit=str(head)), name: forged}
    files = {path: found for path, found in served.items() if found is not None}
    delete_branch(forge)
    forge.commit(LATEST_BRANCH, expected=None, files=files, message="x\n", base=forge.head("main"))
    refused(lambda: read_index(forge, signed_by), "tampered", name)
    arguments = ["release", "latest", "--forge", f"local:{forge.root}", "--signed-by", stage.signed.url]
    check_error(CliRunner().invoke(app, arguments).exception, "tampered", name)
    if name == QUALITY_NAME:
        refused(lambda: read_learnt(forge, signed_by), "tampered", name)


# -- what is honest ----------------------------------------------------------------------------------------------------


def test_a_release_that_is_newer_than_the_pointer_is_installed(stage: LatestStage) -> None:
    stage.copy()
    stage.point(OLD)
    assert stage.install().tag == NEW


def test_a_snapshot_that_was_published_after_a_newer_one_is_not_the_newest(stage: LatestStage) -> None:
    stage.copy()
    stage.point(NEW)
    record = stage.mirror.root / "releases" / OLD / ".forge.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"published_at": "2099-01-01T00:00:00+00:00"}))
    assert next(iter(stage.mirror.published_newest_first())).tag == OLD
    assert stage.install().tag == NEW


def test_who_names_a_tag_needs_no_pointer(stage: LatestStage) -> None:
    stage.copy()
    forge = f"local:{stage.mirror.root}"
    words = ["install", OLD, "--forge", forge, "--signed-by", stage.signed.url, "--no-deps"]
    done = CliRunner().invoke(app, [*words, "--python", sys.executable])
    assert done.exit_code == 0, done.output
    assert stage.installed[-1] == OLD


# -- pointers and provenance -------------------------------------------------------------------------------------------

URL = f"https://github.com/{REPOSITORY}"
DIGEST = "1" * 64
POLICY = SignerPolicy(repository=URL, tag=OLD, commit=COMMIT)
POINTER = Pointer(
    repository=URL,
    tag=OLD,
    commit=COMMIT,
    manifest=DIGEST,
    issued="2026-11-20T12:00:00Z",
    expires="2026-12-04T12:00:00Z",
)


@pytest.fixture(scope="module")
def sigstore() -> MadeSigstore:
    return MadeSigstore()


def is_no_provenance(sigstore: MadeSigstore, bundle: bytes, name: str) -> None:
    subject = Subject(name=name, sha256=DIGEST)
    refused(lambda: verify_file(subject, bundle, POLICY, sigstore.trust()), "signature-invalid")


def is_no_pointer(sigstore: MadeSigstore, bundle: bytes, said: str) -> None:
    refused(lambda: verify_pointer(bundle, pointer_policy(URL, "main"), sigstore.trust()), "signature-invalid", said)


@pytest.mark.parametrize("name", ["release.json", "mlir-1-py3-none-any.whl", OLD])
def test_a_pointer_is_accepted_as_the_provenance_of_no_file(sigstore: MadeSigstore, name: str) -> None:
    bundle = sigstore.bundle(POINTER.statement(), branch_claims())
    assert verify_pointer(bundle, pointer_policy(URL, "main"), sigstore.trust()) == POINTER
    is_no_provenance(sigstore, bundle, name)


@pytest.mark.parametrize("name", ["release.json", "mlir-1-py3-none-any.whl"])
def test_nor_would_be_one_that_the_run_of_a_release_signed_about_that_very_file(
    sigstore: MadeSigstore, name: str
) -> None:
    statement = statement_of((name, DIGEST), predicate_type=POINTER_TYPE)
    is_no_provenance(sigstore, sigstore.bundle(statement, workflow_claims(OLD)), name)


def test_the_provenance_of_a_file_is_accepted_as_no_pointer_wherever_it_was_signed(sigstore: MadeSigstore) -> None:
    statement = statement_of((OLD, DIGEST))
    elsewhere = sigstore.bundle(statement, workflow_claims(OLD))
    is_no_pointer(sigstore, elsewhere, "it was signed in a run on another branch or tag")
    here = sigstore.bundle(statement, branch_claims())
    is_no_pointer(sigstore, here, "what was signed is a statement of another kind")


def test_a_pointer_whose_signature_is_changed_is_refused(sigstore: MadeSigstore) -> None:
    mixed = json.loads(sigstore.bundle(POINTER.statement(), branch_claims()))
    other = json.loads(sigstore.bundle(statement_of((OLD, DIGEST)), branch_claims()))
    mixed["dsseEnvelope"]["payload"] = other["dsseEnvelope"]["payload"]
    said = "its signature, or the record of it in the transparency log, does not verify"
    is_no_pointer(sigstore, json.dumps(mixed).encode(), said)
