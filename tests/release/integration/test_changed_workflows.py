"""A month in which main's workflow files change: a job's token may then make no ref to an older commit on GitHub."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import ForgeError
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.pinning.state import find_state
from mlir_release.release.transaction.decisions import abandon
from mlir_release.release.transaction.start import start
from mlir_release.release.transaction.sweep import sweep
from tests.github_stage import WORKFLOW, GitHubStage
from tests.revision_factory import make_revision
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.github_server import Record

TARGETS = make_targets(make_row(), pythons=[PYTHON])


class Month(GitHubStage):
    """Snapshots are begun, and workflows are changed."""

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
        return self.repository.git.text("rev-list", "-n1", "--parents", f"refs/tags/{tag}").split()[-1]


@pytest.fixture
def month(tmp_path: Path, without_waiting: None) -> Iterator[Month]:
    files = {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": TARGETS.encode(), WORKFLOW: b"# 0\n"}
    with Month(tmp_path, files, workflows=("release.yml", "pages.yml")) as made:
        yield made


def test_a_person_abandons_a_snapshot_of_older_workflows(month: Month) -> None:
    tag = month.snapshot(1)
    month.merge()
    assert abandon(month.forge, tag, "broken").new
    assert find_state(month.forge, tag).reason == "broken"
    assert not month.forge.drafts(tag)


def test_the_sweep_abandons_a_superseded_snapshot_of_older_workflows(month: Month) -> None:
    old = month.snapshot(1)
    (run,) = month.forge.runs("release.yml", ref=old)
    month.server.finish_run(int(run.id), "failure")
    month.merge()
    month.now += timedelta(days=4)
    new = month.snapshot(2)
    outcome = sweep(month.forge, branch="main")
    assert not outcome.failures, outcome.rows
    states = [find_state(month.forge, tag).state for tag in (old, new)]
    assert states == ["abandoned", "pending"]


@pytest.mark.parametrize("path", ["/git/blobs", "/git/refs", "/git/refs/heads/snapshots", "/git/tags"])
def test_a_workflow_that_is_merged_meanwhile_is_a_lost_race(month: Month, path: str) -> None:
    """Before the pin commit, before its branch, and before its tag: the pin gets the newer base."""
    if path.endswith("snapshots"):
        month.snapshot(1)
    month.merge_before(path)
    tag = month.snapshot(2)
    assert month.merged == 1
    assert month.base_of(tag) == month.forge.head("main")
    assert [draft.tag for draft in month.forge.drafts(tag)] == [tag]
    assert [made.ref for made in month.server.dispatches][-1] == tag
    again = start(month.forge, make_revision(f"{2:040x}"), Matrix.parse(TARGETS), request_id="run-2")
    assert (again.tag, again.action) == (tag, "under-way")


def test_a_workflow_that_is_merged_while_a_tag_is_abandoned_is_a_lost_race(month: Month) -> None:
    tag = month.snapshot(1)
    month.merge_before("/git/tags")
    assert abandon(month.forge, tag, "broken").new
    assert month.merged == 1


def test_a_forbidden_dispatch_is_made_up_for_by_the_sweep(month: Month) -> None:
    """A policy forbids it, until an administrator changes that."""
    month.server.dispatch_policy = "Event 'workflow_dispatch' is not allowed to trigger Actions workflows."
    for _ in range(2):  # also when it is tried again
        with pytest.raises(ForgeError) as caught:
            month.snapshot(1)
        assert "Settings > Actions > Policies" in caught.value.remedy
    month.now += timedelta(hours=1)
    # Neither the build can be dispatched, nor the pages that are to show the tag.
    assert [error.id for error in sweep(month.forge, branch="main").failures] == ["token-lacks-right"] * 2
    (tag,) = [tag.name for tag in month.forge.tags()]
    assert (find_state(month.forge, tag).state, len(month.forge.drafts(tag))) == ("pending", 1)
    month.server.dispatch_policy = ""
    assert not sweep(month.forge, branch="main").failures
    assert [(made.workflow, made.ref) for made in month.server.dispatches] == [
        ("release.yml", tag),
        ("pages.yml", "main"),
    ]
