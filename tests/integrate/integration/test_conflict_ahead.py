"""How far the carried patches apply is found by merges alone; the walk goes there, and ends there with the conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.ground import strategy as st
from mlir_release.ground.git.trees import commit_files
from mlir_release.integrate.deliver import branch
from mlir_release.integrate.open import open_observers
from mlir_release.integrate.patches.patches import PatchConflict
from mlir_release.integrate.status import collect, render
from mlir_release.integrate.walk.rounds import plan_round
from mlir_release.integrate.walk.together import JointWalk
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.miniature import WHO

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mlir_release.integrate.report import WalkEnd
    from tests.integrate.integration.miniature import Upstream, World


#: Far enough apart for git to merge them one by one.
LINES = [f"line {number}\n\n\n\n" for number in range(10)]


def changed(lines: list[str], *numbers: int) -> str:
    return "".join(f"changed {line}" if number in numbers else line for number, line in enumerate(lines))


def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history: Callable[[Upstream], None]) -> World:
    """A world whose downstream carries a change of the table's line 0; the integrate has come to where it was added."""
    up = miniature.begin(tmp_path / "world", patched=False)
    base = up.previous
    up.commit("[mlir] Add a table", {"mlir/table.txt": changed(LINES)}, name="table")
    history(up)
    world = miniature.finish(tmp_path / "world", up, base, carrier="pin-file", patched=False)
    world.enter(monkeypatch)
    walk = world.begin()
    walk.next(to=world.commits["table"])
    git = world.open().upstream
    ours = commit_files(git, world.commits["table"], {"mlir/table.txt": changed(LINES, 0).encode()}, "Ours\n", WHO)
    branch.carry(walk, ours, revert=False, why="ours", link="", drop_when="")
    return world


def refusing(up: Upstream) -> None:
    """25 commits, of which the 13th changes what the downstream changed."""
    up.filler(12, others=0)
    up.commit("[mlir] Change the first line", {"mlir/table.txt": "another\n" + changed(LINES[1:])}, name="conflict")
    up.filler(12, others=0)


def healed(up: Upstream) -> None:
    """The same, but two commits later the line is as it was; the 20th changes it again."""
    up.filler(6, others=0)
    up.commit("[mlir] Change the first line", {"mlir/table.txt": "another\n" + changed(LINES[1:])})
    up.filler(1, others=0)
    up.commit("[mlir] Change it back", {"mlir/table.txt": changed(LINES)})
    up.filler(10, others=0)
    up.commit("[mlir] Change the first line again", {"mlir/table.txt": "third\n" + changed(LINES[1:])}, name="conflict")
    up.filler(5, others=0)


def moved(up: Upstream) -> None:
    """The table is renamed and changed in two steps: git sees that from one to the next, but not from the first."""
    up.filler(4, others=0)
    up.commit("[mlir] Move the table", {"mlir/moved.txt": changed(LINES, 1, 2, 3, 4)}, name="moved")
    up.stream.append("D mlir/table.txt\n")
    up.filler(4, others=0)
    up.commit("[mlir] Change the moved table", {"mlir/moved.txt": changed(LINES, *range(1, 10))}, name="changed")
    up.filler(4, others=0)


def walked(world: World, strategy: str = "adaptive") -> tuple[Walk, WalkEnd, int]:
    """The walk, its end, and how many advances it made."""
    before = world.git("rev-parse", "HEAD")
    walk = Walk(world.open())
    end = walk.run(st.make_strategy(strategy))
    return walk, end, int(world.git("rev-list", "--count", f"{before}..HEAD"))


@pytest.mark.parametrize(("strategy", "tests"), [("adaptive", 1), ("head", 1), ("linear", 12)])
def test_the_walk_goes_to_the_conflict_without_a_test_that_it_does_not_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, tests: int
) -> None:
    world = built(tmp_path, monkeypatch, refusing)
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    walk, end, advances = walked(world, strategy)
    assert (end.outcome, end.base) == ("conflict", world.affecting[12])
    assert end.suspects[0].sha == world.commits["conflict"]
    assert end.conflict is not None
    assert end.conflict.files == ("mlir/table.txt",)
    assert (walk.tests, advances) == (tests, tests)
    merges = (tmp_path / "trace").read_text().count("built-in: git merge-tree")
    assert merges <= 16 + tests, "the conflict ahead is looked for once"


def test_what_applies_again_after_a_conflict_is_within_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = built(tmp_path, monkeypatch, healed)
    _, end, _ = walked(world)
    assert (end.outcome, end.suspects[0].sha) == ("conflict", world.commits["conflict"])


def test_a_conflict_that_an_advance_resolves_does_not_end_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = built(tmp_path, monkeypatch, moved)
    walk = Walk(world.open())
    seen = walk.observer.look()
    reach = walk.observer.reach(seen)
    assert seen.ahead[reach].sha == world.commits["changed"]
    with pytest.raises(PatchConflict):
        walk.observer.stack_at(seen, world.commits["changed"])
    _, end, _ = walked(world)
    assert (end.outcome, end.remaining) == ("head", 0)
    pin = world.open().pin()
    assert "changed line 0" in world.open().upstream.text("show", f"{pin}:mlir/moved.txt")


def test_status_says_how_far_the_patches_apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = built(tmp_path, monkeypatch, refusing)
    data = collect(open_observers(world.checkout)[0], fetch=False)
    told = data["patches_apply_up_to"]
    assert (told["commit"], told["position"]) == (world.affecting[12], 12)
    lines = render(data).splitlines()
    at = lines.index(f"the carried patches apply up to {world.affecting[12][:12]} (12 of 25)")
    assert lines[at + 1].endswith(f"does not apply on {world.commits['conflict'][:12]}: mlir/table.txt")
    Walk(world.open()).next(to=world.affecting[12])
    data = collect(open_observers(world.checkout)[0], fetch=False)
    assert data["patches_apply_up_to"]["position"] == 0
    assert "tests_left" in data
    early = collect(open_observers(world.checkout)[0], until=world.affecting[12], fetch=False)
    assert "apply up to" not in render(early)


def test_a_round_asks_for_nothing_beyond_the_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = built(tmp_path, monkeypatch, refusing)
    world.git("push", "-q", "origin", "HEAD")
    walk = Walk(world.open())
    plan = plan_round(JointWalk([walk]), st.Adaptive(width=8))
    assert plan["probes"]
    assert set(plan["probes"]) <= set(world.affecting[1:13])
    walk.next(to=world.affecting[12])
    assert plan_round(JointWalk([walk]), st.Adaptive(width=8))["probes"] == []
