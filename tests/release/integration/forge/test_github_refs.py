"""Refs on GitHub: what a token may make them name, and those that reads do not show yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.trees import commit_files
from mlir_release.release.forge.base import BranchMoved, Taken
from mlir_release.release.forge.files import head_of
from mlir_release.release.forge.github.forge import GitHubForge
from tests.github_server import Fault
from tests.github_stage import REPOSITORY, WORKFLOW
from tests.refusals import refused

if TYPE_CHECKING:
    from tests.github_server import GitHubServer

TAG = "snapshot-20261120.01"


@pytest.fixture
def forge(github: GitHubServer, pauses: list[float]) -> GitHubForge:
    """As a job sees it."""
    return open_forge(github, github.token())


def open_forge(github: GitHubServer, token: str) -> GitHubForge:
    return GitHubForge.open(REPOSITORY, environ=github.environment(REPOSITORY, token))


def change_on_main(github: GitHubServer, path: str = WORKFLOW) -> None:
    """Somebody merges a change."""
    repository = github.repositories[REPOSITORY]
    head = repository.git.text("rev-parse", "main")
    made = commit_files(repository.git, head, {path: b"on: push\n"}, "Change\n", repository.signature("ada"))
    repository.git.run("update-ref", "refs/heads/main", made)


def pinned(forge: GitHubForge, expected: str | None = None) -> str:
    return forge.commit("snapshots", expected=expected, base=forge.head("main"), files={"pin": b"1"}, message="m\n")


def test_a_job_may_not_make_refs_to_other_workflows_than_mains(
    github: GitHubServer, forge: GitHubForge, pauses: list[float]
) -> None:
    base, pin = forge.head("main"), pinned(forge)
    change_on_main(github, "README")
    forge.create_tag(TAG, pin, "m\n")  # nothing of the workflows was changed
    change_on_main(github)
    for attempt in (
        lambda: forge.create_tag("snapshot-20261120.02", pin, "m\n"),
        lambda: forge.commit("snapshots", expected=pin, base=base, files={"pin": b"2"}, message="m\n"),
        lambda: forge.commit("topic", expected=None, base=base, files={"pin": b"2"}, message="m\n"),
    ):
        with pytest.raises(BranchMoved) as caught:
            attempt()
        assert "workflow files" in caught.value.what
        assert "workflows: write" in caught.value.remedy
    assert (forge.head("snapshots"), forge.head("topic"), len(forge.tags())) == (pin, None, 1)
    assert forge.head("snapshots") == pin
    assert pinned(forge, pin) == forge.head("snapshots")
    assert pauses == []


@pytest.mark.parametrize(("kind", "scope"), [("ghs", "workflows"), ("github_pat", "workflows"), ("ghp", "workflow")])
def test_who_may_write_workflows_makes_any_ref(github: GitHubServer, kind: str, scope: str) -> None:
    forge = open_forge(github, github.token(scopes=("contents", scope), kind=kind))
    pin = pinned(forge)
    change_on_main(github)
    forge.create_tag(TAG, pin, "m\n")
    assert [tag.commit for tag in forge.tags()] == [pin]


def test_a_refusal_for_another_reason_is_no_lost_race(github: GitHubServer, forge: GitHubForge) -> None:
    pin = pinned(forge)
    github.faults = lambda record: (
        Fault(status=403, message="Resource not accessible by integration") if record.path.endswith("/refs") else None
    )
    error = refused(lambda: forge.create_tag(TAG, pin, "m\n"), "token-lacks-right")
    assert "contents: write" in error.remedy


def test_a_tag_that_is_not_shown_yet_is_waited_for(
    github: GitHubServer, forge: GitHubForge, pauses: list[float]
) -> None:
    head = head_of(forge, "main")
    github.refs_appear_after = lambda: 4
    forge.create_tag(TAG, head, "m\n")
    draft = forge.create_draft(TAG, title="t", body="b", prerelease=True)
    assert (draft.tag, draft.draft) == (TAG, True)
    assert sum(pauses) == 30


def test_a_taken_tag_that_is_not_shown_yet_is_taken(github: GitHubServer, forge: GitHubForge) -> None:
    head = head_of(forge, "main")
    github.refs_appear_after = lambda: 2
    forge.create_tag(TAG, head, "m\n")
    with pytest.raises(Taken):
        forge.create_tag(TAG, head, "m\n")
    pinned(forge)
    with pytest.raises(BranchMoved):
        pinned(forge)


def test_a_tag_that_never_comes_is_missing(forge: GitHubForge, pauses: list[float]) -> None:
    refused(lambda: forge.create_draft(TAG, title="t", body="b", prerelease=True), "not-on-forge")
    assert sum(pauses) == 30


def test_a_dispatch_waits_for_its_tag(github: GitHubServer, forge: GitHubForge, pauses: list[float]) -> None:
    head = head_of(forge, "main")
    github.refs_appear_after = lambda: 4
    forge.create_tag(TAG, head, "m\n")
    run = forge.dispatch("release.yml", ref=TAG, inputs={})
    assert [made.ref for made in github.dispatches] == [TAG]
    assert run is not None
    assert run.ref == TAG
    assert sum(pauses) == 30


def test_a_dispatch_of_no_ref_is_refused(forge: GitHubForge, pauses: list[float]) -> None:
    error = refused(lambda: forge.dispatch("release.yml", ref=TAG, inputs={}), "forge-refused")
    assert "No ref found" in error.why
    assert sum(pauses) == 30


@pytest.mark.parametrize(
    "words",
    [
        "Resource not accessible by integration",
        "Event 'workflow_dispatch' is not allowed to trigger Actions workflows.",
    ],
)
def test_a_dispatch_that_a_policy_forbids_names_the_setting(
    github: GitHubServer, forge: GitHubForge, pauses: list[float], words: str
) -> None:
    github.dispatch_policy = words
    error = refused(lambda: forge.dispatch("release.yml", ref="main", inputs={}), "token-lacks-right")
    assert "Settings > Actions > Policies" in error.remedy
    assert "actions: write" in error.remedy
    assert pauses == []


@pytest.mark.parametrize("prerelease", [True, False])
def test_a_draft_is_never_the_latest(forge: GitHubForge, prerelease: bool) -> None:
    """GitHub answers 422 to a draft or a prerelease that should become the latest."""
    head = head_of(forge, "main")
    forge.create_tag(TAG, head, "m\n")
    draft = forge.create_draft(TAG, title="t", body="b", prerelease=prerelease)
    assert forge.publish(forge.edit_release(draft, title="u", body="c")).prerelease is prerelease
