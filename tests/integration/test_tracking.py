"""Issues on GitHub: opened, updated and closed by themselves, with every answer lost once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.forge import github_client
from mlir_release.forge.github_client import GitHubClient
from mlir_release.forge.github_tracker import LABEL, GitHubTracker
from mlir_release.publish import decisions
from mlir_release.publish import release as releases
from mlir_release.publish.tracking import track
from tests.github_server import Fault, GitHubServer, Record
from tests.github_server.contract import Contract
from tests.github_server.routes import ROUTES
from tests.release_stage import Stage, make_stage
from tests.wheel_factory import OTHER_PYTHON, PYTHON, make_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPOSITORY = "llvm/mlir-wheels"


@pytest.fixture(scope="module")
def contract() -> Contract:
    try:
        return Contract(ROUTES)
    except RuntimeError as error:
        pytest.skip(f"NOT HELD AGAINST GITHUB'S DESCRIPTION: {error}")


@pytest.fixture
def github(tmp_path: Path, contract: Contract, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    monkeypatch.setattr(github_client, "FIRST_WAIT", 0.0)
    with GitHubServer(tmp_path / "github", contract=contract) as server:
        server.add_repository(REPOSITORY, {"README": b"wheels\n"})
        yield server
    assert server.violations == []


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


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
    releases.upload(stage.forge, stage.tag, folder, stage.matrix)
    found = track(stage.forge, tracker, stage.tag, stage.matrix)
    (issue,) = tracker.open_issues()
    target = f"mlir-linux-x86_64-{PYTHON}"
    assert list(found.findings.failing) == [target]
    assert issue.title == f"{target} fails"
    assert track(stage.forge, tracker, stage.tag, stage.matrix).steps == ()

    wheel = next(stage.fill().glob(f"mlir-*{PYTHON}-*.whl"))
    make_report(folder, wheel, passed=False, failures=("test_`x`", "@everybody"))
    releases.upload(stage.forge, stage.tag, folder, stage.matrix)
    track(stage.forge, tracker, stage.tag, stage.matrix)
    (issue,) = tracker.open_issues()
    assert issue.title == f"smoke-{target} fails"
    assert "```text\ntest_'x'\n@everybody\n```" in issue.body

    make_report(folder, wheel)
    releases.upload(stage.forge, stage.tag, folder, stage.matrix)
    releases.publish(stage.forge, stage.tag, stage.matrix)
    track(stage.forge, tracker, stage.tag, stage.matrix)
    assert tracker.open_issues() == []
    rows = github.repositories[REPOSITORY].issues
    assert len(rows) == 2
    assert all(row["state"] == "closed" and "Well again" in row["body"] for row in rows)


def test_a_release_that_was_given_up_changes_nothing(github: GitHubServer, stage: Stage) -> None:
    tracker = tracker_of(github)
    track(stage.forge, tracker, stage.tag, stage.matrix)
    before = tracker.open_issues()
    assert len(before) == 2
    decisions.abandon(stage.forge, stage.tag, "never mind")
    assert track(stage.forge, tracker, stage.tag, stage.matrix).steps == ()
    assert tracker.open_issues() == before


def test_a_strangers_issue_is_none_of_ours(github: GitHubServer) -> None:
    tracker = tracker_of(github)
    issue = tracker.open("snapshot/a", "a fails", "why")
    row = github.repositories[REPOSITORY].issues[0]
    assert row["labels"] == [LABEL]
    row["labels"] = []
    assert tracker.open_issues() == []
    assert issue.body == "why"
