"""The standing issue of a roller: it is one, whatever people and killed runs did to it, and quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from mlir_release.integrate.walk.roll import RollState, track
from mlir_release.release.forge.github.client import GitHubClient
from mlir_release.release.forge.github.issues import ROLL_LABEL, GitHubTracker
from mlir_release.release.forge.open import open_roll_issues
from tests.github_server import GitHubServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.ground.hosting import Issue

REPOSITORY = "ours/downstream"
CULPRIT, OTHER = "c" * 40, "d" * 40


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    """With the token of the job that keeps the issue."""
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository(REPOSITORY, {"README": b"ours\n"})
        for name, value in server.environment(REPOSITORY, server.token(scopes=("issues",))).items():
            monkeypatch.setenv(name, value)
        yield server


def state(**changes: Any) -> RollState:
    """A walk in the middle, with changes."""
    data = {
        "upstream": "LLVM", "state": "walking", "mode": "running", "why": "", "source": "[roll] in integrate.toml",
        "branch": "integrates/llvm-20261120", "pull": "https://github.com/ours/downstream/pull/7",
        "outcome": "untested", "pin": "a" * 40, "pinned": "2026-11-20", "age": 6, "passed": 3, "ahead": 40,
        "commit_url": "https://github.com/llvm/llvm-project/commit/",
    }  # fmt: skip
    return msgspec.convert(data | changes, RollState)


def troubled(bad: str = CULPRIT, **changes: Any) -> RollState:
    return state(state="needs a person", outcome="culprit", bad=bad, subject="[mlir] Drop @all #1 <b>", **changes)


def test_rounds_and_figures_are_no_news(github: GitHubServer) -> None:
    tracker, place = open_roll_issues(), github.repositories[REPOSITORY]
    for change in (state(), state(passed=9, ahead=31), state(state="at head", outcome="head", ahead=0), state(age=7)):
        track(tracker, change)
    (issue,) = place.issues
    assert issue["title"] == "LLVM roller: walking"
    assert "7 days old" in issue["body"]
    assert not place.comments


def test_what_is_the_same_writes_nothing(github: GitHubServer) -> None:
    tracker = open_roll_issues()
    track(tracker, troubled())
    before = len(github.requests)
    track(tracker, troubled())
    assert {record.method for record in github.requests[before:]} == {"GET"}


def test_each_culprit_and_each_switch_is_told_once(github: GitHubServer) -> None:
    tracker, place = open_roll_issues(), github.repositories[REPOSITORY]
    states = [
        state(),
        troubled(),
        troubled(age=8),
        troubled(OTHER),
        state(),
        troubled(OTHER, mode="stopped", why="release week"),
        state(mode="dry-run"),
    ]
    for each in states:
        track(tracker, each)
    first, second, healed, stopped, dry = [comment["body"] for comment in place.comments.values()]
    assert f"[`{CULPRIT[:12]}`](https://github.com/llvm/llvm-project/commit/{CULPRIT})" in first
    assert OTHER[:12] in second
    assert "The walk goes on" in healed
    assert "now **stopped**, by [roll] in integrate.toml: release week" in stopped
    assert "A person is needed" in stopped  # again
    assert "now **dry-run**" in dry
    for text in (first, place.issues[0]["body"]):
        assert not {"@all", "#1 ", "<b>"} & set(text.split(" "))


def test_one_that_was_closed_is_opened_again_when_there_is_something_to_tell(github: GitHubServer) -> None:
    tracker, place = open_roll_issues(), github.repositories[REPOSITORY]
    track(tracker, state())
    (issue,) = place.issues
    issue["state"] = "closed"
    track(tracker, state(ahead=50))
    assert (issue["state"], "50 affecting commits" in issue["body"]) == ("closed", True)
    track(tracker, troubled())
    assert (issue["state"], len(place.issues), len(place.comments)) == ("open", 1, 1)


@pytest.mark.parametrize("edit", ['"comments":-5', '"comments":"1"', '"comments":1,"x":2}', "no marker"])
def test_a_body_that_a_person_edited_is_written_anew(github: GitHubServer, edit: str) -> None:
    tracker, place = open_roll_issues(), github.repositories[REPOSITORY]
    track(tracker, state())
    track(tracker, troubled())
    (issue,) = place.issues
    right = issue["body"]
    issue["body"] = (
        right.replace('"comments":1', edit) if "comments" in edit else f"mine\n{right.partition(chr(10))[2]}"
    )
    track(tracker, troubled())
    assert issue["body"] == right.replace('"comments":1', '"comments":0')
    assert (len(place.issues), len(place.comments)) == (1, 1)
    track(tracker, state())
    assert len(place.comments) == 2


def test_a_comment_whose_run_was_killed_before_the_body_is_not_repeated(github: GitHubServer) -> None:
    tracker, place = open_roll_issues(), github.repositories[REPOSITORY]
    track(tracker, state())
    (issue,) = place.issues
    before = issue["body"]
    track(tracker, troubled())
    after, issue["body"] = issue["body"], before
    track(tracker, troubled())
    assert (issue["body"], len(place.comments)) == (after, 1)


def test_of_two_that_were_opened_at_once_the_older_one_stays(github: GitHubServer) -> None:
    place, answers = github.repositories[REPOSITORY], iter([None])

    class Early(GitHubTracker):
        def find(self, key: str) -> Issue | None:
            return next(answers, super().find(key))

    track(open_roll_issues(), state())
    tracker = Early(GitHubClient.of_environment(REPOSITORY), label=ROLL_LABEL)
    assert track(tracker, state()).number == 1
    assert [issue["state"] for issue in place.issues] == ["open", "closed"]


def test_an_outsiders_issue_with_our_marker_is_not_ours(github: GitHubServer) -> None:
    """Only those who may triage can set the label."""
    tracker, place = open_roll_issues(), github.repositories[REPOSITORY]
    track(tracker, state())
    place.issues[0]["labels"] = []
    track(tracker, state())
    assert [issue["labels"] for issue in place.issues] == [[], ["llvm-roller"]]
