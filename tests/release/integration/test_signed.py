"""Releases that have to be signed: what is published, what is refused, and that nothing is ever taken on trust."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mlir_release.cli.app import app
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.index.generate import generate
from mlir_release.release.judging.check import check_release
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy, read_trusted
from mlir_release.release.model.manifest import Manifest
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.provenance.verify import publish_provenance
from mlir_release.release.transaction.attest import attest_release
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.sweep import sweep
from mlir_release.release.transaction.upload import upload
from mlir_release.use.mirror import mirror
from tests.refusals import refused
from tests.release.integration.signed_stage import REPORT, REPOSITORY, TAG, TARGETS, SignedStage, signed_stage
from tests.sigstore.instance import MadeSigstore, statement_of
from tests.sigstore.services import serve_sigstore
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON, make_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.github_server import Record

BUNDLE = ".sigstore.json"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> Iterator[SignedStage]:
    with signed_stage(tmp_path, monkeypatch) as stage:
        yield stage


def refusal(act: Callable[[], object], id: str = "signature-invalid") -> str:
    """What is said of something that is refused."""
    return refused(act, id).what


# -- how it goes ------------------------------------------------------------------------------------------------------


def test_a_release_is_published_in_two_steps(stage: SignedStage) -> None:
    stage.fill()
    wheel = stage.wheel.name
    beside = {f"{wheel}{suffix}" for suffix in ("", ".metadata", BUNDLE, ".provenance")}
    assert stage.names() == {*beside, REPORT, REPORT + BUNDLE}
    first = stage.publish()
    assert first.unsigned
    assert stage.release.draft
    assert stage.publish().unsigned  # nothing has changed
    stage.sign_manifest()
    done = stage.publish()
    assert not done.unsigned
    assert not stage.release.draft
    assert stage.names() == {
        *(*beside, REPORT, REPORT + BUNDLE, "release.json", "release.json" + BUNDLE, "requirements.txt", "pylock.toml"),
    }
    manifest = Manifest.from_text(stage.asset("release.json").content, where="")
    assert (manifest.provenance, manifest.repository) == ("required", stage.url)
    assert manifest.wheels[0].provenance == f"{wheel}.provenance"
    assert stage.publish().already


def test_what_a_killed_upload_did_not_come_to_is_added(stage: SignedStage) -> None:
    stage.fill()
    release = stage.release
    for name in (stage.wheel.name + BUNDLE, stage.wheel.name + ".provenance", REPORT + BUNDLE):
        release.own = [asset for asset in release.own if asset.name != name]
    # Nothing could sign them any more without the build's own folder: so they are to be made again.
    missing = Draft.load(stage.forge, TAG).card()
    assert (missing.lacking_wheels, missing.lacking_tests) == (
        (f"mlir-linux-x86_64-{PYTHON}",),
        (REPORT.removesuffix(".tests.json"),),
    )
    assert "can't be published yet" in refusal(stage.publish, "release-not-ready")
    stage.upload()
    assert stage.publish().unsigned


def test_a_wheel_that_is_signed_again_keeps_its_first_bundle_and_the_provenance_of_that(stage: SignedStage) -> None:
    """The build is run again after its upload was killed before the provenance: the same bytes, signed anew."""
    stage.fill()
    release, provenance = stage.release, f"{stage.wheel.name}.provenance"
    release.own = [asset for asset in release.own if asset.name != provenance]
    first = stage.asset(stage.wheel.name + BUNDLE).content
    stage.fill()
    assert stage.asset(stage.wheel.name + BUNDLE).content == first
    stage.approve()
    assert not stage.publish().unsigned
    assert stage.asset(provenance).content == publish_provenance(first)


def test_another_build_takes_the_place_of_one_that_nobody_signed(stage: SignedStage) -> None:
    stage.fill()
    release = stage.release
    release.own = [asset for asset in release.own if asset.name != stage.wheel.name + BUNDLE]
    first = stage.asset(stage.wheel.name).content
    stage.build(content="another")
    stage.upload()
    assert stage.asset(stage.wheel.name).content != first
    stage.approve()
    assert not stage.publish().unsigned


def test_a_report_that_nobody_signed_is_not_published_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = make_row(suites=["smoke", "performance"])
    with signed_stage(tmp_path, monkeypatch, targets=make_targets(row, pythons=[PYTHON], provenance="")) as stage:
        stage.build()
        other = REPORT.replace("smoke", "performance")
        target = other.removesuffix(".tests.json")
        stage.sign(make_report(stage.dist, stage.wheel, suite="performance", target=target))
        stage.upload()
        stage.release.own = [asset for asset in stage.release.own if asset.name != other + BUNDLE]
        stage.approve()
        assert not stage.publish().unsigned
        assert REPORT in stage.names()
        assert other not in stage.names()


def test_a_provenance_file_is_made_from_the_bundle(stage: SignedStage) -> None:
    stage.build()
    (stage.dist / f"{stage.wheel.name}.provenance").unlink()
    stage.upload()
    stage.approve()
    stage.publish()
    assert json.loads(stage.asset(f"{stage.wheel.name}.provenance").content)["version"] == 1


def test_a_sweep_has_the_manifest_signed(stage: SignedStage) -> None:
    stage.fill()
    repository = stage.server.repositories[REPOSITORY]
    for run in repository.runs:
        run.update(status="completed", conclusion="failure")
    dispatched = len(repository.dispatches)
    outcome = sweep(stage.forge, branch="main")
    assert not outcome.failures
    row, shown = outcome.rows
    assert (row.action, row.result) == ("publish", "done")
    assert "signed" in row.detail
    assert (shown.action, shown.result) == ("pages", "done")  # of the tag, which no run has shown yet
    made, pages = repository.dispatches[dispatched:]
    assert (made.workflow, made.ref, made.inputs) == ("release.yml", TAG, {"publish-only": "true"})
    assert (pages.workflow, pages.ref) == ("pages.yml", "main")
    assert stage.release.draft
    # What release.yml then does.
    stage.approve()
    assert not stage.publish().unsigned


def test_the_command_says_what_is_to_be_signed(
    stage: SignedStage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stage.build()
    for name, value in stage.server.environment(REPOSITORY, stage.token).items():
        monkeypatch.setenv(name, value)
    outputs = tmp_path / "outputs"
    monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
    plan = ["matrix", "--missing", TAG, "--kind", "platforms", "--github", "--forge", f"github:{REPOSITORY}"]
    app(plan, standalone_mode=False)
    assert "required" in outputs.read_text().splitlines()  # the output "provenance"
    outputs.unlink()
    command = ["publish", TAG, "--forge", f"github:{REPOSITORY}", "--dist", str(stage.dist)]
    command += ["--manifest-to", str(tmp_path / "manifest")]
    for attest in ("true", "false"):
        app(command, standalone_mode=False)
        assert outputs.read_text().splitlines()[1] == attest
        outputs.unlink()
        if attest == "true":
            assert stage.release.draft
            stage.sign_manifest()
    assert not stage.release.draft


def test_nothing_is_signed_for_a_tag_that_was_made_by_hand(stage: SignedStage, tmp_path: Path) -> None:
    """Its workflows call attest.yml of main, which looks at what the tag names before it signs."""
    stage.build()
    evil = stage.forge.commit(
        "main", expected=stage.forge.head("main"), files={"tools/evil.py": b"evil"}, message="Evil\n"
    )
    message = stage.forge.tag(TAG).message  # type: ignore[union-attr]
    stage.forge.create_tag("snapshot-20261120.09", evil, message)
    refused(
        lambda: attest_release(
            stage.forge, "snapshot-20261120.09", stage.dist, tmp_path / "out", kinds=["wheels"], branch="main"
        ),
        "tampered",
    )
    assert not (tmp_path / "out").exists()


def test_nothing_is_signed_for_a_run_from_before_the_tag_was_moved(
    stage: SignedStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag that anyone may make: its run begins at a commit with workflows of their own, and then it is moved."""
    stage.build()
    with serve_sigstore(tmp_path / "sigstore", made=stage.made) as services:
        for commit, signs in (("e" * 40, False), (stage.commit, True)):
            run = services.environment(tag=TAG, repository=REPOSITORY, commit=commit, server=stage.server.url)
            for name, value in (run | stage.server.environment(REPOSITORY, stage.token)).items():
                monkeypatch.setenv(name, value)
            out = tmp_path / f"out-{signs}"

            def sign(out: Path = out) -> object:
                return attest_release(stage.forge, TAG, stage.dist, out, kinds=["wheels"], branch="main")

            if signs:
                sign()
            else:
                assert "it was signed for another commit of the tag" in refusal(sign)
            assert out.exists() == signs


# -- what is not uploaded ---------------------------------------------------------------------------------------------


def test_what_nobody_signed_is_not_uploaded(stage: SignedStage) -> None:
    stage.build()
    (stage.dist / f"{REPORT}{BUNDLE}").unlink()
    assert "nobody signed it" in refusal(stage.upload, "provenance-missing")
    assert stage.names() == set()


@pytest.mark.parametrize(
    ("what", "claims"),
    [
        ("it was signed for another repository", {"repository": "octo/fork"}),
        ("it was signed for another release", {"tag": "snapshot-20261120.02"}),
        ("it was signed for another commit of the tag", {"commit": "e" * 40}),
    ],
)
def test_what_another_run_signed_is_not_uploaded(stage: SignedStage, what: str, claims: dict[str, str]) -> None:
    stage.build()
    stage.sign(stage.wheel, **claims)
    assert what in refusal(stage.upload)
    assert stage.names() == set()


# -- what is not published: a draft in which someone who may write has changed something ------------------------------


def test_a_wheel_that_was_replaced_is_not_published(stage: SignedStage, tmp_path: Path) -> None:
    stage.fill()
    other = SignedStage(stage.server, stage.made, tmp_path / "other", stage.token)
    other.folder.mkdir()
    other.build(content="evil")
    for name in (stage.wheel.name, stage.wheel.name + ".metadata"):
        stage.asset(name).content = other.wheel.read_bytes() if name.endswith(".whl") else stage.asset(name).content
    assert "what was signed is another content of the file" in refusal(stage.publish)
    assert stage.release.draft


def test_a_report_that_was_swapped_is_not_published(stage: SignedStage) -> None:
    stage.fill()
    report = json.loads(stage.asset(REPORT).content)
    stage.asset(REPORT).content = json.dumps(report, indent=3).encode()
    assert "what was signed is another content of the file" in refusal(stage.publish)
    stage.asset(f"{REPORT}{BUNDLE}").content = stage.asset(f"{stage.wheel.name}{BUNDLE}").content
    assert "what was signed is another file" in refusal(stage.publish)
    assert stage.release.draft


@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("no authority that is trusted", lambda stage, file: MadeSigstore().bundle(statement_of(file), stage.claims())),
        ("it was signed for another release", lambda stage, file: stage.made.bundle(
            statement_of(file), stage.claims(tag="snapshot-20261120.02"))),
    ],
)  # fmt: skip
def test_a_bundle_that_was_replaced_is_not_published(
    stage: SignedStage, what: str, make: Callable[[SignedStage, tuple[str, str]], bytes]
) -> None:
    stage.fill()
    asset = next(a for a in stage.forge.drafts(TAG)[0].assets if a.name == stage.wheel.name)
    stage.asset(stage.wheel.name + BUNDLE).content = make(stage, (asset.name, asset.sha256))
    assert what in refusal(stage.publish)
    assert stage.release.draft


def test_a_provenance_file_that_was_replaced_is_not_published(stage: SignedStage) -> None:
    stage.fill()
    stage.asset(f"{stage.wheel.name}.provenance").content = b'{"version": 1, "attestation_bundles": []}'
    assert "is not made from its bundle" in refusal(stage.publish, "file-damaged")
    assert stage.release.draft


def test_a_manifest_that_someone_else_signed_is_not_published(stage: SignedStage) -> None:
    stage.fill()
    assert stage.publish().unsigned
    stage.sign_manifest(repository="octo/fork")
    assert "it was signed for another repository" in refusal(stage.publish)
    assert stage.release.draft


def test_the_signature_of_another_manifest_does_not_count(stage: SignedStage) -> None:
    stage.fill()
    assert stage.publish().unsigned
    path = stage.folder / "manifest" / "release.json"
    path.write_bytes(path.read_bytes().replace(b'"required"', b'"none"'))
    stage.sign_manifest()
    assert stage.publish().unsigned
    assert stage.release.draft


def test_an_asset_replaced_between_the_check_and_the_publication_is_seen(stage: SignedStage) -> None:
    stage.fill()
    stage.approve()

    def swap(record: Record) -> None:
        if "name=release.json.sigstore.json" in record.query:  # it comes when all is checked
            stage.asset(stage.wheel.name).content += b"\0"

    stage.server.faults = swap
    error = refused(stage.publish, "changed-meanwhile")
    assert stage.wheel.name in error.where
    assert stage.release.draft


def test_wheels_that_someone_added_unsigned_do_not_count(stage: SignedStage) -> None:
    stage.build()
    upload(Draft.load(stage.forge, TAG), stage.dist)
    draft = Draft.load(stage.forge, TAG)
    name = stage.wheel.name.replace("mlir-", "mlir_core-")
    draft.put_bytes(name, b"whatever")
    stage.approve()
    stage.publish()
    assert name not in stage.names()


# -- what users see ---------------------------------------------------------------------------------------------------


def trusted(stage: SignedStage, signed_by: SignedBy = AS_DECLARED) -> object:
    release = stage.forge.published(TAG)
    assert release is not None
    found = read_trusted(stage.forge, release, signed_by)
    for wheel in found.manifest.wheels:
        found.check(wheel.filename, wheel.sha256)
    return found.signer


def test_a_published_release_is_checked_file_by_file(stage: SignedStage) -> None:
    stage.whole()
    checked = check_release(stage.forge, TAG)
    assert [row.result for row in checked.files] == ["signed"] * 3
    assert not checked.refused
    assert checked.repository == stage.url
    stage.asset(REPORT).content += b" "
    stage.asset(stage.wheel.name + BUNDLE).content = b"{}"
    checked = check_release(stage.forge, TAG)
    unread, other = checked.refused
    assert (unread.id, "its bundle can't be read" in unread.what) == ("signature-invalid", True)
    assert (other.id, "what was signed is another content of the file" in other.what) == ("signature-invalid", True)


def test_a_downgraded_manifest_is_refused(stage: SignedStage) -> None:
    stage.whole()
    assert trusted(stage)
    asset = stage.asset("release.json")
    good = asset.content
    asset.content = good.replace(b'"provenance": "required"', b'"provenance": "none"')
    assert asset.content != good
    assert "the release says that it is not signed, and it has to be" in refusal(
        lambda: trusted(stage), "provenance-missing"
    )
    assert "the release says that it is not signed, and it has to be" in refusal(
        lambda: trusted(stage, SignedBy(branch="gone")), "provenance-missing"
    )
    assert trusted(stage, SignedBy(expectation="skip")) is None
    asset.content = good.replace(b'"version"', b' "version"')
    assert "what was signed is another content of the file" in refusal(lambda: trusted(stage))
    asset.content = good
    stage.release.own = [found for found in stage.release.own if found.name != "release.json" + BUNDLE]
    assert "nobody signed it" in refusal(lambda: trusted(stage), "provenance-missing")


def test_a_tag_that_was_moved_is_refused_where_releases_are_signed(stage: SignedStage) -> None:
    stage.whole()
    forge, git = stage.forge, stage.server.repositories[REPOSITORY].git
    evil = forge.commit("main", expected=forge.head("main") or "", files={"evil.py": b"evil"}, message="Evil\n")
    forge.create_tag("other", evil, forge.tag(TAG).message)  # type: ignore[union-attr]
    git.run("update-ref", f"refs/tags/{TAG}", "refs/tags/other")
    assert "names changes more than the pin" in refusal(lambda: check_release(stage.forge, TAG), "tampered")


def test_a_mirror_on_github_is_checked_against_its_source(stage: SignedStage) -> None:
    """Its own workflows have signed nothing, and its commits are no pin commits."""
    stage.whole()
    files = {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": b"# Ours\n" + TARGETS.encode()}
    stage.server.add_repository("octo/mirror", files)
    copy = GitHubForge.open("octo/mirror", environ=stage.server.environment("octo/mirror", stage.token))
    assert mirror(stage.forge, copy).copied == (TAG,)
    checked = check_release(copy, TAG, SignedBy(repository=stage.url))
    assert (checked.repository, [row.result for row in checked.files]) == (stage.url, ["signed"] * 3)
    assert "names changes more than the pin" in refusal(lambda: check_release(copy, TAG), "tampered")
    itself = SignedBy(repository=f"{stage.server.url}/octo/mirror")
    assert "names changes more than the pin" in refusal(lambda: check_release(copy, TAG, itself), "tampered")


def test_no_page_shows_what_someone_published_by_hand(stage: SignedStage, tmp_path: Path) -> None:
    stage.whole()
    matrix = Matrix.parse(TARGETS)

    def shown(name: str) -> int:
        address = f"{stage.server.url}/pages/{name}/"
        return generate(stage.forge, tmp_path / name, base_url=address, matrix=matrix).releases

    assert shown("good") == 1
    manifest, bundle = stage.asset("release.json"), stage.asset("release.json" + BUNDLE)
    good = manifest.content
    for change in (b'"none"', b'"required" '):
        manifest.content = good.replace(b'"required"', change)
        assert shown(f"changed{len(change)}") == 0
    manifest.content = b"{}"
    assert shown("unreadable") == 0
    manifest.content = good
    bundle.content = stage.bundle("release.json", good, repository="octo/fork")
    assert shown("forked") == 0
