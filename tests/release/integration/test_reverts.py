"""The revert watch, on real repositories."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.console import in_markdown
from mlir_release.ground.git.repository import Git
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.release.latest.catalogue import read_index
from mlir_release.release.latest.reverts import (
    BUILT_FROM,
    RevertWatch,
    find_reverts,
    mattering,
    note_of,
    watch,
    watched,
)
from mlir_release.release.model.release_index import Quality, ReleaseQuality, make_index, parse_index
from tests.refusals import refused
from tests.upstream_history import UpstreamHistory

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.model.release_index import IndexRow

PATHS = (*BUILT_FROM, "mlir")
NOTHING = Quality(repository="local")


class Watched:
    """An upstream, its snapshots, and a cache."""

    def __init__(self, root: Path) -> None:
        self.history = UpstreamHistory(root / "upstream")
        self.root = root
        self.snapshots: list[tuple[str, int]] = []

    def snapshot(self, number: int) -> str:
        tag = f"snapshot-20261001.{len(self.snapshots) + 1:02d}"
        self.snapshots.append((tag, number))
        return tag

    def rows(self) -> tuple[IndexRow, ...]:
        self.history.write()
        manifests = [self.history.manifest(tag, number) for tag, number in self.snapshots]
        return parse_index(make_index(manifests, repository="local")["index.json"]).releases

    def upstream(self) -> Upstream:
        return Upstream(str(self.history.folder), cache=self.root / "cache")

    def look(self, known: Quality = NOTHING, clone: Git | None = None) -> RevertWatch:
        return find_reverts(self.upstream(), self.rows(), paths=PATHS, known=known, clone=clone)

    def found(self) -> dict[str, list[str]]:
        """The subjects of reverted commits that matter, by the last digits of the snapshots' tags."""
        return {tag[-2:]: [each.subject for each in mattering(found)] for tag, found in self.look().releases.items()}

    def revert(self, number: int, subject: str = "Revert it") -> int:
        """A commit that reverts another, as git writes it."""
        self.history.write()
        return self.history.commit(f"{subject}\n\nThis reverts commit {self.history.ids[number]}.")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    # HEAD of a cache leads to a commit then, and git would read a .mailmap there, which was not fetched.
    (tmp_path / "gitconfig").write_text("[init]\n\tdefaultBranch = main\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    return Watched(tmp_path)


def test_a_snapshot_is_told_of_what_it_has_and_upstream_has_reverted(world: Watched) -> None:
    world.history.commit("[mlir] Base")
    world.snapshot(0)
    bad = world.history.commit("[mlir] Fold (#7)")
    world.snapshot(bad)
    by = world.history.commit('Revert "[mlir] Fold (#7)" (#8)\n\nReverts llvm/llvm-project#7')
    world.snapshot(by)
    assert world.found() == {"01": [], "02": ["[mlir] Fold (#7)"], "03": []}
    watch = world.look()
    (revert,) = watch.releases["snapshot-20261001.02"]
    assert (revert.commit, revert.by) == (world.history.ids[bad], world.history.ids[by])
    assert revert.date == "2026-10-01T00:20:00Z"
    assert watch.upstream_head == world.history.ids[by]
    assert "1 with reverted commits" in watch.text()
    assert note_of("snapshot-20261001.02", [revert]).startswith("upstream has reverted a commit of")


def test_what_landed_again_is_not_reverted_but_its_next_revert_is(world: Watched) -> None:
    bad = world.history.commit("[mlir] Fold (#7)")
    world.snapshot(bad)
    revert = world.revert(bad)
    world.snapshot(revert)
    again = world.revert(revert, "Reland [mlir] Fold")
    world.snapshot(again)
    assert world.found() == {"01": [], "02": [], "03": []}
    world.revert(again, "Revert the relanding")
    assert world.found() == {"01": ["[mlir] Fold (#7)"], "02": [], "03": ["Reland [mlir] Fold"]}


def test_commits_that_touch_nothing_that_is_built_are_told_of_and_do_not_matter(world: Watched) -> None:
    world.history.commit()
    numbers = [
        world.history.commit(path, path)
        for path in ("clang/lib/AST.cpp", "llvm/docs/a.rst", "llvm/lib/Value.cpp", "mlir/test/a.mlir", "cmake/a.cmake")
    ]  # fmt: skip
    tag = world.snapshot(numbers[-1])
    for number in numbers:
        world.revert(number)
    assert {each.subject: each.affects for each in world.look().releases[tag]} == {
        "clang/lib/AST.cpp": False, "llvm/docs/a.rst": False, "llvm/lib/Value.cpp": True, "mlir/test/a.mlir": True,
        "cmake/a.cmake": True,
    }  # fmt: skip


def test_two_fetches_tell_all_and_a_known_answer_saves_the_second(world: Watched) -> None:
    last = world.history.commits(300)
    tags = [world.snapshot(number) for number in range(100, last, 40)]
    for number in range(60, 200, 10):
        world.revert(number)
    traced = world.root / "git.trace"
    with (world.root / "gitconfig").open("a") as settings:
        settings.write(f"[trace2]\n\tnormalTarget = {traced}\n")
    first = world.look()
    assert traced.read_text().count(" cmd_name fetch (fetch)\n") == 2
    assert all(first.releases[tag] for tag in tags)
    known = Quality(
        repository="local",
        releases={tag: ReleaseQuality(reverted=reverts) for tag, reverts in first.releases.items()},
    )
    assert world.look(known) == first
    assert traced.read_text().count(" cmd_name fetch (fetch)\n") == 3


def test_only_the_folders_of_reverted_commits_are_fetched(world: Watched) -> None:
    last = world.history.commits(200)
    world.snapshot(last)
    world.revert(150)
    world.look()
    (cache,) = (world.root / "cache" / "revisions").glob("*.window")
    kinds = Git(cache).text("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    assert kinds.count("blob") == 0
    assert 0 < kinds.count("tree") < 20
    assert kinds.count("commit") == 201


def test_a_revert_of_a_commit_that_is_older_than_the_window_is_left_alone(world: Watched) -> None:
    old = world.history.commit("[mlir] Old")
    world.history.commits(40 * 144)  # forty days
    world.snapshot(40 * 144)
    world.revert(old)
    assert world.found() == {"01": []}
    (cache,) = (world.root / "cache" / "revisions").glob("*.window")
    assert int(Git(cache).text("rev-list", "--count", "main")) < 31 * 144


@pytest.mark.parametrize(
    "message",
    [
        f"Revert it\n\nThis reverts commit {'1' * 40}.",
        "Revert it\n\nThis reverts commits 1111111, and 2222222.",
        "Revert it (#5)\n\nReverts llvm/llvm-project#5",
        "Revert it\n\nReverts llvm/llvm-project#99999999999999999999",
    ],
)
def test_reverts_that_name_nothing_here_are_left_alone(world: Watched, message: str) -> None:
    world.snapshot(world.history.commits(10))
    world.history.commit(message)
    assert world.found() == {"01": []}


def test_a_hostile_subject_is_shown_and_does_nothing(world: Watched) -> None:
    world.history.commit()
    bad = world.history.commit("[mlir] \x1b[31m|x| **b** ](https://evil.example) ::error::\x07\u2028 @ada (#7)")
    world.snapshot(bad)
    world.revert(bad)
    (revert,) = world.look().releases["snapshot-20261001.01"]
    assert not any(ord(character) < 32 or character == "\u2028" for character in revert.subject)
    shown = in_markdown(world.look())
    assert "](https" not in shown.replace("\\]", "")
    assert "\\|x\\|" in shown
    assert "**b**" not in shown


def test_without_upstream_the_last_answer_stands_and_says_so(world: Watched, capfd: pytest.CaptureFixture[str]) -> None:
    bad = world.history.commit("[mlir] Fold (#7)")
    world.snapshot(bad)
    world.revert(bad)
    first = world.look()
    rows = world.rows()
    known = Quality(
        repository="local",
        upstream_head=first.upstream_head,
        releases={tag: ReleaseQuality(reverted=reverts) for tag, reverts in first.releases.items()},
    )
    shutil.rmtree(world.history.folder)
    again = find_reverts(world.upstream(), rows, paths=PATHS, known=known)
    assert (again.releases, again.upstream_head) == (first.releases, first.upstream_head)
    assert "can't be read" in again.note
    assert first.upstream_head[:12] in capfd.readouterr().err


def test_a_snapshot_of_another_branch_is_left_out(world: Watched) -> None:
    world.history.commits(5)
    other = world.history.commit("[mlir] Elsewhere", branch="topic", on=2)
    world.snapshot(4)
    world.snapshot(other)
    found = world.look()
    assert found.releases.keys() == {"snapshot-20261001.01"}
    assert found.unseen == ("snapshot-20261001.02",)
    assert found.text().endswith("not in upstream's newest history: snapshot-20261001.02")


def test_a_clone_is_read_as_it_was_last_fetched_and_nothing_is_asked_of_upstream(world: Watched) -> None:
    bad = world.history.commits(30)
    world.snapshot(bad)
    world.revert(bad)
    expected, rows = world.look(), world.rows()
    clone = world.root / "clone"
    Git(world.root).run("clone", "--quiet", str(world.history.folder), str(clone), remote=str(world.history.folder))
    shutil.move(world.history.folder, world.root / "away")
    world.history.folder.mkdir()
    assert find_reverts(world.upstream(), rows, paths=PATHS, known=NOTHING, clone=Git(clone)) == expected


def test_a_shallow_clone_tells_what_it_has(world: Watched) -> None:
    bad = world.history.commits(30)
    world.snapshot(bad)
    world.revert(bad)
    world.history.write()
    clone = world.root / "clone"
    address = world.history.folder.as_uri()
    Git(world.root).run("clone", "--quiet", "--depth=2", address, str(clone), remote=address)
    (revert,) = world.look(clone=Git(clone)).releases["snapshot-20261001.01"]
    assert revert.affects, "its parent is not there, so nobody can tell"


def test_the_command_asks_for_one_snapshot_or_for_those_of_the_last_days(
    world: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(world.root / "cache"))
    bad = world.history.commits(30)
    by = world.revert(bad)
    world.history.write()
    forge = world.history.forge()
    forge.add(world.history.manifest("snapshot-20261001.01", bad))
    forge.add(world.history.manifest("snapshot-20261001.02", by))
    forge.add(world.history.manifest("llvm-22.1.8.01", bad))
    assert {tag: len(found) for tag, found in watch(forge, None).releases.items()} == {
        "snapshot-20261001.01": 1, "snapshot-20261001.02": 0,
    }  # fmt: skip
    assert watch(forge, "snapshot-20261001.02").releases.keys() == {"snapshot-20261001.02"}
    assert [row.tag for row in watched(read_index(forge), 0)] == ["snapshot-20261001.02"]
    refused(lambda: watch(forge, "llvm-22.1.8.01"), "release-unsuitable")
    refused(lambda: watch(forge, "snapshot-20261001.09"), "release-not-published")
