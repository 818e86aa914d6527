"""A month in which main's workflow files change: a job's token may then make no ref to an older commit on GitHub."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from mlir_release.errors import ForgeError
from mlir_release.forge.github import client as github_client
from mlir_release.forge.github import runs as github_runs
from mlir_release.forge.github.forge import GitHubForge
from mlir_release.git.trees import commit_files
from mlir_release.model.matrix import Matrix
from mlir_release.pinning.state import find_state
from mlir_release.release.decisions import abandon
from mlir_release.release.start import start
from mlir_release.release.sweep import sweep
from tests.github_server import GitHubServer
from tests.revision_factory import make_revision
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.github_server import Record

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
REPOSITORY = "llvm/mlir-wheels"
TARGETS = make_targets(make_row(), pythons=[PYTHON])
WORKFLOW = ".github/workflows/release.yml"


class World:
    """A repository on the loopback GitHub, whose clock tests move."""

    def __init__(self, server: GitHubServer, now: datetime) -> None:
        self.server = server
        self.now = now
        self.merged = 0

    @property
    def forge(self) -> GitHubForge:
        """As a job sees it that may write contents, actions and issues."""
        return GitHubForge.open(REPOSITORY, environ=self.server.environment(REPOSITORY, self.server.token()))

    def merge(self) -> None:
        """Somebody changes a workflow on main."""
        self.merged += 1
        place = self.server.repositories[REPOSITORY]
        files = {WORKFLOW: b"# %d\n" % self.merged}
        made = commit_files(place.git, place.git.text("rev-parse", "main"), files, "Merge\n", place.signature("ada"))
        place.git.run("update-ref", "refs/heads/main", made)

    def merge_before(self, path: str) -> None:
        """Merge once, while a job is about to ask ``path``."""

        def merge(record: Record) -> None:
            if record.path.endswith(path) and record.method != "GET" and not self.merged:
                self.merge()

        self.server.faults = merge

    def snapshot(self, number: int) -> str:
        """Begin one, which nobody finishes."""
        revision = make_revision(f"{number:040x}")
        return start(self.forge, revision, Matrix.parse(TARGETS), request_id=f"run-{number}").tag

    def base_of(self, tag: str) -> str:
        """The commit of main whose toolkit a tag has."""
        git = self.server.repositories[REPOSITORY].git
        return git.text("rev-list", "-n1", "--parents", f"refs/tags/{tag}").split()[-1]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(github_client, "FIRST_WAIT", 0.0)
    monkeypatch.setattr(github_runs, "PAUSES", (0.0,) * 4)
    with _world(tmp_path) as made:
        yield made


@contextmanager
def _world(folder: Path) -> Iterator[World]:
    with GitHubServer(folder / "github", clock=lambda: made.now) as server:
        made = World(server, NOON)
        files = {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": TARGETS.encode(), WORKFLOW: b"# 0\n"}
        server.add_repository(REPOSITORY, files, workflows=("release.yml", "pages.yml"))
        yield made


def test_a_person_abandons_a_snapshot_of_older_workflows(world: World) -> None:
    tag = world.snapshot(1)
    world.merge()
    assert abandon(world.forge, tag, "broken").new
    assert find_state(world.forge, tag).reason == "broken"
    assert not world.forge.drafts(tag)


def test_the_sweep_abandons_a_superseded_snapshot_of_older_workflows(world: World) -> None:
    old = world.snapshot(1)
    (run,) = world.forge.runs("release.yml", ref=old)
    world.server.finish_run(int(run.id), "failure")
    world.merge()
    world.now += timedelta(days=4)
    new = world.snapshot(2)
    outcome = sweep(world.forge, branch="main")
    assert not outcome.failures, outcome.rows
    states = [find_state(world.forge, tag).state for tag in (old, new)]
    assert states == ["abandoned", "pending"]


@pytest.mark.parametrize("path", ["/git/blobs", "/git/refs", "/git/refs/heads/snapshots", "/git/tags"])
def test_a_workflow_that_is_merged_meanwhile_is_a_lost_race(world: World, path: str) -> None:
    """Before the pin commit, before its branch, and before its tag: the pin gets the newer base."""
    if path.endswith("snapshots"):
        world.snapshot(1)
    world.merge_before(path)
    tag = world.snapshot(2)
    assert world.merged == 1
    assert world.base_of(tag) == world.forge.head("main")
    assert [draft.tag for draft in world.forge.drafts(tag)] == [tag]
    assert [made.ref for made in world.server.dispatches][-1] == tag
    again = start(world.forge, make_revision(f"{2:040x}"), Matrix.parse(TARGETS), request_id="run-2")
    assert (again.tag, again.action) == (tag, "under-way")


def test_a_workflow_that_is_merged_while_a_tag_is_abandoned_is_a_lost_race(world: World) -> None:
    tag = world.snapshot(1)
    world.merge_before("/git/tags")
    assert abandon(world.forge, tag, "broken").new
    assert world.merged == 1


def test_a_forbidden_dispatch_is_made_up_for_by_the_sweep(world: World) -> None:
    """A policy forbids it, until an administrator changes that."""
    world.server.dispatch_policy = "Event 'workflow_dispatch' is not allowed to trigger Actions workflows."
    for _ in range(2):  # also when it is tried again
        with pytest.raises(ForgeError) as caught:
            world.snapshot(1)
        assert "Settings > Actions > Policies" in caught.value.remedy
    world.now += timedelta(hours=1)
    assert [error.id for error in sweep(world.forge, branch="main").failures] == ["token-lacks-right"]
    (tag,) = [tag.name for tag in world.forge.tags()]
    assert (find_state(world.forge, tag).state, len(world.forge.drafts(tag))) == ("pending", 1)
    world.server.dispatch_policy = ""
    assert not sweep(world.forge, branch="main").failures
    assert [made.ref for made in world.server.dispatches] == [tag]
