"""What a publication asks of GitHub: each wheel is downloaded, and hashed, once, whether releases are signed or not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.upload import upload
from tests.refusals import refused
from tests.release.integration.signed_stage import REPORT, TAG, TARGETS, SignedStage, signed_stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mlir_release.release.transaction.publish import PublishOutcome

BUNDLE = ".sigstore.json"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SignedStage]:
    with signed_stage(tmp_path, monkeypatch) as stage:
        yield stage


def asked(stage: SignedStage, act: Callable[[], PublishOutcome]) -> tuple[PublishOutcome, int, Counter[str]]:
    """What came of it, the requests that it took, and how often it downloaded each asset."""
    before = len(stage.server.requests)
    outcome = act()
    names = {str(asset.id): asset.name for asset in stage.release.assets}
    counted = [record for record in stage.server.requests[before:] if record.operation]
    downloads = [
        record for record in counted if record.operation == "GET /repos/{owner}/{repo}/releases/assets/{asset_id}"
    ]
    return outcome, len(counted), Counter(names[record.path.rpartition("/")[2]] for record in downloads)


def test_a_signed_publication_downloads_each_wheel_once(stage: SignedStage) -> None:
    """What its jobs have as artifacts, bundles and reports, they do not download either."""
    stage.fill()
    first, requests, downloads = asked(stage, stage.publish)
    assert first.unsigned
    assert downloads == dict.fromkeys((stage.wheel.name, stage.wheel.name + BUNDLE, REPORT, REPORT + BUNDLE), 1)
    stage.sign_manifest()
    done, more, downloads = asked(stage, lambda: stage.publish(checked=first.checked))
    assert not done.unsigned
    assert not stage.release.draft
    assert downloads == {"release.json": 1}
    assert (requests, more) == (27, 27)


def test_an_unsigned_publication_downloads_each_wheel_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = TARGETS.replace("[release]\n", '[release]\nprovenance = "none"\n')
    with signed_stage(tmp_path, monkeypatch, targets=targets) as stage:
        stage.build()
        for path in stage.dist.glob(f"*{BUNDLE}"):
            path.unlink()
        stage.upload()
        done, requests, downloads = asked(stage, stage.publish)
        assert not done.unsigned
        assert (done.manifest.provenance, done.manifest.repository) == ("none", "")
        assert downloads == {stage.wheel.name: 1, REPORT: 1}
        assert requests == 32


# -- what a draft must still be, when the manifest is signed ---------------------------------------------------------


def replace_wheel(stage: SignedStage) -> None:
    stage.asset(stage.wheel.name).content += b"\0"


def replace_bundle(stage: SignedStage) -> None:
    content = stage.asset(stage.wheel.name).content
    stage.asset(stage.wheel.name + BUNDLE).content = stage.bundle(stage.wheel.name, content)


def replace_report(stage: SignedStage) -> None:
    stage.asset(REPORT).content += b" "


def replace_manifest(stage: SignedStage) -> None:
    stage.asset("release.json").content = b"{}"


def remove_metadata(stage: SignedStage) -> None:
    stage.release.own = [asset for asset in stage.release.own if not asset.name.endswith(".metadata")]


def add_wheel(stage: SignedStage) -> None:
    Draft.load(stage.forge, TAG).put_bytes(stage.wheel.name.replace("mlir-", "mlir_core-"), b"whatever")


@pytest.mark.parametrize(
    ("change", "id"),
    [
        (replace_wheel, "signature-invalid"),
        (replace_report, "signature-invalid"),
        (replace_bundle, "file-damaged"),
        (replace_manifest, ""),
        (remove_metadata, ""),
        (add_wheel, ""),
    ],
)
def test_whatever_changes_before_the_signature_all_is_verified_again(
    stage: SignedStage, change: Callable[[SignedStage], None], id: str
) -> None:
    """It is then published if the result is the manifest that was signed, and refused if it is not."""
    stage.fill()
    first = stage.publish()
    stage.sign_manifest()
    change(stage)
    if not id:
        done, _, downloads = asked(stage, lambda: stage.publish(checked=first.checked))
        assert downloads[stage.wheel.name] == 1
        assert done.manifest == first.manifest
        assert not stage.release.draft
        return
    refused(lambda: stage.publish(checked=first.checked), id)
    assert stage.release.draft


def test_a_draft_that_became_another_release_is_not_published_with_the_signature(stage: SignedStage) -> None:
    """The tests were repeated: the report passes, and counts other tests than the manifest that was signed."""
    stage.fill()
    first = stage.publish()
    stage.sign_manifest()
    draft = Draft.load(stage.forge, TAG)
    for name in (REPORT, REPORT + BUNDLE):
        asset = draft.release.asset(name)
        assert asset is not None
        stage.forge.delete_asset(draft.release, asset)
    report = stage.dist / REPORT
    report.write_text(report.read_text().replace('"pass": 96', '"pass": 97'))
    stage.sign(report)
    upload(Draft.load(stage.forge, TAG), stage.dist)
    refused(lambda: stage.publish(checked=first.checked), "changed-meanwhile")
    assert stage.release.draft
    assert stage.publish().unsigned  # the next run has this one signed


def test_a_run_of_todays_toolkit_is_finished(stage: SignedStage) -> None:
    """It left a manifest, but no files that pin it, and handed nothing over."""
    stage.fill()
    stage.publish()
    stage.release.own = [asset for asset in stage.release.own if asset.name not in ("requirements.txt", "pylock.toml")]
    stage.sign_manifest()
    assert not stage.publish().unsigned
    assert not stage.release.draft
