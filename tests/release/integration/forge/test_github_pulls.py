"""Pull requests of an integrate on GitHub: each said and done once, whatever becomes of the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from mlir_release.ground.git.trees import commit_files
from mlir_release.release.forge.github.client import GitHubClient
from mlir_release.release.forge.github.issues import GitHubPullRequests
from tests.github_server import Fault, GitHubServer
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.github_server import Record

REPOSITORY = "iree-org/iree"
BRANCH = "integrates/llvm-20261120"
SCOPES = ("actions", "contents", "issues", "pull_requests")


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository(REPOSITORY, {"README": b"a compiler\n"})
        git = server.repositories[REPOSITORY].git
        git.run("update-ref", f"refs/heads/{BRANCH}", "refs/heads/main")
        yield server


def open_pulls(github: GitHubServer) -> GitHubPullRequests:
    waits: list[float] = []
    return GitHubPullRequests(
        GitHubClient(
            REPOSITORY, token=github.token(scopes=SCOPES), api=github.api_url, server=github.url, sleep=waits.append
        )
    )


@pytest.mark.parametrize("drop", ["", "before", "after"])
def test_a_pull_request_from_draft_to_review(github: GitHubServer, drop: Literal["", "before", "after"]) -> None:
    written: set[str] = set()

    def fault(record: Record) -> Fault | None:
        """The first try of each write gets no answer."""
        key = f"{record.method} {record.path}"
        if not drop or record.method == "GET" or key in written:
            return None
        written.add(key)
        return Fault(drop=drop)

    github.faults = fault
    pulls = open_pulls(github)
    first = pulls.ensure_draft(branch=BRANCH, base="main", title="Integrate LLVM", body="3 behind")
    assert pulls.ensure_draft(branch=BRANCH, base="main", title="Integrate LLVM", body="2 behind") == first
    for text in ("stopped", "stopped", "goes on"):
        pulls.comment(branch=BRANCH, key="walk", body=text)
    pulls.mark_ready(branch=BRANCH)
    pulls.mark_ready(branch=BRANCH)
    found = [issue for issue in github.repositories[REPOSITORY].issues if "head" in issue]
    assert [(pull["title"], pull["body"], pull["draft"]) for pull in found] == [("Integrate LLVM", "2 behind", False)]
    comments = list(open_pulls(github)._required(BRANCH).get_issue_comments())
    assert [comment.body for comment in comments] == ["<!-- mlir-release:walk -->\ngoes on"]


def test_a_branch_without_a_pull_request(github: GitHubServer) -> None:
    refused(
        lambda: open_pulls(github).comment(branch=BRANCH, key="walk", body="stopped"),
        "not-on-forge",
        "there is no open pull request for",
    )


@pytest.mark.parametrize("drop", ["", "before", "after"])
def test_ci_runs_once_at_each_head(github: GitHubServer, drop: Literal["", "before", "after"]) -> None:
    lost: set[str] = set()

    def fault(record: Record) -> Fault | None:
        if not drop or record.method == "GET" or record.path in lost:
            return None
        lost.add(record.path)
        return Fault(drop=drop)

    github.faults = fault
    repository = github.repositories[REPOSITORY]
    repository.settings["workflows"] = ("ci.yml", "llvm.yml")
    first = repository.git.resolve(f"refs/heads/{BRANCH}")
    assert first is not None
    second = commit_files(repository.git, first, {"a": b"1"}, "On\n", repository.signature("bot"))
    pulls = open_pulls(github)
    pulls.dispatch(workflow="llvm.yml", branch=BRANCH)  # another workflow at the same commit is none
    for _ in range(2):
        pulls.ensure_ci(workflow="ci.yml", branch=BRANCH, head=first)
    repository.git.run("update-ref", f"refs/heads/{BRANCH}", second)
    for _ in range(2):
        pulls.ensure_ci(workflow="ci.yml", branch=BRANCH, head=second)
    heads = [run["head_sha"] for run in repository.runs if run["workflow"] == "ci.yml"]
    assert heads == [first, second]


def test_a_workflow_that_is_not_there(github: GitHubServer) -> None:
    refused(
        lambda: open_pulls(github).dispatch(workflow="nothing.yml", branch=BRANCH),
        "not-on-forge",
        "the repository has no workflow",
    )
