"""Issues on GitHub: opened, updated and closed by themselves, with every answer lost once."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.job_names import sdk_jobs
from mlir_release.operate.issues import IssuePlace, track
from mlir_release.release.forge.github.client import GitHubClient
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.forge.github.issues import LABEL, GitHubTracker
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.transaction import decisions
from mlir_release.release.transaction.start import start
from tests.github_server import Fault, GitHubServer, Record
from tests.refusals import refused
from tests.release_stage import NOW, REQUIRED_TARGETS, TARGETS, Stage, make_stage
from tests.revision_factory import make_revision
from tests.wheel_factory import OTHER_PYTHON, PYTHON, REVISION, make_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.ground.hosting import Issue
    from mlir_release.release.forge.local.forge import LocalForge

REPOSITORY = "llvm/mlir-wheels"
HOUR = timedelta(hours=1)


@pytest.fixture
def github(tmp_path: Path, without_waiting: None) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository(REPOSITORY, {"README": b"wheels\n"})
        yield server


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path, targets=REQUIRED_TARGETS)


def tracker_of(github: GitHubServer) -> GitHubTracker:
    return GitHubTracker(GitHubClient(REPOSITORY, token=github.token(), api=github.api_url, server=github.url))


@pytest.mark.parametrize("lost", [False, True])
def test_an_issue_lives_as_long_as_its_target_fails(github: GitHubServer, stage: Stage, *, lost: bool) -> None:
    tracker = tracker_of(github)
    seen: set[str] = set()

    def lose_each_answer_once(record: Record) -> Fault | None:
        if record.method == "GET" or record.path in seen:
            return None
        seen.add(record.path)
        return Fault(drop="after")

    if lost:
        github.faults = lose_each_answer_once
    folder = stage.fill(pythons=[OTHER_PYTHON])
    stage.upload(folder)
    found = track(stage.forge, tracker, stage.tag)
    (issue,) = tracker.open_issues()
    target = f"mlir-linux-x86_64-{PYTHON}"
    assert list(found.failing) == [target]
    assert issue.title == f"{target} fails"
    assert track(stage.forge, tracker, stage.tag).steps == ()

    wheel = next(stage.fill().glob(f"mlir-*{PYTHON}-*.whl"))
    make_report(folder, wheel, passed=False, failures=("test_`x`", "@everybody"))
    stage.upload(folder)
    track(stage.forge, tracker, stage.tag)
    (issue,) = tracker.open_issues()
    assert issue.title == f"smoke-{target} fails"
    assert "```text\ntest_`x`\n@everybody\n```" in issue.body

    make_report(folder, wheel)
    stage.publish(folder)
    track(stage.forge, tracker, stage.tag)
    assert tracker.open_issues() == []
    rows = github.repositories[REPOSITORY].issues
    assert len(rows) == 2
    assert all(row["state"] == "closed" and "Works again" in row["body"] for row in rows)


@pytest.mark.parametrize("kind", ["ghs", "ghp"])
def test_a_repository_without_the_label_gets_it(github: GitHubServer, kind: str) -> None:
    """GitHub drops a label that does not exist from the issue of a job, and says nothing."""
    client = GitHubClient(REPOSITORY, token=github.token(kind=kind), api=github.api_url, server=github.url)
    for number in (1, 2):
        opened = GitHubTracker(client).open(f"snapshot/t{number}", "t fails", "why")
        assert opened.number == number
    assert [issue.number for issue in GitHubTracker(client).open_issues()] == [1, 2]
    assert github.repositories[REPOSITORY].labels == {LABEL}


def test_an_issue_that_gets_no_label_is_closed_at_once(github: GitHubServer) -> None:
    """Nobody would find it: each run would open another."""

    def delete_the_label(record: Record) -> None:
        if record.path.endswith("/issues"):
            github.repositories[REPOSITORY].labels.clear()

    github.faults = delete_the_label
    error = refused(lambda: tracker_of(github).open("snapshot/t", "t fails", "why"), "token-lacks-right")
    assert "issues: write" in error.remedy
    assert [issue["state"] for issue in github.repositories[REPOSITORY].issues] == ["closed"]


def test_an_issue_of_a_release_that_was_given_up_follows_the_next_one(github: GitHubServer, stage: Stage) -> None:
    tracker, after = tracker_of(github), "snapshot-20261121.01"
    stage.upload(stage.fill(pythons=[OTHER_PYTHON]))
    track(stage.forge, tracker, stage.tag)
    before = tracker.open_issues()
    assert [issue.key for issue in before] == [f"snapshot/mlir-linux-x86_64-{PYTHON}"]
    decisions.abandon(stage.forge, stage.tag, "superseded")
    assert track(stage.forge, tracker, stage.tag).steps == ()
    assert tracker.open_issues() == before
    stage.add_tag(after, "20261121.1", revision="b" * 40)
    folder = stage.fill(tag=after, version="20261121.1", revision="b" * 40, pythons=[OTHER_PYTHON])
    stage.upload(folder, tag=after)
    track(stage.forge, tracker, after)
    (issue,) = tracker.open_issues()
    assert f"First failed in: `{stage.tag}`\nLast failed in: `{after}`" in issue.body


def test_a_target_that_was_waived_is_not_well_again(github: GitHubServer, stage: Stage) -> None:
    tracker = tracker_of(github)
    wheel, test = f"mlir-linux-x86_64-{PYTHON}", f"smoke-mlir-linux-x86_64-{OTHER_PYTHON}"
    folder = stage.fill(pythons=[OTHER_PYTHON])
    make_report(folder, next(folder.glob("*.whl")), target=test, passed=False)
    stage.upload(folder)
    track(stage.forge, tracker, stage.tag)
    assert {issue.key for issue in tracker.open_issues()} == {f"snapshot/{wheel}", f"snapshot/{test}"}
    decisions.waive(stage.forge, stage.tag, wheel, "no time")
    assert track(stage.forge, tracker, stage.tag).steps == ()


def test_an_experimental_target_has_an_issue_until_it_is_released(github: GitHubServer, tmp_path: Path) -> None:
    stage, tracker = make_stage(tmp_path / "other"), tracker_of(github)
    core = f"mlir-core-linux-x86_64-{PYTHON}"
    stage.upload(stage.fill())
    track(stage.forge, tracker, stage.tag)
    (issue,) = tracker.open_issues()
    assert issue.title == f"{core} fails (experimental)"
    stage.publish()
    assert track(stage.forge, tracker, stage.tag).steps == ()  # published without it

    # In the next release its wheel is there, and fails its test: also after that wheel was left out.
    after = "snapshot-20261121.01"
    stage.add_tag(after, "20261121.1", revision="b" * 40)
    options: Any = {"tag": after, "version": "20261121.1", "revision": "b" * 40}
    stage.upload(stage.fill(**options), tag=after)
    folder = stage.fill(**options, pythons=[PYTHON], distribution="mlir-core")
    make_report(folder, next(folder.glob("mlir_core-*.whl")), target=f"smoke-{core}", passed=False, failures=("a",))
    stage.upload(folder, tag=after)
    for _ in range(2):
        track(stage.forge, tracker, after)
        (issue,) = tracker.open_issues()
        assert issue.title == f"smoke-{core} fails (experimental)"
        assert "1 test failed" in issue.body
        stage.publish(tag=after)

    last = "snapshot-20261122.01"
    stage.add_tag(last, "20261122.1", revision="c" * 40)
    options |= {"tag": last, "version": "20261122.1", "revision": "c" * 40}
    stage.upload(stage.fill(**options), tag=last)
    stage.publish(stage.fill(**options, pythons=[PYTHON], distribution="mlir-core"), tag=last)
    track(stage.forge, tracker, last)
    assert tracker.open_issues() == []


# -- what the jobs tell --------------------------------------------------------------------------------------------

SDK = "sdk-linux-x86_64"
TARGET = f"mlir-linux-x86_64-{PYTHON}"
FIRST, SECOND = sdk_jobs("linux-x86_64")
OTHER = f"mlir-linux-x86_64-{OTHER_PYTHON}"
WHEEL = "wheels: linux-x86_64"


@pytest.fixture
def release(github: GitHubServer, stage: Stage) -> GitHubServer:
    """The stage's tag on GitHub, too, where its runs are."""
    git = github.repositories[REPOSITORY].git
    git.run("tag", stage.tag, "main")
    return github


def add_run(github: GitHubServer, tag: str, *jobs: tuple[str, str]) -> int:
    """A run with jobs of the platform's chain: name, conclusion."""
    run = github.add_run(REPOSITORY, "release.yml", ref=tag, created=NOW)
    for name, conclusion in jobs:
        github.add_job(
            run,
            f"linux-x86_64 / {name}",
            labels=["ubuntu-24.04"],
            started=NOW,
            completed=NOW + HOUR,
            conclusion=conclusion,
        )
    github.finish_run(run, "failure")
    return run


def look(github: GitHubServer, stage: Stage, *, token: str | None = None) -> list[Issue]:
    """Track the stage's release with what GitHub tells of its runs."""
    client = GitHubClient(REPOSITORY, token=token or github.token(), api=github.api_url, server=github.url)
    place = IssuePlace(forge=f"github:{REPOSITORY}", repository=f"github.example/{REPOSITORY}")
    forge = Seen(stage.forge, GitHubForge(client))
    track(forge, GitHubTracker(client), stage.tag, place=place)
    return list(tracker_of(github).open_issues())


class Seen:
    """The stage's forge, with the runs that GitHub has."""

    def __init__(self, forge: LocalForge, github: GitHubForge) -> None:
        self._forge = forge
        self.runs, self.services = github.runs, github.services

    def __getattr__(self, name: str) -> Any:
        return getattr(self._forge, name)


def test_an_issue_links_the_job_and_has_the_commands(release: GitHubServer, stage: Stage) -> None:
    stage.upload(stage.fill(pythons=[OTHER_PYTHON]))
    run = add_run(release, stage.tag, (FIRST, "success"), (WHEEL, "failure"))
    (issue,) = look(release, stage)
    assert issue.key == f"snapshot/{TARGET}"
    assert f"[`linux-x86_64 / {WHEEL}`]({release.api_url}/repos/{REPOSITORY}/actions/jobs/" in issue.body
    assert "ended as *failure*" in issue.body
    assert f"gh run rerun {run} --failed --repo github.example/{REPOSITORY}" in issue.body
    assert f"mlir-release release abandon {stage.tag} --reason" in issue.body
    before = len(release.requests)
    assert look(release, stage) == [issue]
    asked = release.requests[before:]
    assert {record.method for record in asked} == {"GET"}
    assert not [record for record in asked if record.path.endswith("/logs")]


def test_jobs_that_can_not_be_read_keep_nothing_from_being_tracked(release: GitHubServer, stage: Stage) -> None:
    add_run(release, stage.tag, (FIRST, "success"), (WHEEL, "failure"))
    release.faults = lambda record: Fault(status=403, message="no") if "/actions/" in record.path else None
    (issue,) = look(release, stage)
    assert issue.key == f"snapshot/{SDK}"
    assert "no wheel of this platform at all" in issue.body


def test_a_platform_without_an_sdk_has_one_issue(release: GitHubServer, stage: Stage) -> None:
    add_run(release, stage.tag, (FIRST, "failure"), (WHEEL, "failure"))
    (issue,) = look(release, stage)
    assert (issue.key, issue.title) == (f"snapshot/{SDK}", f"{SDK} fails")
    assert f"[`linux-x86_64 / {FIRST}`]" in issue.body
    assert f"[`linux-x86_64 / {WHEEL}`]" not in issue.body
    for name in (TARGET, OTHER):
        assert f"- `{name}`" in issue.body

    # The next run gets past it: one wheel is made, the other fails by itself.
    add_run(release, stage.tag, (FIRST, "success"), (WHEEL, "failure"))
    stage.upload(stage.fill(pythons=[OTHER_PYTHON]))
    (issue,) = look(release, stage)
    assert issue.key == f"snapshot/{TARGET}"


# -- the command ---------------------------------------------------------------------------------------------------


def test_the_command_on_github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with GitHubServer(tmp_path / "github") as github:
        github.add_repository(REPOSITORY, {"llvm-project.version": b"a" * 40 + b"\n", "targets.toml": TARGETS.encode()})
        for key, value in github.environment(REPOSITORY, github.token()).items():
            monkeypatch.setenv(key, value)
        monkeypatch.setenv("GITHUB_RUN_ID", "12")
        forge = GitHubForge.open(REPOSITORY)
        made = start(forge, make_revision(REVISION), Matrix.parse(TARGETS), request_id="r")
        (dispatched,) = github.dispatches
        github.add_job(
            dispatched.run_id, FIRST, labels=["ubuntu-24.04"], started=NOW, completed=NOW, conclusion="failure"
        )
        done = CliRunner().invoke(
            app, ["release", "track", made.tag, "--forge", f"github:{REPOSITORY}"], standalone_mode=False
        )
        assert done.exception is None, done.output
        assert f"fails: {SDK}: there is no SDK" in done.stdout
        assert f"open the issue of snapshot/{SDK}" in done.stdout
        (row,) = github.repositories[REPOSITORY].issues
    for line in (
        f"([log]({github.url}/{REPOSITORY}/actions/runs/12))",
        f"export MLIR_RELEASE_FORGE=github:{REPOSITORY}",
        f"mlir-release release dispatch release.yml --ref {made.tag}",
        f"gh run rerun {dispatched.run_id} --failed --repo {github.url.partition('//')[2]}/{REPOSITORY}",
        "ended as *failure*",
    ):
        assert line in row["body"]


def test_a_local_forge_keeps_its_issues_as_files(stage: Stage) -> None:
    stage.upload(stage.fill(pythons=[OTHER_PYTHON]))
    command = ["release", "track", stage.tag, "--forge", f"local:{stage.forge.root}"]
    done = CliRunner().invoke(app, [*command, "--dry-run"], standalone_mode=False)
    assert done.exception is None, done.output
    assert f"fails: {TARGET}: there is no wheel" in done.stdout
    assert f"would open the issue of snapshot/{TARGET}" in done.stdout
    assert stage.forge.services.tracker.open_issues() == []
    found = json.loads(CliRunner().invoke(app, [*command, "--json"], standalone_mode=False).stdout)
    assert list(found["failing"]) == [TARGET]
    (issue,) = stage.forge.services.tracker.open_issues()
    assert [step["url"] for step in found["steps"]] == [issue.url]
    assert issue.title == f"{TARGET} fails"


def test_a_strangers_issue_is_none_of_ours(github: GitHubServer) -> None:
    tracker = tracker_of(github)
    issue = tracker.open("snapshot/a", "a fails", "why")
    row = github.repositories[REPOSITORY].issues[0]
    assert row["labels"] == [LABEL]
    row["labels"] = []
    assert tracker.open_issues() == []
    assert issue.body == "why"
