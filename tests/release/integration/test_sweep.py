"""Sweeps on a real local forge: what becomes of pending snapshots while days go by."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.console import console
from mlir_release.release.forge.files import head_of
from mlir_release.release.transaction.decisions import waive
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.sweep import SweepOutcome, sweep
from tests.disturbed_forge import DisturbedForge
from tests.release.integration.sweep_stage import SweepStage, revision_of
from tests.wheel_factory import OTHER_PYTHON, PYTHON

if TYPE_CHECKING:
    from pathlib import Path

EXPERIMENTAL = f"mlir-core-linux-x86_64-{PYTHON}"
TARGET = f"mlir-linux-x86_64-{PYTHON}"


@pytest.fixture
def stage(tmp_path: Path) -> SweepStage:
    return SweepStage(tmp_path)


def go(stage: SweepStage, *, dry_run: bool = False) -> dict[tuple[str, str], str]:
    """Sweep; the results by tag and action."""
    return results(sweep(stage.forge, branch="main", dry_run=dry_run))


def results(outcome: SweepOutcome) -> dict[tuple[str, str], str]:
    return {(row.tag, row.action): row.result for row in outcome.rows}


def pages(stage: SweepStage) -> list[str]:
    """The tags that the pages were dispatched for, oldest first, but for those that only show a new tag."""
    return [run.inputs["tag"] for run in stage.forge.runs("pages.yml", ref="main") if run.inputs["tag"]][::-1]


# -- publishing -----------------------------------------------------------------------------------------------------


def test_nothing_is_pending(stage: SweepStage) -> None:
    outcome = sweep(stage.forge, branch="main")
    assert (outcome.rows, outcome.text()) == ((), "nothing is pending")


def test_what_is_complete_is_published_once_its_build_is_over(stage: SweepStage) -> None:
    tag = stage.snapshot()
    stage.fill(tag)
    assert go(stage) == {(tag, "wait"): ""}
    stage.end_run("failure")
    assert go(stage) == {(tag, "publish"): "done", (tag, "pages"): "done"}
    assert stage.state(tag) == "published"
    assert pages(stage) == [tag]
    stage.wait(1)
    assert go(stage) == {}
    release = stage.release(tag)
    assert release is not None
    assert f"`{EXPERIMENTAL}`" in release.body


def test_the_deadline_publishes_without_what_still_builds(stage: SweepStage) -> None:
    tag = stage.snapshot()
    stage.fill(tag)
    stage.wait(23.9)
    assert go(stage) == {(tag, "wait"): ""}
    stage.wait(0.1)
    assert go(stage)[tag, "publish"] == "done"
    # The run goes on: what it brings is not taken, and its steps succeed.
    draft = Draft.load(stage.forge, tag)
    before = draft.release
    stage.fill(tag, [PYTHON], distribution="mlir-core")
    again = publish(Draft.load(stage.forge, tag))
    assert again.already
    assert "was published already" in again.text()
    assert stage.release(tag) == before
    assert Draft.load(stage.forge, tag).missing_rows("wheels") == draft.missing_rows("wheels") == []
    assert draft.missing_rows("tests") == []


def test_a_sweep_that_publishes_in_the_middle_of_an_upload(stage: SweepStage) -> None:
    tag = stage.snapshot()
    stage.fill(tag)
    stage.wait(24)
    swept: list[object] = []

    def sweep_first(what: str, name: str) -> None:
        if not swept and name.endswith(".whl"):
            swept.append(go(stage))

    stage.fill(tag, [PYTHON], distribution="mlir-core", forge=DisturbedForge(stage.forge, sweep_first))
    assert swept == [{(tag, "publish"): "done", (tag, "pages"): "done"}]
    release = stage.release(tag)
    assert release is not None
    assert not [asset for asset in release.assets if asset.name.startswith("mlir_core")]


def test_failing_and_missing_targets_are_named_and_block(stage: SweepStage) -> None:
    failing, missing = stage.snapshot(), stage.snapshot()
    stage.fill(failing, passed=False)
    stage.fill(missing, [OTHER_PYTHON])
    for _ in range(2):
        stage.end_run()
    found = sweep(stage.forge, branch="main")
    assert results(found) == {(failing, "blocked"): "", (missing, "blocked"): ""}
    first, second = (row.reason for row in found.rows)
    assert f"smoke-{TARGET}" in first
    assert TARGET in second
    assert OTHER_PYTHON not in second
    waive(stage.forge, missing, TARGET, "broken")
    assert go(stage)[missing, "publish"] == "done"


def test_a_draft_that_can_never_be_verified_makes_way_for_a_newer_one(stage: SweepStage) -> None:
    tag = stage.snapshot()
    stage.fill(tag)
    stage.end_run()
    release = stage.release(tag)
    assert release is not None
    stage.forge.upload(release, "by-hand.txt", stage.root / "forge" / "repository.git" / "HEAD")
    stage.wait(72)
    assert go(stage) == {(tag, "publish"): "failed"}
    newer = stage.snapshot()
    assert go(stage) == {(tag, "publish"): "failed", (tag, "abandon"): "done", (newer, "wait"): ""}
    assert stage.state(tag) == "abandoned"
    (state, _) = Ledger(stage.forge, whole=True).states
    assert state.reason.endswith("by-hand.txt is no file that a release has")


def test_another_process_that_changes_the_draft_is_no_failure(stage: SweepStage) -> None:
    tag = stage.snapshot()
    stage.fill(tag)
    stage.end_run()

    def upload_meanwhile(what: str, name: str) -> None:
        if (what, name) == ("upload", "release.json"):  # all is verified then
            stage.fill(tag, [PYTHON], distribution="mlir-core")

    disturbed = DisturbedForge(stage.forge, upload_meanwhile)
    assert results(sweep(disturbed, branch="main")) == {(tag, "publish"): "not yet"}
    assert go(stage)[tag, "publish"] == "done"
    assert {wheel.target for wheel in publish(Draft.load(stage.forge, tag)).manifest.wheels} >= {EXPERIMENTAL, TARGET}


# -- the pages ------------------------------------------------------------------------------------------------------


def test_a_release_whose_pages_were_not_dispatched(stage: SweepStage) -> None:
    """Whoever published it was killed before its next step."""
    tag = stage.snapshot(shown=False)
    stage.fill(tag)
    publish(Draft.load(stage.forge, tag))
    assert go(stage) == {}  # it may be about to
    stage.wait(1)
    assert go(stage) == {(tag, "pages"): "done"}
    assert go(stage) == {}
    # Releases that are not ours have no pages.
    head = head_of(stage.forge, "main")
    stage.forge.create_tag("v1.0.0", head, "By hand\n")
    stage.forge.publish(stage.forge.create_draft("v1.0.0", title="", body="", prerelease=False))
    stage.wait(1)
    assert go(stage) == {}
    failed = stage.forge
    run = failed.take_run("pages.yml")
    assert run is not None
    failed.finish_run(run, "failure")
    assert go(stage) == {(tag, "pages"): "done"}


def test_a_tag_that_the_pages_do_not_show_yet(stage: SweepStage) -> None:
    """What is being built is on them, too; a tag that is given up is not worth a run."""
    tag = stage.snapshot(shown=False)
    assert go(stage, dry_run=True) == {(tag, "pages"): "planned", (tag, "wait"): ""}
    assert go(stage) == {(tag, "pages"): "done", (tag, "wait"): ""}
    (run,) = stage.forge.runs("pages.yml", ref="main")
    assert run.inputs == {"tag": ""}  # there is no release to check
    assert go(stage) == {(tag, "wait"): ""}
    stage.end_run("failure", workflow="pages.yml")
    assert go(stage) == {(tag, "pages"): "done", (tag, "wait"): ""}


def test_one_run_of_the_pages_shows_all_that_a_sweep_did(stage: SweepStage) -> None:
    complete = stage.snapshot()
    stage.fill(complete)
    stage.end_run()
    stage.wait(1)
    begun = stage.snapshot(shown=False)
    assert go(stage) == {(complete, "publish"): "done", (complete, "pages"): "done", (begun, "wait"): ""}
    assert pages(stage) == [complete]


# -- abandoning -----------------------------------------------------------------------------------------------------


def test_superseded_snapshots_are_abandoned_with_the_reason(stage: SweepStage) -> None:
    tags = []
    for _ in range(5):
        tags.append(stage.snapshot())
        stage.fill(tags[-1], [OTHER_PYTHON])
        stage.end_run()
        go(stage)
        stage.wait(24)
    assert [stage.state(tag) for tag in tags] == ["abandoned", "abandoned", "draft", "draft", "draft"]
    by_tag = {state.name: state for state in Ledger(stage.forge, whole=True).states}
    assert by_tag[tags[0]].reason == (
        f"superseded by {tags[3]}; not published within 72 hours; missing or failing: {TARGET}"
    )
    assert not list((stage.root / "forge" / "drafts").glob(f"*{tags[0]}*"))
    assert len([release for release in stage.forge.releases() if release.draft]) == 3


# -- completing what was begun --------------------------------------------------------------------------------------


def test_a_tag_without_a_draft_gets_one(stage: SweepStage) -> None:
    tag = stage.snapshot(draft=False, dispatched=False)
    stage.wait(1)
    assert go(stage) == {(tag, "dispatch"): "done"}
    (draft,) = stage.forge.drafts(tag)
    assert revision_of(tag) in draft.body
    assert len(stage.forge.runs("release.yml", ref=tag)) == 1


def test_a_second_draft_goes_if_it_is_empty(stage: SweepStage) -> None:
    tag = stage.snapshot()
    stage.forge.create_draft(tag, title=tag, body="", prerelease=True)
    stage.fill(tag)
    assert go(stage) == {(tag, "delete"): "done", (tag, "wait"): ""}
    (draft,) = stage.forge.drafts(tag)
    assert draft.assets
    second = stage.forge.create_draft(tag, title=tag, body="", prerelease=True)
    stage.forge.upload(second, "by-hand.txt", stage.root / "forge" / "repository.git" / "HEAD")
    found = sweep(stage.forge, branch="main")
    assert "left 1 with assets" in next(row.detail for row in found.rows if row.action == "delete")
    assert len(stage.forge.drafts(tag)) == 2


# -- failures -------------------------------------------------------------------------------------------------------


def test_a_tag_that_cannot_be_read_is_a_failure_of_its_own(stage: SweepStage) -> None:
    tag = stage.snapshot()
    stage.fill(tag)
    stage.end_run()
    head = head_of(stage.forge, "main")
    targets = stage.forge.read("targets.toml", commit=head)
    assert targets is not None
    broken = stage.forge.commit("main", expected=head, files={"targets.toml": b"schema = 1\n"}, message="Break it\n")
    other = stage.snapshot()
    stage.forge.commit("main", expected=broken, files={"targets.toml": targets}, message="Repair it\n")
    stage.end_run()
    outcome = sweep(stage.forge, branch="main")
    assert [(error.id) for error in outcome.failures] == ["config-invalid"]
    assert results(outcome)[other, "blocked"] == "failed"
    assert stage.state(tag) == "published"


# -- the command ----------------------------------------------------------------------------------------------------


def call(stage: SweepStage, *options: str) -> tuple[int, str]:
    console.json_mode = False
    command = ["release", "sweep", "--forge", f"local:{stage.root / 'forge'}", *options]
    done = CliRunner().invoke(app, command, standalone_mode=False, catch_exceptions=False)
    return done.return_value or 0, done.stdout


def test_the_command_shows_a_plan_and_changes_nothing(
    stage: SweepStage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tag = stage.snapshot()
    stage.fill(tag)
    stage.end_run()
    before = stage.forge.releases()
    summary = tmp_path / "summary"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert go(stage, dry_run=True) == {(tag, "publish"): "planned"}
    code, shown = call(stage, "--dry-run", "--json")
    (row,) = json.loads(shown)["rows"]
    assert (code, row["tag"], row["action"], row["result"]) == (0, tag, "publish", "planned")
    code, shown = call(stage, "--dry-run")
    assert "its build is over" in shown
    assert f"| {tag} | publish | planned |" in summary.read_text()
    assert stage.forge.releases() == before


def test_the_exit_code_is_that_of_the_first_failure_and_the_others_are_done(stage: SweepStage) -> None:
    broken, whole = stage.snapshot(), stage.snapshot()
    for tag in (broken, whole):
        stage.fill(tag)
        stage.end_run()
    release = stage.release(broken)
    assert release is not None
    stage.forge.upload(release, "by-hand.txt", stage.root / "forge" / "repository.git" / "HEAD")
    code, shown = call(stage, "--json")
    rows = {(row["tag"], row["action"]): row for row in json.loads(shown)["rows"]}
    assert code == 6
    assert rows[broken, "publish"]["error"]["error"] == "file-damaged"
    assert rows[whole, "publish"]["result"] == "done"
    assert stage.state(whole) == "published"
