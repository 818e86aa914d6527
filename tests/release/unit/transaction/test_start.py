"""The release transaction on a forge in memory: every state it can be resumed from, and every order of racing steps."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.documents.trailers import format_message, parse_trailers
from mlir_release.ground.errors import NeedsPersonError, UsageError
from mlir_release.release.forge.base import BranchMoved, Taken
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_tags import parse_tag
from mlir_release.release.pinning.state import abandon_tag, tag_message
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.request import Request, default_request_id
from mlir_release.release.transaction.start import DRAFT_WAIT, TransactionOutcome, look, start
from mlir_release.release.transaction.steps import Step, apply
from tests.memory_forge import NOON, MemoryForge
from tests.refusals import refused
from tests.revision_factory import FACTS, make_revision
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlir_release.ground.errors import ReleaseError
    from mlir_release.ground.llvm.llvm_facts import LlvmFacts
    from mlir_release.ground.llvm.upstream import Revision
    from mlir_release.release.forge.services import Run
    from tests.conftest import Pauses


OLD = "a" * 40
NEW = "b" * 40
OTHER = "c" * 40
MATRIX = Matrix.parse(make_targets(make_row()))


def make_forge(content: bytes | None = f"{OLD}\n".encode(), *, now: datetime = NOON) -> MemoryForge:
    return MemoryForge({} if content is None else {"llvm-project.version": content}, now=now)


def snap(
    forge: MemoryForge, sha: str = NEW, id: str = "r1", *, force: bool = False, dry_run: bool = False
) -> TransactionOutcome:
    return start(forge, make_revision(sha), MATRIX, request_id=id, force=force, dry_run=dry_run)


def numb(
    forge: MemoryForge,
    version: str = "22.1.8",
    sha: str = NEW,
    id: str = "r1",
    *,
    force: bool = False,
    tree: str = "22.1.8",
) -> TransactionOutcome:
    facts = replace(FACTS, version=tree)
    return start(forge, make_revision(sha, facts=facts), MATRIX, version=version, request_id=id, force=force)


def hand_made(forge: MemoryForge, name: str, message: str = "by hand\n", commit: str | None = None) -> None:
    forge.create_tag(name, commit or forge.branches["main"], message)


def pin(forge: MemoryForge, sha: str, files: Mapping[str, bytes] | None = None) -> str:
    """A pin commit, as a process that was killed after it left it; with other ``files``, one made by hand."""
    changes = {"llvm-project.version": f"{sha}\n".encode(), **(files or {})}
    base, expected = forge.branches["main"], forge.branches.get("snapshots")
    return forge.commit("snapshots", expected=expected, base=base, files=changes, message=f"Pin llvm-project {sha}\n")


def pin_on(forge: MemoryForge, branch: str) -> bytes | None:
    return forge.read("llvm-project.version", commit=forge.branches[branch])


def ours(forge: MemoryForge, name: str, sha: str, commit: str | None = None, id: str = "x") -> None:
    tag = parse_tag(name)
    assert tag is not None
    wheel_version = str(tag.version)
    message = tag_message(tag, revision=sha, request_id=id, wheel_version=wheel_version)
    hand_made(forge, name, message, commit)


def pins(forge: MemoryForge) -> int:
    return sum(message.startswith("Pin llvm-project") for _, message in forge.commits)


def changes_nothing(forge: MemoryForge, action: Callable[[], object], id: str) -> ReleaseError:
    """The error that an action ends with, before anything is made."""
    before = forge.key()
    error = refused(action, id)
    assert forge.key() == before, "something was half-done"
    return error


# -- one process ------------------------------------------------------------------------------------------------------


def test_a_first_snapshot() -> None:
    forge = make_forge()
    outcome = snap(forge)
    assert outcome.action == "started"
    assert outcome.tag == "snapshot-20261120.01"
    assert outcome.wheel_version == "20261120.1"
    assert [step.split()[0] for step in outcome.steps] == ["pin", "create", "create", "dispatch"]
    assert pin_on(forge, "snapshots") == f"{NEW}\n".encode()
    assert pin_on(forge, "main") == f"{OLD}\n".encode()
    assert forge.branches["main"] == f"{1:040x}"
    message = forge.commit_message(forge.branches["snapshots"])
    assert parse_trailers(message)["LLVM-Revision"] == NEW
    assert "[mlir] Do something (#1)" in message
    (tag,) = forge.tags()
    assert tag.commit == forge.branches["snapshots"] == outcome.commit
    trailers = parse_trailers(tag.message)
    assert trailers["LLVM-Revision"] == NEW
    assert trailers["LLVM-Revision-Date"] == "2026-09-21T14:13:20Z"
    assert trailers["Request-Id"] == "r1"
    assert trailers["Wheel-Version"] == "20261120.1"
    assert trailers["Toolkit-Version"]
    assert [(release.tag, release.draft) for release in forge.releases()] == [("snapshot-20261120.01", True)]
    assert [(run.workflow, run.ref) for run in forge.run_list] == [("release.yml", "snapshot-20261120.01")]


class LateForge(MemoryForge):
    """A run is listed only after ``late`` waits; so is the one that a dead process has dispatched."""

    late = 3
    waits = 0

    def runs(self, workflow: str, *, ref: str) -> Sequence[Run]:
        return super().runs(workflow, ref=ref) if self.waits >= self.late else ()

    def await_runs(self, attempt: int) -> bool:
        assert attempt == self.waits
        self.waits += 1
        return attempt < 4


def test_a_run_that_a_dead_process_dispatched_is_waited_for() -> None:
    forge = LateForge({"llvm-project.version": f"{OLD}\n".encode()})
    assert snap(forge).action == "started"
    assert forge.waits == 0  # nobody else can have dispatched one for a tag that is ours
    outcome = snap(forge, id="r2")
    assert outcome.action == "under-way"
    assert (forge.waits, len(forge.run_list)) == (3, 1)


def test_a_tag_without_a_run_gets_one_after_the_wait() -> None:
    forge = LateForge({"llvm-project.version": f"{OLD}\n".encode()})
    snap(forge)
    forge.run_list.clear()
    outcome = snap(forge, id="r2")
    assert outcome.steps == ("dispatch release.yml on snapshot-20261120.01",)
    assert (forge.waits, len(forge.run_list)) == (5, 1)


def test_the_tag_records_what_the_revision_is() -> None:
    for run in (snap, numb):
        forge = make_forge()
        outcome = run(forge)
        (state,) = Ledger(forge, whole=True).states
        assert state.name == outcome.tag
        assert state.facts == FACTS
        assert state.to_json()["llvm_version"] == "22.1.8"


def counted(facts: LlvmFacts | Exception) -> tuple[Revision, list[str]]:
    """A revision, and how often its tree was read."""
    asked: list[str] = []

    def read() -> LlvmFacts:
        asked.append("tree")
        if isinstance(facts, Exception):
            raise facts
        return facts

    return replace(make_revision(NEW), facts=read), asked


def test_the_tree_is_read_once_and_only_for_a_new_tag() -> None:
    forge = make_forge()
    revision, asked = counted(FACTS)
    assert start(forge, revision, MATRIX, request_id="r1").action == "started"
    assert len(asked) == 1
    assert start(forge, revision, MATRIX, request_id="r2").action == "under-way"
    forge.publish(forge.releases()[0])
    assert start(forge, revision, MATRIX, request_id="r3").action == "nothing-to-do"
    assert len(asked) == 1


def test_nothing_is_begun_for_a_revision_that_can_be_no_release() -> None:
    forge = make_forge()
    revision, _ = counted(UsageError("revision-unsuitable", "x"))
    changes_nothing(forge, partial(start, forge, revision, MATRIX), "revision-unsuitable")


def test_what_a_revision_excludes_is_noted() -> None:
    revision = make_revision(NEW, facts=replace(FACTS, minimum_python="3.13"))
    for dry_run in (True, False):
        outcome = start(make_forge(), revision, MATRIX, dry_run=dry_run)
        assert outcome.notes == ("no wheels for cp312: LLVM 22.1.8 needs CPython 3.13 or newer",)


def test_dry_run_changes_nothing() -> None:
    forge = make_forge()
    before = forge.key()
    outcome = snap(forge, dry_run=True)
    assert outcome.action == "planned"
    assert outcome.tag == "snapshot-20261120.01"
    assert len(outcome.steps) == 4
    assert forge.key() == before
    assert snap(forge).steps[0] == outcome.steps[0]


@pytest.mark.parametrize("version", [None, "22.1.8"])
def test_resumed_after_every_step(pauses: list[float], version: str | None) -> None:
    """However many steps were done before the crash, the second run does exactly the others."""
    run = snap if version is None else numb
    first = run(make_forge())
    total = len(first.steps)
    assert total == 4
    for done in range(total + 1):
        forge = make_forge()
        ledger, asked = Ledger(forge), request(version=version)
        for _ in range(done):
            apply(ledger, look(ledger, asked).steps[0])
            ledger = ledger.again()
        outcome = run(forge, id="another")
        assert len(outcome.steps) == total - done
        assert outcome.action == ("started" if done < 2 else "resumed" if done < total else "under-way")
        assert [tag.name for tag in forge.tags()] == [first.tag]
        assert (pins(forge), len(forge.releases()), len(forge.run_list)) == (1, 1, 1)


def request(id: str = "r1", *, sha: str = NEW, force: bool = False, version: str | None = None) -> Request:
    return Request(revision=make_revision(sha), matrix=MATRIX, request_id=id, version=version, force=force)


def test_nothing_to_do_only_once_published() -> None:
    forge = make_forge()
    snap(forge)
    assert snap(forge).action == "under-way"
    forge.publish(forge.release_list[0])
    before = forge.key()
    outcome = snap(forge, id="later")
    assert (outcome.action, outcome.tag, outcome.steps) == ("nothing-to-do", "snapshot-20261120.01", ())
    assert forge.key() == before
    snap(forge, id="again", force=True)
    forge.publish(forge.release_list[-1])
    assert snap(forge, id="later").tag == "snapshot-20261120.02"  # the newest of the job


def test_the_pin_of_development_says_nothing() -> None:
    for content in (f"{NEW}\n".encode(), None, b"", b"0123abc\n", b"\xff\xfe\x00"):
        forge = make_forge(content)
        outcome = snap(forge)
        assert (outcome.action, pins(forge), outcome.branch) == ("started", 1, "snapshots")
        assert pin_on(forge, "main") == content
        assert forge.parents[forge.branches["snapshots"]] == (f"{1:040x}",)


def test_each_snapshot_has_the_newest_toolkit() -> None:
    forge = make_forge()
    first = snap(forge, OTHER).commit
    base = forge.commit("main", expected=forge.branches["main"], files={"toolkit.py": b"new"}, message="Fix\n")
    outcome = snap(forge)
    assert outcome.commit is not None
    assert forge.parents[outcome.commit] == (first, base)
    assert forge.read("toolkit.py", commit=outcome.commit) == b"new"
    assert f"with the toolkit of {base[:12]}" in outcome.steps[0]


def test_a_pin_with_an_older_toolkit_is_not_taken_for_a_new_tag() -> None:
    forge = make_forge()
    older = pin(forge, NEW)
    base = forge.commit("main", expected=forge.branches["main"], files={"toolkit.py": b"new"}, message="Fix\n")
    outcome = snap(forge)
    assert outcome.commit is not None
    assert forge.parents[outcome.commit] == (older, base)


def test_what_somebody_committed_to_the_branch_of_pins_is_in_no_release() -> None:
    forge = make_forge()
    by_hand = pin(forge, NEW, {"toolkit.py": b"evil"})
    outcome = snap(forge)
    assert outcome.commit is not None
    assert forge.parents[outcome.commit] == (by_hand, f"{1:040x}")
    assert forge.read("toolkit.py", commit=outcome.commit) is None


def test_the_branch_of_pins_is_configured() -> None:
    matrix = Matrix.parse(make_targets(make_row()).replace("[release]\n", '[release]\npins = "pins/llvm"\n', 1))
    forge = make_forge()
    assert start(forge, make_revision(NEW), matrix).branch == "pins/llvm"
    assert set(forge.branches) == {"main", "pins/llvm"}


def test_a_tag_of_a_commit_that_does_more_than_pin_is_not_built() -> None:
    forge = make_forge()
    commit = pin(forge, NEW, {"toolkit.py": b"evil"})
    ours(forge, "snapshot-20261120.01", NEW, commit)
    error = changes_nothing(forge, partial(snap, forge), "tampered")
    assert "toolkit.py" in error.why
    assert "release abandon snapshot-20261120.01" in error.remedy


def test_a_pending_tag_is_resumed_days_later_although_the_branch_moved_on() -> None:
    forge = make_forge()
    snap(forge)
    forge.delete_draft(forge.release_list[0])
    forge.run_list.clear()
    forge.time += timedelta(days=3)
    snap(forge, OTHER)
    outcome = snap(forge, NEW)
    assert (outcome.action, outcome.tag) == ("resumed", "snapshot-20261120.01")
    assert pin_on(forge, "snapshots") == f"{OTHER}\n".encode()


def test_an_abandoned_tag_is_not_resumed() -> None:
    forge = make_forge()
    snap(forge)
    (state,) = Ledger(forge, whole=True).states
    abandon_tag(forge, state, reason="broken", by="Ada")
    assert [state.state for state in Ledger(forge, whole=True).states] == ["abandoned"]
    assert not forge.releases()
    outcome = snap(forge)
    assert (outcome.action, outcome.tag) == ("started", "snapshot-20261120.02")
    assert pins(forge) == 1


def test_the_newest_snapshot_is_the_newest_that_was_not_given_up() -> None:
    forge = make_forge()
    numb(forge)
    hand_made(forge, "snapshot-20261119.01")
    refused(Ledger(forge).latest_snapshot, "tag-missing")
    snap(forge)
    forge.publish(forge.release_list[-1])
    snap(forge, OTHER)
    newest = Ledger(forge).latest_snapshot()
    assert (newest.name, newest.state) == ("snapshot-20261120.02", "pending")
    abandon_tag(forge, newest, reason="broken", by="Ada")
    newest = Ledger(forge).latest_snapshot()
    assert (newest.name, newest.state) == ("snapshot-20261120.01", "published")


def test_a_part_can_be_built_first_and_the_next_run_builds_the_rest() -> None:
    forge = make_forge()
    start(forge, make_revision(NEW), MATRIX, request_id="r1", only="python=cp312")
    assert [run.inputs for run in forge.run_list] == [{"only": "python=cp312"}]
    forge.end_run("snapshot-20261120.01", "failure")  # as a run of a part ends
    assert snap(forge, id="r2").action == "resumed"
    assert [run.inputs for run in forge.run_list] == [{"only": "python=cp312"}, {}]
    forge.end_run("snapshot-20261120.01", "failure")
    again = start(forge, make_revision(NEW), MATRIX, request_id="r3", only="python=cp313")
    assert (again.action, forge.run_list[-1].inputs) == ("resumed", {"only": "python=cp313"})


@pytest.mark.parametrize("only", ["os=windows", "python=", "platform=linux", "$(touch x)", "a\nb"])
def test_a_filter_that_fits_no_target_is_refused_before_anything_is_made(only: str) -> None:
    forge = make_forge()
    changes_nothing(forge, partial(start, forge, make_revision(NEW), MATRIX, only=only), "option-invalid")


@pytest.mark.parametrize(
    ("status", "conclusion", "again"),
    [("queued", None, 0), ("in_progress", None, 0), ("completed", "success", 0), ("completed", "failure", 1)],
)
def test_a_build_is_dispatched_again_only_after_it_failed(status: str, conclusion: str | None, again: int) -> None:
    forge = make_forge()
    snap(forge)
    if status == "completed":
        assert conclusion is not None
        forge.end_run("snapshot-20261120.01", conclusion)
    assert len(snap(forge).steps) == again
    assert len(forge.run_list) == 1 + again


def test_the_oldest_draft_counts_and_empty_others_go() -> None:
    forge = make_forge()
    snap(forge)
    for _ in range(3):
        forge.create_draft("snapshot-20261120.01", title="", body="", prerelease=True)
    forge.give_asset(forge.release_list[2], "a.whl")
    kept = [forge.release_list[0].id, forge.release_list[2].id]
    outcome = snap(forge)
    assert [release.id for release in forge.releases()] == kept
    assert "1 more drafts with assets" in outcome.notes[0]


# -- force ------------------------------------------------------------------------------------------------------------


def test_force_is_keyed_by_the_request_id() -> None:
    forge = make_forge()
    snap(forge)
    assert snap(forge, id="f1", force=True).tag == "snapshot-20261120.02"
    assert snap(forge, id="f2", force=True).tag == "snapshot-20261120.03"
    assert snap(forge, id="f1", force=True).action == "under-way"
    assert snap(forge, id="f1", force=True).tag == "snapshot-20261120.02"
    assert pins(forge) == 1
    forge.publish(next(release for release in forge.releases() if release.tag == "snapshot-20261120.02"))
    assert snap(forge, id="f1", force=True).action == "nothing-to-do"
    assert snap(forge, id="f3", force=True).tag == "snapshot-20261120.04"


def test_a_forced_request_is_resumed_although_head_has_moved() -> None:
    forge = make_forge()
    snap(forge, NEW, "f1", force=True)
    outcome = snap(forge, OTHER, "f1", force=True)
    assert (outcome.action, outcome.tag, outcome.revision) == ("under-way", "snapshot-20261120.01", NEW)


@pytest.mark.parametrize("id", ["", "two words", "a\nb", "x" * 101, "-x"])
def test_a_request_id_is_one_word(id: str) -> None:
    forge = make_forge()
    refused(lambda: snap(forge, id=id), "option-invalid", "can't be a request id")


def test_the_default_request_id_is_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_RUN_ID", raising=False)
    assert default_request_id() != default_request_id()
    monkeypatch.setenv("GITHUB_RUN_ID", "77")
    assert default_request_id() == "run-77"


# -- bad input --------------------------------------------------------------------------------------------------------


def test_no_branch() -> None:
    forge = make_forge()
    forge.branches["trunk"] = forge.branches.pop("main")
    changes_nothing(forge, partial(snap, forge), "branch-missing")


def test_a_tag_dated_2099_that_is_not_ours_is_ignored() -> None:
    forge = make_forge()
    hand_made(forge, "snapshot-20990101.01")
    hand_made(forge, "snapshot-20990101.02", format_message("x", "", {"LLVM-Revision": "not a sha"}))
    assert snap(forge).tag == "snapshot-20261120.01"


def test_a_name_taken_by_hand_is_skipped_and_mentioned() -> None:
    forge = make_forge()
    hand_made(forge, "snapshot-20261120.01")
    hand_made(forge, "snapshot-20261120.02", commit=f"{1:040x}")
    outcome = snap(forge)
    assert outcome.tag == "snapshot-20261120.03"
    assert "snapshot-20261120.01 was not made by mlir-release" in outcome.notes[0]
    assert snap(forge).action == "under-way"


def test_a_published_release_on_a_hand_made_tag_means_nothing() -> None:
    forge = make_forge(f"{NEW}\n".encode())
    hand_made(forge, "snapshot-20261120.01")
    forge.publish(forge.create_draft("snapshot-20261120.01", title="", body="", prerelease=False))
    assert snap(forge).action == "started"


def test_a_tag_that_contradicts_its_pin_needs_a_person() -> None:
    forge = make_forge()
    ours(forge, "snapshot-20261120.01", NEW, pin(forge, OLD))
    error = changes_nothing(forge, partial(snap, forge), "tag-foreign")
    assert OLD in error.what
    assert "release abandon snapshot-20261120.01" in error.remedy


class MovingForge(MemoryForge):
    """Somebody commits to the branch of pins between each look and each commit."""

    moves = 0

    def commit(self, branch: str, *, expected: str | None, base: str | None = None, **given: Any) -> str:
        if self.moves:
            self.moves -= 1
            readme = {"README.md": b"%d" % self.moves}
            super().commit(branch, expected=expected, base=base, files=readme, message="README\n")
        return super().commit(branch, expected=expected, base=base, **given)


def test_a_branch_that_moves_is_tried_again(pauses: list[float]) -> None:
    forge = MovingForge({"llvm-project.version": f"{OLD}\n".encode()})
    forge.moves = 5
    assert snap(forge).action == "started"
    assert pins(forge) == 1
    files, _ = forge.commits[-1]
    assert set(files) == {"llvm-project.version"}


def test_a_branch_that_never_rests_is_a_conflict(pauses: list[float]) -> None:
    forge = MovingForge({"llvm-project.version": f"{OLD}\n".encode()})
    forge.moves = 10**6
    refused(lambda: snap(forge), "lost-race")
    assert not forge.tags()


def pinned_and_tagged() -> MemoryForge:
    """A forge on which another process (request id x) has just made its tag, and not yet the draft."""
    forge = make_forge()
    ours(forge, "snapshot-20261120.01", NEW, pin(forge, NEW))
    return forge


def test_a_fresh_tag_is_left_to_its_maker_who_may_give_it_up(pauses: Pauses) -> None:
    forge = pinned_and_tagged()

    def meanwhile() -> None:
        if "snapshot-20261121.01" not in {tag.name for tag in forge.tags()}:
            ours(forge, "snapshot-20261121.01", NEW, forge.branches["snapshots"], id="y")
        elif not forge.releases():
            first, _ = Ledger(forge, whole=True).states
            abandon_tag(forge, first, reason="snapshot-20261121.01 does the same job", by="x")
            forge.create_draft("snapshot-20261121.01", title="", body="", prerelease=True)

    pauses.meanwhile = meanwhile
    outcome = snap(forge)
    assert outcome.tag == "snapshot-20261121.01"
    assert [release.tag for release in forge.releases()] == ["snapshot-20261121.01"]
    assert [run.ref for run in forge.run_list] == ["snapshot-20261121.01"]


def test_a_fresh_tag_whose_maker_died_is_taken_over(pauses: list[float]) -> None:
    forge = pinned_and_tagged()
    assert snap(forge).action == "resumed"
    assert tuple(pauses) == DRAFT_WAIT
    assert [release.tag for release in forge.releases()] == ["snapshot-20261120.01"]


def test_a_tag_with_a_draft_is_not_given_up_if_its_request_is_made_again(pauses: list[float]) -> None:
    forge = pinned_and_tagged()
    ours(forge, "snapshot-20261120.02", NEW, forge.branches["snapshots"], id="y")
    forge.create_draft("snapshot-20261120.01", title="", body="", prerelease=True)
    assert snap(forge, id="x").tag == "snapshot-20261120.01"
    assert [state.state for state in Ledger(forge, whole=True).states] == ["pending", "pending"]


def test_nobody_waits_for_oneself(pauses: list[float]) -> None:
    forge = pinned_and_tagged()
    assert snap(forge, id="x").action == "resumed"
    assert not pauses


# -- numbered releases ------------------------------------------------------------------------------------------------


def test_a_numbered_release_has_its_own_branch() -> None:
    forge = make_forge()
    outcome = numb(forge)
    assert (outcome.action, outcome.tag, outcome.wheel_version) == ("started", "llvm-22.1.8.01", "22.1.8")
    assert outcome.branch == "release/22.1.8"
    assert forge.read("llvm-project.version", commit=forge.branches["main"]) == f"{OLD}\n".encode()
    assert forge.read("llvm-project.version", commit=forge.branches["release/22.1.8"]) == f"{NEW}\n".encode()
    assert forge.tags()[0].commit == forge.branches["release/22.1.8"]
    assert not forge.release_list[0].prerelease
    assert numb(forge).action == "under-way"
    forge.publish(forge.release_list[0])
    assert numb(forge).action == "nothing-to-do"
    again = numb(forge, id="f1", force=True)
    assert (again.tag, again.wheel_version) == ("llvm-22.1.8.02", "22.1.8.post1")


def test_a_candidate_is_a_prerelease_in_its_one_spelling() -> None:
    forge = make_forge()
    outcome = numb(forge, "23.1.0-rc2", tree="23.1.0git")
    assert (outcome.tag, outcome.wheel_version) == ("llvm-23.1rc2.01", "23.1rc2")
    assert forge.release_list[0].prerelease


def test_two_pending_releases_of_one_version_are_refused() -> None:
    forge = make_forge()
    numb(forge)
    for sha, id, force in ((NEW, "f1", True), (OTHER, "r2", False)):
        changes_nothing(forge, partial(numb, forge, sha=sha, id=id, force=force), "release-pending")
    (state,) = Ledger(forge, whole=True).states
    abandon_tag(forge, state, reason="wrong commit", by="Ada")
    outcome = numb(forge, sha=OTHER)
    assert (outcome.tag, outcome.wheel_version) == ("llvm-22.1.8.02", "22.1.8")


@pytest.mark.parametrize("tree", ["22.1.7", "23.1.0", "23.0.0git"])
def test_a_version_that_is_not_the_trees_is_refused_before_anything_is_made(tree: str) -> None:
    forge = make_forge()
    assert tree in str(changes_nothing(forge, partial(numb, forge, tree=tree), "revision-unsuitable"))


def test_snapshots_and_numbered_releases_do_not_know_each_other() -> None:
    forge = make_forge()
    snap(forge)
    forge.publish(forge.release_list[0])
    assert numb(forge).action == "started"
    assert [str(state.tag) for state in Ledger(forge, whole=True).states] == ["snapshot-20261120.01", "llvm-22.1.8.01"]
    assert [state.state for state in Ledger(forge, whole=True).states] == ["published", "pending"]


# -- races: every order of events -------------------------------------------------------------------------------------


@dataclass
class Racer:
    """A process: it looks, then does the first step of its plan, and so on; its clock may differ from the others'."""

    request: Request
    now: datetime
    crashes: int = 0  #: how often it may still be killed and started again
    pinned: str | None = None
    made: str = ""
    step: Step | None = None
    ended: str = ""

    def key(self) -> object:
        return (self.pinned, self.made, self.step, self.ended, self.crashes)


def explore(forge: MemoryForge, *racers: Racer) -> list[MemoryForge]:
    """The ends of all orders in which the racers' looks and steps can happen, each state visited once."""
    ends: list[MemoryForge] = []
    seen: set[object] = set()
    stack = [(forge, racers)]
    while stack:
        forge, racers = stack.pop()
        key = (forge.key(), tuple(racer.key() for racer in racers))
        if key in seen:
            continue
        seen.add(key)
        assert len(seen) < 200_000, "the racers do not come to an end"
        running = [index for index, racer in enumerate(racers) if not racer.ended]
        if not running:
            ends.append(forge)
        for index in running:
            for crash in (False, True) if racers[index].crashes else (False,):
                world = forge.fork()
                moved = list(racers)
                moved[index] = restarted(racers[index]) if crash else advance(world, racers[index])
                stack.append((world, tuple(moved)))
    assert len(seen) > 50
    return ends


def restarted(racer: Racer) -> Racer:
    return Racer(racer.request, racer.now, racer.crashes - 1)


def advance(forge: MemoryForge, racer: Racer) -> Racer:
    """One atomic action: a look, or one step."""
    forge.time = racer.now
    ledger = Ledger(forge)
    ledger.made.pin, ledger.made.tag = racer.pinned, racer.made
    step, ended = None, ""
    if racer.step is None:
        try:
            plan = look(ledger, racer.request)
            step = plan.steps[0] if plan.steps else None
            ended = "" if plan.steps else str(plan.tag)
        except NeedsPersonError as error:
            ended = error.id
    else:
        with suppress(BranchMoved, Taken):
            apply(ledger, racer.step)
    return Racer(racer.request, racer.now, racer.crashes, ledger.made.pin, ledger.made.tag, step, ended)


BEFORE = datetime.fromisoformat("2026-11-20T23:59:59+00:00")
AFTER = datetime.fromisoformat("2026-11-21T00:00:01+00:00")


def living(forge: MemoryForge) -> list[str]:
    return [state.name for state in Ledger(forge, whole=True).states if state.state != "abandoned"]


@pytest.mark.parametrize("clocks", [(NOON, NOON), (BEFORE, AFTER), (AFTER, BEFORE)])
def test_two_racers_for_one_revision_make_one_release(clocks: tuple[datetime, ...]) -> None:
    for end in explore(make_forge(), *(Racer(request(f"r{number}"), now) for number, now in enumerate(clocks))):
        (tag,) = living(end)
        assert pins(end) == 1
        assert next(release.tag for release in end.releases() if release.draft) == tag
        assert {release.tag for release in end.releases()} == {tag}
        assert tag in [run.ref for run in end.run_list]


@pytest.mark.slow
def test_three_racers_around_midnight_make_one_release() -> None:
    racers = (Racer(request(f"r{number}"), now) for number, now in enumerate((BEFORE, AFTER, AFTER)))
    forge = make_forge()
    pin(forge, NEW)
    for end in explore(forge, *racers):
        assert len(living(end)) == 1


@pytest.mark.parametrize("clocks", [(NOON, NOON), (BEFORE, AFTER)])
def test_racers_that_are_killed_and_started_again_make_one_release(clocks: tuple[datetime, ...]) -> None:
    racers = (Racer(request(f"r{number}"), now, crashes=1) for number, now in enumerate(clocks))
    forge = make_forge()
    pin(forge, NEW)
    for end in explore(forge, *racers):
        (tag,) = living(end)
        assert {release.tag for release in end.releases()} == {tag}
        assert tag in [run.ref for run in end.run_list]


def test_forced_racers_with_different_ids_make_consecutive_tags() -> None:
    for end in explore(make_forge(), *(Racer(request(f"f{n}", force=True), NOON) for n in range(3))):
        assert living(end) == [f"snapshot-20261120.0{n}" for n in (1, 2, 3)]
        assert pins(end) == 1


@pytest.mark.parametrize("clocks", [(NOON, NOON), (BEFORE, AFTER)])
def test_forced_racers_with_one_id_make_one_release(clocks: tuple[datetime, ...]) -> None:
    for end in explore(make_forge(), *(Racer(request("f", force=True), now) for now in clocks)):
        assert len(living(end)) == 1


def test_racers_for_different_revisions_each_make_a_release_of_their_own() -> None:
    for end in explore(make_forge(), Racer(request("r1"), NOON), Racer(request("r2", sha=OTHER), NOON)):
        found = Ledger(end, whole=True).states
        assert {state.revision for state in found} == {NEW, OTHER}
        assert len(found) == 2
        for state in found:
            content = end.read("llvm-project.version", commit=state.commit)
            assert content == f"{state.revision}\n".encode()


def test_forced_racers_for_one_numbered_version_never_share_a_wheel_version() -> None:
    for end in explore(make_forge(), *(Racer(request(f"f{n}", force=True, version="22.1.8"), NOON) for n in range(2))):
        versions = [state.wheel_version for state in Ledger(end, whole=True).states if state.state != "abandoned"]
        assert versions == ["22.1.8"]
