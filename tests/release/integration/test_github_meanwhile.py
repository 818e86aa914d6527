"""Snapshots on the loopback GitHub: main's workflow files change meanwhile, and a sweep is killed at its requests."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any

import pytest
import requests

from mlir_release.ground.console import console
from mlir_release.ground.errors import ForgeError
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.pinning.state import find_state
from mlir_release.release.transaction.decisions import abandon
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.start import start
from mlir_release.release.transaction.sweep import sweep
from mlir_release.release.transaction.upload import upload
from tests.github_stage import NOON, WORKFLOW, GitHubStage
from tests.revision_factory import make_revision
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.github_server import Record

TARGETS = make_targets(make_row(), pythons=[PYTHON])
OLD, COMPLETE, UNDER_WAY = (f"snapshot-202611{day}.01" for day in (16, 18, 20))


class ThreeSnapshots(GitHubStage):
    """A repository with a superseded snapshot, a complete one, and one whose build is under way."""

    def sweep(self) -> None:
        """One in which nothing fails."""
        outcome = sweep(self.forge, branch="main")
        assert not outcome.failures, outcome.rows

    def end(self) -> Mapping[str, object]:
        repository = self.repository
        refs = repository.git.run("for-each-ref", "--format=%(refname) %(contents:subject)").stdout.decode()
        releases = [
            (release.tag, release.draft, Counter(asset.name for asset in release.assets))
            for release in repository.releases.values()
        ]
        runs = Counter((run["workflow"], run["head_branch"]) for run in repository.runs)
        return {"refs": refs, "releases": sorted(releases, key=lambda row: row[:2]), "runs": runs}


@contextmanager
def three_snapshots(folder: Path) -> Iterator[ThreeSnapshots]:
    files = {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": TARGETS.encode()}
    with ThreeSnapshots(folder, files, workflows=("release.yml", "pages.yml")) as made:
        for tag in (OLD, COMPLETE, UNDER_WAY):
            day = int(tag[15:17])
            made.now = NOON.replace(day=day)
            revision = f"{day:040d}"
            start(made.forge, make_revision(revision), Matrix.parse(TARGETS), request_id=f"run-{day}")
            if tag == UNDER_WAY:
                break
            version = f"202611{day}.1"
            wheel = make_wheel(folder / tag, tag=tag, version=version, revision=revision, python=PYTHON)
            if tag == COMPLETE:
                make_report(folder / tag, wheel)
            upload(Draft.load(made.forge, tag), folder / tag)
            (run,) = made.forge.runs("release.yml", ref=tag)
            made.server.finish_run(int(run.id), "failure")
        made.now = NOON.replace(hour=13)
        yield made


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Wire:
    """The requests of one process, several at a time, which is killed at number ``at``."""

    at: int = 0
    after: bool = False
    count: int = 0
    lock: Lock = field(default_factory=Lock)
    send: Any = field(default=requests.Session.send)

    def __call__(self, session: requests.Session, request: Any, **options: Any) -> Any:
        with self.lock:
            self.count += 1
            number = self.count
        if number == self.at and not self.after:
            raise Killed
        answer = self.send(session, request, **options)
        if number == self.at:
            raise Killed
        return answer


def connect(monkeypatch: pytest.MonkeyPatch, wire: Wire) -> None:
    monkeypatch.setattr(requests.Session, "send", lambda session, request, **options: wire(session, request, **options))


@pytest.fixture(autouse=True)
def _quick(without_waiting: None) -> None:
    console.quiet = True


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_its_requests_a_sweep_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool, exhaustive: bool
) -> None:
    undisturbed = Wire()
    with three_snapshots(tmp_path / "0") as made:
        with monkeypatch.context() as patch:
            connect(patch, undisturbed)
            made.sweep()
        expected = made.end()
        made.now += timedelta(hours=1)
        made.sweep()
        assert made.end() == expected
    shown = [(tag, draft) for tag, draft, _ in expected["releases"]]  # type: ignore[attr-defined]
    assert shown == [(COMPLETE, False), (UNDER_WAY, True)]
    assert expected["runs"]["pages.yml", "main"] == 1  # type: ignore[index]
    step = 1 if exhaustive else undisturbed.count // 2
    tried = range(1 + after, undisturbed.count + 1, step)
    for at in tried:
        with three_snapshots(tmp_path / f"{at}") as made:
            with monkeypatch.context() as patch:
                connect(patch, Wire(at, after))
                with pytest.raises(Killed):
                    made.sweep()
            made.sweep()
            made.now += timedelta(hours=1)
            made.sweep()
            assert made.end() == expected, f"killed at request {at}"
    print(f"\nkilled {'after' if after else 'before'} {len(tried)} of {undisturbed.count} requests")


def test_what_waits_and_what_blocks_is_cheap(tmp_path: Path) -> None:
    """Looked at twice a day, whatever is pending must not read its files each time."""
    with three_snapshots(tmp_path) as made:
        made.sweep()
        made.now += timedelta(hours=1)
        before = len(made.server.requests)
        made.sweep()
        asked = Counter(record.operation for record in made.server.requests[before:] if record.operation)
        assert not [operation for operation in asked if not operation.startswith("GET") and "graphql" not in operation]
        assert "GET /repos/{owner}/{repo}/releases/assets/{asset_id}" not in asked
        # The branch, its targets.toml, the clock, a row, runs of the build and of the pages; and one page of rows.
        assert asked.total() == 7


# -- main's workflow files change: a job's token may then make no ref to an older commit ------------------------------


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
def month(tmp_path: Path) -> Iterator[Month]:
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
