"""`release status`: what it shows, what it asks for, and what it does where it may not see everything."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.console import console
from mlir_release.release.model.release_index import Quality, ReleaseQuality, Revert, to_bytes
from mlir_release.release.transaction.decisions import abandon
from tests.release_stage import NEXT_REVISION, find_release, make_stage
from tests.scale import NOW, REPOSITORY, TAG, Veteran
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON, REVISION, VERSION, make_report, make_wheel
from tests.wheel_factory import TAG as TAG_OF_STAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.release_stage import Stage

PLATFORM = "linux-x86_64"


@pytest.fixture(autouse=True)
def _quiet() -> None:
    console.quiet = True


@pytest.fixture
def veteran(tmp_path: Path) -> Iterator[Veteran]:
    found = Veteran(tmp_path, 12, assets=125)
    with found.github:
        found.now = NOW
        found.ask("snapshot")
        yield found


def run_of(veteran: Veteran, *jobs: tuple[str, str | None]) -> int:
    """The run of :data:`TAG` has these jobs."""
    run = int(veteran.github.repositories[REPOSITORY].runs[-1]["id"])
    for name, conclusion in jobs:
        ended = NOW + timedelta(minutes=3) if conclusion else None
        veteran.github.add_job(
            run, name, labels=("ubuntu-24.04",), started=NOW, completed=ended, conclusion=conclusion
        )  # fmt: skip
    return run


def shown(*options: str, environment: Mapping[str, str]) -> str:
    console.json_mode = False
    done = CliRunner(env=environment).invoke(
        app, ["release", "status", *options], standalone_mode=False, catch_exceptions=False
    )
    assert done.return_value is None, done.output
    return done.stdout


def test_a_build_on_github(veteran: Veteran) -> None:
    run_of(veteran, (f"{PLATFORM} / wheels: {PLATFORM}", "success"), (f"{PLATFORM} / tests: {PLATFORM}", None))
    before = len(veteran.github.requests)
    text = shown(environment=veteran.environment)
    asked = [record for record in veteran.github.requests[before:] if record.operation]
    assert len(asked) <= 12, [record.operation for record in asked]
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines() if "http" not in line), text
    (row,) = [line for line in text.splitlines() if line.split()[:2] == [TAG, "building"]]
    assert "2/2" in row
    (platform,) = [line for line in text.splitlines() if line.strip().startswith(PLATFORM)]
    assert platform.split()[1:3] == ["building", "20261120.02"]
    assert f"{TAG}, building: {veteran.github.url}/{REPOSITORY}/actions/runs/" in text
    assert sum(line.strip().startswith("snapshot-") and "published" in line for line in text.splitlines()) == 9


def test_a_failure_on_github(veteran: Veteran) -> None:
    name = f"{PLATFORM} / sdk: {PLATFORM}"
    run = run_of(veteran, (name, "failure"))
    veteran.github.finish_run(run, "failure")
    veteran.ask("release", "track", TAG, "--log-url", "https://example.org/log")
    data: Any = json.loads(shown("--json", environment=veteran.environment))
    newest = data["releases"][0]
    assert (newest["tag"], newest["state"]) == (TAG, "waiting")
    assert newest["platforms"][PLATFORM]["failed"][0]["text"] == name
    (platform,) = data["platforms"]
    assert (platform["verdict"], platform["red_since"]) == ("failed", TAG)
    assert [issue["text"] for issue in platform["issues"]] == ["#1"]
    text = shown(environment=veteran.environment)
    assert "waiting for waiver" in text
    assert "#1: http" in text


def test_a_token_that_sees_no_drafts(veteran: Veteran) -> None:
    reader = veteran.github.token(scopes=())
    data: Any = json.loads(shown("--json", environment=veteran.environment | {"GITHUB_TOKEN": reader}))
    assert data["releases"][0]["tag"] == TAG
    assert data["releases"][0]["state"] in ("building", "not started")


def test_a_local_forge(stage: Stage) -> None:
    forge = f"local:{stage.forge.root}"
    wheel = make_wheel(stage.dist, python=PYTHON)
    make_report(stage.dist, wheel, target=f"smoke-mlir-{PLATFORM}-{PYTHON}", passed=False)
    stage.upload(stage.dist)
    text = shown("--forge", forge, environment={})
    assert "not started" in text
    assert f"smoke-mlir-{PLATFORM}-{PYTHON}" in text
    stage.forge.dispatch("release.yml", ref=stage.tag, inputs={})
    assert "building" in shown("--forge", forge, environment={})
    abandon(stage.forge, stage.tag, "nobody needs it")
    assert f"{stage.tag} was abandoned: nobody needs it" in shown("--forge", forge, environment={})


def test_what_was_measured_goes_from_the_report_to_manifest_notes_and_status(tmp_path: Path) -> None:
    """Of two releases: in the second parsing takes longer, and importing doesn't. Printing wasn't measured before."""
    row = make_row(suites=["smoke", "performance"])
    stage = make_stage(tmp_path, targets=make_targets(row, pythons=[PYTHON]))
    tags = {TAG_OF_STAGE: VERSION, "snapshot-20261120.03": "20261120.3"}
    measured = ({"parse": 20_000_000, "import": 7_000_000}, {"parse": 25_000_000, "import": 7_001_000, "print": 9})
    target = f"performance-mlir-{PLATFORM}-{PYTHON}"
    for (tag, version), measures in zip(tags.items(), measured, strict=True):
        if tag != TAG_OF_STAGE:
            stage.add_tag(tag, version, revision=NEXT_REVISION)
        revision = REVISION if tag == TAG_OF_STAGE else NEXT_REVISION
        folder = stage.fill(tag=tag, version=version, revision=revision, pythons=[PYTHON])
        (wheel,) = folder.glob("*.whl")
        make_report(folder, wheel, suite="performance", target=target, measures=measures)
        manifest = stage.publish(folder, tag=tag).manifest
        assert {test.name: test.measures for test in manifest.tests}[target] == measures
    bodies = [find_release(stage.forge, tag).body for tag in tags]
    assert "### Performance" not in bodies[0]
    assert f"### Performance\n\n- parse +25.0% ({target})\n" in bodies[1]
    forge = f"local:{stage.forge.root}"
    data: Any = json.loads(shown("--json", "--forge", forge, environment={}))
    points = {row["measure"]: row["points"] for row in data["measures"]["snapshot"]}
    assert {name: [point["change"] for point in row] for name, row in points.items()} == {
        "parse": [None, 0.25], "import": [None, None], "print": [None]
    }  # fmt: skip
    text = shown("--forge", forge, environment={})
    assert f"snapshot-20261120.03: parse +25.0% ({target})" in text
    assert text.count("%") == 1


def test_a_draft_that_can_not_be_read_is_noted_and_the_rest_is_shown(stage: Stage, tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.write_text("{")
    draft = stage.draft().release
    stage.forge.upload(draft, f"smoke-mlir-{PLATFORM}-{PYTHON}.tests.json", report)
    data: Any = json.loads(shown("--json", "--forge", f"local:{stage.forge.root}", environment={}))
    assert [release["tag"] for release in data["releases"]] == [stage.tag]
    assert any(note.startswith(f"the draft of {stage.tag} can't be read") for note in data["notes"])


def test_a_snapshot_with_a_commit_that_upstream_has_reverted_is_noted(stage: Stage) -> None:
    main = stage.forge.head("main")
    reverts = [Revert(commit=c * 40, subject="x", by="e" * 40, date="2026-11-21T00:00:00Z") for c in "ab"]
    quality = Quality(repository="local", releases={stage.tag: ReleaseQuality(reverted=tuple(reverts))})
    head = stage.forge.commit(
        "latest", expected=None, base=main, files={"quality.json": to_bytes(quality)}, message="Learn\n"
    )
    forge = f"local:{stage.forge.root}"
    data: Any = json.loads(shown("--json", "--forge", forge, environment={}))
    note = f"upstream has reverted 2 commits of {stage.tag} since: mlir-release release reverts {stage.tag}"
    assert note in data["notes"]
    stage.forge.commit("latest", expected=head, files={"quality.json": b"{"}, message="Break\n")
    data = json.loads(shown("--json", "--forge", forge, environment={}))
    assert note not in data["notes"]
    assert any("what was reverted since can't be read" in each for each in data["notes"])


def test_the_page_beside_the_index(veteran: Veteran) -> None:
    run_of(veteran, (f"{PLATFORM} / sdk: {PLATFORM}", "failure"))
    veteran.index(folder="site")
    page = (veteran.folder / "site" / "status" / "index.html").read_text()
    data = json.loads((veteran.folder / "site" / "status" / "status.json").read_text())
    assert data["releases"][0]["tag"] == TAG
    assert f"<td>{TAG} <small>" in page  # as everywhere on the pages
    assert TAG.removeprefix("snapshot-") not in page.replace(TAG, "")
    assert "<script" not in page
    assert "from local" not in page  # nobody else can look there
    assert "Charts" not in page  # nothing was measured
    assert 'href="status/"' in (veteran.folder / "site" / "index.html").read_text()
    assert str(veteran.folder) not in page
    # It is of its moment, and drawn again each time; the other pages stay as they are.
    veteran.now = NOW + timedelta(hours=2)
    veteran.index(folder="site")
    again = (veteran.folder / "site" / "status" / "index.html").read_text()
    assert again != page
    assert again.replace("14:00", "12:00").replace("2026-11-20T14", "2026-11-20T12") == page
