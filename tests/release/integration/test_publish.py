"""Upload, verify, publish on a real local forge: what wins, what is refused, what a second run does."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mlir_release.builder.model.orders import NOTICE
from mlir_release.ground.errors import ReleaseError
from mlir_release.release.forge.files import head_of
from mlir_release.release.model.manifest import Manifest
from mlir_release.release.transaction.decisions import abandon, discard, waive
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import PublishOutcome, publish
from mlir_release.release.transaction.upload import upload
from tests.disturbed_forge import DisturbedForge
from tests.refusals import refused
from tests.release.integration.forge.conformance import race
from tests.release_stage import NEXT_REVISION, Stage, find_release
from tests.wheel_factory import OTHER_PYTHON, PYTHON, REVISION, TAG, VERSION, make_report, make_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Asset, Release
    from mlir_release.release.model.matrix_jobs import Kind

TARGET = f"mlir-linux-x86_64-{PYTHON}"
OTHER_TARGET = f"mlir-linux-x86_64-{OTHER_PYTHON}"
WHEEL = f"mlir-{VERSION}-{PYTHON}-{PYTHON}-manylinux_2_28_x86_64.whl"
EXPERIMENTAL = f"mlir-core-linux-x86_64-{PYTHON}"


def assets(stage: Stage, tag: str = TAG) -> dict[str, str]:
    return {asset.name: asset.sha256 for asset in find_release(stage.again(), tag).assets}


def go(stage: Stage, tag: str = TAG) -> PublishOutcome:
    return stage.publish(tag=tag)


# -- the way that it should go -----------------------------------------------------------------------------------------


def test_from_a_folder_to_a_release(stage: Stage) -> None:
    first = stage.upload(stage.fill())
    assert len(first.names("uploaded")) == 6  # two wheels, their metadata, their reports
    outcome = go(stage)
    assert not outcome.already
    found = find_release(stage.again(), TAG)
    assert not found.draft
    names = [asset.name for asset in found.assets]
    assert sorted(names) == sorted([*first.names("uploaded"), "release.json", "requirements.txt", "pylock.toml"])
    manifest = outcome.manifest
    assert (manifest.revision, manifest.version, manifest.commit) == (REVISION, VERSION, stage.forge.head("snapshots"))
    assert [row.target for row in manifest.left_out] == [EXPERIMENTAL]
    assert manifest.notice == NOTICE
    assert NOTICE in find_release(stage.forge, TAG).body
    for wheel in manifest.wheels:
        assert f"{wheel.filename}#sha256={wheel.sha256}" in found.body
        beside = found.asset(wheel.filename + ".metadata")
        assert beside is not None
        assert beside.sha256 == wheel.metadata_sha256
    published = stage.forge.root / "releases" / TAG / "release.json"
    assert Manifest.from_text(published.read_bytes(), where="") == manifest


def test_known_failures_of_the_reports_are_named_in_the_release(stage: Stage) -> None:
    report = stage.fill() / f"smoke-{TARGET}.tests.json"
    known = {"tests": ["python/a.py"], "reason": "no engine", "link": "https://github.com/llvm/llvm-project/issues/1"}
    report.write_text(json.dumps(json.loads(report.read_text()) | {"known_failures": [known]}))
    stage.upload(report.parent)
    go(stage)
    data = json.loads((stage.forge.root / "releases" / TAG / "release.json").read_text())
    assert [row.get("known_failures", []) for row in data["tests"]].count([known]) == 1
    body = find_release(stage.again(), TAG).body
    assert f"- `python/a.py`, in `smoke-{TARGET}`: no engine ([details]({known['link']}))" in body


def test_again_and_again(stage: Stage) -> None:
    folder = stage.fill()
    stage.upload(folder)
    before = assets(stage)
    second = stage.upload(folder)
    assert Counter(put.action for put in second.puts) == {"present": 6}
    assert assets(stage) == before
    go(stage)
    published = find_release(stage.again(), TAG)
    outcome = go(stage)
    assert outcome.already
    third = stage.upload(folder)
    assert third.published
    assert not third.names("uploaded")
    assert find_release(stage.again(), TAG) == published


def test_dry_runs_change_nothing(stage: Stage) -> None:
    folder = stage.fill()
    planned = stage.upload(folder, dry_run=True)
    assert len(planned.names("uploaded")) == 2
    assert not assets(stage)
    stage.upload(folder)
    before = find_release(stage.again(), TAG)
    assert stage.publish(dry_run=True).ended == "planned"
    assert discard(stage.draft(), TARGET, dry_run=True).removed
    assert find_release(stage.again(), TAG) == before


def test_what_changed_since_the_previous_release(stage: Stage) -> None:
    stage.upload(stage.fill())
    go(stage)
    later = "snapshot-20261121.01"
    stage.add_tag(later, "20261121.1", revision=NEXT_REVISION)
    folder = stage.fill(tag=later, version="20261121.1", revision=NEXT_REVISION, padding=900)
    stage.upload(folder, tag=later)
    manifest = go(stage, later).manifest
    assert (manifest.previous_tag, manifest.previous_revision) == (TAG, REVISION)
    body = find_release(stage.again(), later).body
    assert f"compare/{REVISION}...{NEXT_REVISION}" in body
    assert "| +" in body  # the wheels grew


# -- what wins ---------------------------------------------------------------------------------------------------------


def test_the_complete_asset_in_the_draft_wins(stage: Stage) -> None:
    stage.upload(stage.fill())
    before = assets(stage)
    outcome = stage.upload(stage.fill(content="rebuilt = True"))
    assert set(outcome.names("kept")) == {WHEEL, WHEEL.replace(PYTHON, OTHER_PYTHON)}
    assert assets(stage) == before
    assert any("--discard" in note for note in outcome.notes)
    assert any("another build" in note for note in outcome.notes)  # and its reports were not taken
    go(stage)


def test_a_rebuild_under_another_file_name_does_not_stand_beside_the_first(stage: Stage, tmp_path: Path) -> None:
    stage.upload(stage.fill())
    make_wheel(tmp_path / "rebuilt", platform="manylinux_2_36_x86_64")
    outcome = stage.upload(tmp_path / "rebuilt")
    assert [put.action for put in outcome.puts] == ["kept"]
    assert not [name for name in assets(stage) if "2_36" in name]


def test_discard_starts_a_target_over(stage: Stage) -> None:
    stage.upload(stage.fill())
    removed = discard(stage.draft(), TARGET).removed
    assert set(removed) == {WHEEL, f"{WHEEL}.metadata", f"smoke-{TARGET}.tests.json"}
    lacking = stage.draft().card().lacking_wheels
    assert TARGET in lacking
    assert OTHER_TARGET not in lacking
    outcome = stage.upload(stage.fill(content="rebuilt = True"))
    assert outcome.names("uploaded") == [WHEEL, f"{WHEEL}.metadata", f"smoke-{TARGET}.tests.json"]
    go(stage)


def test_discard_a_test_or_a_file(stage: Stage) -> None:
    stage.upload(stage.fill())
    assert discard(stage.draft(), f"smoke-{TARGET}").removed == (f"smoke-{TARGET}.tests.json",)
    assert set(discard(stage.draft(), WHEEL).removed) == {WHEEL, f"{WHEEL}.metadata"}
    refused(lambda: discard(stage.draft(), "mlir-solaris"), "option-invalid", "there is no target")


def test_a_failing_report_gives_way_to_a_passing_one_and_not_the_other_way(stage: Stage) -> None:
    folder = stage.fill()
    make_report(folder, folder / WHEEL, passed=False, failures=("test_x.py",))
    outcome = stage.upload(folder)
    assert any("test_x.py" in note for note in outcome.notes)
    assert stage.draft().card().lacking_tests[0] == f"smoke-{TARGET}"
    refused(lambda: go(stage), "release-not-ready")
    make_report(folder, folder / WHEEL)
    assert stage.upload(folder).names("uploaded") == [f"smoke-{TARGET}.tests.json"]
    before = assets(stage)
    make_report(folder, folder / WHEEL, passed=False)
    assert stage.upload(folder).names("kept") == [f"smoke-{TARGET}.tests.json"]
    assert assets(stage) == before
    go(stage)


def test_metadata_that_is_missing_is_taken_from_the_wheel_that_stands(stage: Stage) -> None:
    # Killed between a wheel and its metadata; then the target was built again, with other requirements.
    folder = stage.fill()
    stage.upload(folder)
    before = assets(stage)
    release = find_release(stage.again(), TAG)
    beside = release.asset(f"{WHEEL}.metadata")
    assert beside is not None
    stage.forge.delete_asset(release, beside)
    make_wheel(folder, requires=("numpy",))
    stage.upload(folder)
    assert assets(stage) == before
    go(stage)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_nothing_is_uploaded_if_one_file_is_wrong(stage: Stage) -> None:
    folder = stage.fill()
    data = (folder / WHEEL).read_bytes()
    (folder / WHEEL).write_bytes(data[:-50])
    refused(lambda: stage.upload(folder), "file-damaged", "is damaged")
    make_wheel(folder, tag="snapshot-20261120.01")
    refused(lambda: stage.upload(folder), "wheel-unsuitable")
    make_wheel(folder, target="mlir-solaris-sparc-cp312")
    refused(lambda: stage.upload(folder), "option-invalid", "there is no target")
    make_wheel(folder, target=OTHER_TARGET)
    (folder / WHEEL.replace(PYTHON, OTHER_PYTHON)).unlink()
    refused(lambda: stage.upload(folder), "input-invalid")
    assert not assets(stage)


@pytest.mark.parametrize(
    ("tag", "id", "said"),
    [
        ("snapshot-20261120.03", "tag-missing", "there is no tag"),
        ("main", "option-invalid", "'main'"),
        ("llvm-22.1.10", "option-invalid", "'llvm-22.1.10'"),
        ("snapshot-20261120.09", "tag-foreign", "was not made by mlir-release"),
        ("snapshot-20261120.04", "tag-missing", "neither a draft nor a release"),
    ],
)
def test_tags_that_nothing_can_be_published_for(stage: Stage, tag: str, id: str, said: str) -> None:
    head = head_of(stage.forge, "main")
    stage.forge.create_tag("snapshot-20261120.09", head, "by hand\n")
    stage.add_tag("snapshot-20261120.04", "20261120.4", draft=False)
    folder = stage.fill()
    refused(lambda: stage.upload(folder, tag=tag), id, said)
    refused(lambda: stage.publish(tag=tag), id, said)
    refused(lambda: stage.draft(tag).card(), id, said)


def test_a_waived_target_is_not_missed(stage: Stage) -> None:
    stage.upload(stage.fill(pythons=[PYTHON]))
    assert stage.draft().card().lacking_wheels == (OTHER_TARGET, EXPERIMENTAL)
    waive(stage.forge, TAG, OTHER_TARGET, "the runner is gone <b>")
    assert stage.draft().card().lacking_wheels == (EXPERIMENTAL,)
    assert f"smoke-{OTHER_TARGET}" not in stage.draft().card().lacking_tests
    manifest = go(stage).manifest
    assert [(waiver.target, waiver.reason) for waiver in manifest.waivers] == [(OTHER_TARGET, "the runner is gone <b>")]
    assert "### Waived" in find_release(stage.again(), TAG).body
    assert stage.draft().missing_rows("wheels") == []
    assert stage.draft().missing_rows("tests") == []


def test_missing_rows_are_the_jobs_of_what_is_missing(stage: Stage) -> None:
    stage.upload(stage.fill(pythons=[PYTHON]))

    def names(kind: Kind, only: str = "") -> list[str]:
        return [row["name"] for row in stage.draft().missing_rows(kind, only=only)]

    assert names("wheels") == [OTHER_TARGET, EXPERIMENTAL]
    assert names("wheels", "required") == [OTHER_TARGET]
    assert names("sdk") == ["sdk-linux-x86_64"]
    assert f"smoke-{TARGET}" not in names("tests")


def test_what_a_filter_leaves_out_of_what_is_missing_is_named_and_keeps_the_release_back(stage: Stage) -> None:
    stage.upload(stage.fill(pythons=[PYTHON]))

    def left_out(only: str) -> tuple[str, ...]:
        draft = stage.draft()
        draft.missing_rows("platforms", only=only)
        return draft.left_out

    experimental = (EXPERIMENTAL, f"smoke-{EXPERIMENTAL}")
    assert left_out("") == ()
    assert left_out("required") == experimental
    assert left_out(f"python={PYTHON}") == (OTHER_TARGET, f"smoke-{OTHER_TARGET}")
    waive(stage.forge, TAG, OTHER_TARGET, "the runner is gone")
    assert left_out("llvm=mlir-core") == ()
    assert left_out("llvm=mlir") == experimental
    refused(lambda: left_out("os=windows"), "option-invalid", "no target has os 'windows'")


@pytest.mark.parametrize("name", ["notes.txt", "waiver-notes.txt"])
def test_a_draft_is_not_published_with_files_that_nothing_knows(stage: Stage, tmp_path: Path, name: str) -> None:
    stage.upload(stage.fill())
    (tmp_path / name).write_text("remember the milk")
    stage.forge.upload(find_release(stage.again(), TAG), name, tmp_path / name)
    refused(lambda: go(stage), "file-damaged", "is no file that a release has")
    discard(stage.draft(), name)
    go(stage)


def test_metadata_that_an_upload_did_not_come_to_is_added(stage: Stage) -> None:
    # Whoever uploaded the wheel was stopped before its metadata; as the wheel is there, nobody builds it again.
    stage.upload(stage.fill())
    release = find_release(stage.again(), TAG)
    beside = release.asset(f"{WHEEL}.metadata")
    assert beside is not None
    stage.forge.delete_asset(release, beside)
    go(stage)
    restored = find_release(stage.again(), TAG).asset(f"{WHEEL}.metadata")
    assert restored is not None
    assert restored.sha256 == beside.sha256


def test_metadata_that_is_not_the_wheels(stage: Stage, tmp_path: Path) -> None:
    stage.upload(stage.fill())
    release = find_release(stage.again(), TAG)
    beside = release.asset(f"{WHEEL}.metadata")
    assert beside is not None
    stage.forge.delete_asset(release, beside)
    (tmp_path / "METADATA").write_text("Metadata-Version: 2.4\nName: mlir\nVersion: 1\nRequires-Dist: evil\n")
    stage.forge.upload(release, f"{WHEEL}.metadata", tmp_path / "METADATA")
    refused(lambda: go(stage), "file-damaged", "is not the one in the wheel")
    assert find_release(stage.again(), TAG).draft


def test_bytes_that_rotted_on_the_forge(stage: Stage) -> None:
    stage.upload(stage.fill())
    (path,) = (stage.forge.root / "drafts").rglob(WHEEL)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(ReleaseError) as caught:
        go(stage)
    assert caught.value.id in ("forge-damaged", "file-damaged")
    assert f"{WHEEL} " in caught.value.what
    assert find_release(stage.again(), TAG).draft


def test_an_abandoned_tag_is_not_published(stage: Stage) -> None:
    folder = stage.fill()
    stage.upload(folder)
    abandon(stage.forge, TAG, "superseded")
    stage.forge.create_draft(TAG, title="", body="", prerelease=True)  # its deletion was cut off, say
    refused(lambda: stage.upload(folder), "tag-abandoned")
    refused(lambda: go(stage), "tag-abandoned")


def test_two_releases_never_share_a_version(stage: Stage) -> None:
    for tag in ("llvm-22.1.8.01", "llvm-22.1.8.02"):  # both tagged before either was published
        stage.add_tag(tag, "22.1.8")
        stage.upload(stage.fill(tag=tag, version="22.1.8"), tag=tag)
    go(stage, "llvm-22.1.8.02")
    error = refused(lambda: go(stage, "llvm-22.1.8.01"), "already-published")
    assert "llvm-22.1.8.02" in error.what
    assert find_release(stage.again(), "llvm-22.1.8.01").draft


def test_a_release_that_was_published_by_hand(stage: Stage) -> None:
    stage.forge.publish(find_release(stage.forge, TAG))
    refused(lambda: go(stage), "tag-foreign", "has no release.json")


# -- others at the same time -------------------------------------------------------------------------------------------


class HalfForge:
    """The local forge has no incomplete assets; GitHub does. This one shows ``name`` as one until it is deleted."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage, self.name = stage, name
        self.deleted: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self.stage.forge, name)

    def _half(self, asset: Asset) -> Asset:
        cut = asset.name == self.name and asset.name not in self.deleted
        return replace(asset, complete=False, sha256="") if cut else asset

    def drafts(self, tag: str) -> list[Release]:
        return [replace(found, assets=tuple(map(self._half, found.assets))) for found in self.stage.forge.drafts(tag)]

    def refresh(self, release: Release) -> Release:
        (found,) = (found for found in self.drafts(release.tag) if found.id == release.id)
        return found

    def delete_asset(self, release: Release, asset: Asset) -> None:
        self.deleted.append(asset.name)
        self.stage.forge.delete_asset(release, asset)


def test_an_incomplete_asset_is_deleted_and_uploaded_again(stage: Stage) -> None:
    folder = stage.fill()
    stage.upload(folder)
    forge = HalfForge(stage, WHEEL)
    refused(lambda: publish(Draft.load(forge, TAG)), "file-damaged", "was cut off")  # type: ignore[arg-type]
    upload(Draft.load(forge, TAG), folder)  # type: ignore[arg-type]
    assert forge.deleted == [WHEEL]
    assert assets(stage)[WHEEL] == hashlib.sha256((folder / WHEEL).read_bytes()).hexdigest()
    go(stage)


def test_half_a_wheel_that_nothing_needs_does_not_stop_a_release(stage: Stage) -> None:
    stage.fill()
    folder = stage.fill(distribution="mlir-core", pythons=[PYTHON])
    stage.upload(folder)
    core = next(name for name in assets(stage) if name.startswith("mlir_core") and name.endswith(".whl"))
    forge = HalfForge(stage, core)
    outcome = publish(Draft.load(forge, TAG))  # type: ignore[arg-type]
    assert core in forge.deleted
    assert [row.target for row in outcome.manifest.left_out] == [f"mlir-core-linux-x86_64-{PYTHON}"]
    assert core not in assets(stage)


def test_uploads_of_different_builds_at_once_leave_one_whole_build(stage: Stage) -> None:
    folders = []
    for number in range(4):
        stage.dist = stage.dist.parent / f"dist{number}"
        folders.append(stage.fill(content=f"build = {number}", padding=1000 * number))
    assert not any(isinstance(end, Exception) for end in race(4, lambda n: stage.upload(folders[n])))
    found = assets(stage)
    assert len([name for name in found if name.endswith(".whl")]) == 2
    for python in (PYTHON, OTHER_PYTHON):
        name = WHEEL.replace(PYTHON, python)
        digests = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for folder in folders]
        assert found[name] in digests
        report = find_release(stage.again(), TAG).asset(f"smoke-mlir-linux-x86_64-{python}.tests.json")
        if report is not None:  # each build's own report was taken only if its wheel won
            path = next((stage.forge.root / "drafts").rglob(report.name))
            assert json.loads(path.read_text())["wheel_sha256"] == found[name]
    for folder in folders:
        stage.upload(folder)
    go(stage)


def test_publishing_at_once_publishes_once(stage: Stage) -> None:
    stage.upload(stage.fill())
    assert not any(isinstance(end, Exception) for end in race(6, lambda _: go(stage)))
    found = find_release(stage.again(), TAG)
    assert not found.draft
    assert len(found.assets) == 9
    assert go(stage).already


def test_a_waiver_that_comes_during_verification_stops_it(stage: Stage) -> None:
    stage.upload(stage.fill())
    slow = DisturbedForge(stage.again(), lambda *_: waive(stage.again(), TAG, EXPERIMENTAL, "late"))
    refused(lambda: publish(Draft.load(slow, TAG)), "changed-meanwhile")
    assert find_release(stage.again(), TAG).draft
    go(stage)


def test_a_command_downloads_each_report_and_each_waiver_once(stage: Stage) -> None:
    stage.upload(stage.fill(pythons=[OTHER_PYTHON]))
    waive(stage.forge, TAG, TARGET, "no time")
    fetched = Counter[str]()
    forge = DisturbedForge(stage.again(), lambda what, name: fetched.update([name] * (what == "download")))
    report = f"smoke-{OTHER_TARGET}.tests.json"
    draft = Draft.load(forge, TAG)
    assert draft.card() == draft.card()
    assert draft.card().lacking_required == ()
    assert set(draft.card().failing) == {EXPERIMENTAL}
    assert fetched == {report: 1}  # waivers are known by their names
    publish(draft)
    assert fetched[report] == fetched[f"waiver-{TARGET}.json"] == 1
    assert set(fetched.values()) == {1}
