"""What ``status`` says of the carried patches is what a rebase does, in a number of git processes that stays small."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files, commit_tree, merge_commits
from mlir_release.integrate.deliver import branch
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.open import open_observers
from mlir_release.integrate.patches.ledger import carried
from mlir_release.integrate.patches.patches import PatchConflict, Stack, fates, rebase
from mlir_release.integrate.status import collect
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.miniature import WHO

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.git.patch import Patch
    from tests.integrate.integration.miniature import World

FILES = ("one", "two", "three")


class Line:
    """A line of commits whose files have eight lines each, far enough apart for git to merge them one by one."""

    def __init__(self, git: Git, base: str, texts: dict[str, list[str]]) -> None:
        self.git, self.tip, self.texts = git, base, {name: list(lines) for name, lines in texts.items()}
        self.made: list[str] = []

    def commit(self, changes: dict[tuple[str, int], str], message: str) -> str:
        for (name, number), text in changes.items():
            self.texts[name][number] = text
        contents = {name: "\n\n\n\n".join(lines).encode() + b"\n" for name, lines in self.texts.items()}
        self.tip = commit_files(self.git, self.tip or None, contents, message, WHO)
        self.made.append(self.tip)
        return self.tip


def stacked(folder: Path, seed: int) -> tuple[Git, str, str, str]:
    """A repository; its base, and what upstream and a carried stack have made of it at random."""
    chance = random.Random(seed)
    miniature.git(folder, "init", "-q", "--bare", "stack.git")
    git = Git(folder / "stack.git")
    begun = Line(git, "", {name: [f"{name} {number}" for number in range(8)] for name in FILES})
    begun.commit({}, "Begin\n")
    bad = begun.commit({("one", 7): "regression"}, "Regress\n")
    upstream, ours = Line(git, bad, begun.texts), Line(git, bad, begun.texts)
    places = [(name, number) for name in FILES for number in range(7)]
    for number in range(chance.randint(1, 5)):
        upstream.commit(dict.fromkeys(chance.sample(places, 3), f"upstream {number}"), f"Change {number}\n")
    if chance.random() < 0.5:
        upstream.commit({("one", 7): "one 7"}, f"Undo\n\nThis reverts commit {bad}.\n")
    for number in range(chance.randint(2, 6)):
        kind = chance.choice(("local", "local", "revert", "pick", "copy"))
        change = dict.fromkeys(chance.sample(places, chance.randint(1, 2)), f"ours {number}")
        if kind == "revert":
            ours.commit({("one", 7): "one 7"} | change, f"Revert\n\nThis reverts commit {bad}.\n")
        elif kind == "pick":  # with a change that upstream's commit does not have
            ours.commit(change, f"Pick\n\n(cherry picked from commit {chance.choice(upstream.made)})\n")
        elif kind == "copy":  # upstream takes it, and goes on from there
            upstream.commit(change, "Take\n")
            ours.commit(change, "Offer\n")
            upstream.commit({next(iter(change)): "upstream goes on"}, "Go on\n")
        else:
            ours.commit(change, "Ours\n")
    return git, bad, ours.tip, upstream.tip


def replayed(git: Git, patches: list[Patch], base: str, target: str) -> Stack | PatchConflict:
    try:
        return rebase(git, patches, base, target)
    except PatchConflict as conflict:
        return conflict


@pytest.mark.parametrize("seed", range(40))
def test_status_foretells_what_a_rebase_does(tmp_path: Path, seed: int) -> None:
    git, base, tip, target = stacked(tmp_path, seed)
    patches = carried(git, base, tip)
    told = fates(git, patches, base, target)
    done = replayed(git, patches, base, target)
    if isinstance(done, PatchConflict):
        index = next(i for i, patch in enumerate(patches) if patch.sha == done.patch.sha)
        assert told[done.patch.sha] == f"does not apply on {target[:12]}: {', '.join(done.files)}"
        assert not any(told[patch.sha].startswith("does not apply") for patch in patches[:index])
    else:
        dropped = {patch.sha for patch, _ in done.dropped}
        assert {sha for sha, reason in told.items() if reason} == dropped
        assert not any(reason.startswith("does not apply") for reason in told.values())


def test_status_starts_as_many_git_processes_for_twelve_patches_as_for_three(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(world.open())
    before, after = world.commits["needed"], world.affecting[-1]
    few = [processes_of_status(world, monkeypatch, until) for until in (before, after)]
    for number in range(9):
        git = world.open().upstream
        text = f"patch {number}\n".encode()
        local = commit_files(git, world.commits["bug"], {f"mlir/ours{number}": text}, f"Local {number}\n", WHO)
        branch.carry(Walk(world.open()), local, revert=False, why="", link="", drop_when="")
    assert len(collect(open_observers(world.checkout)[0], fetch=False)["patches"]) == 12
    many = [processes_of_status(world, monkeypatch, until) for until in (before, after)]
    assert many == few
    assert few[0] <= 26
    assert few[1] <= 64, "one of them does not apply any more: from which commit on is told, too"


@pytest.mark.parametrize(("carrier", "most"), [("submodule", 7), ("pin-file", 10)])
def test_status_of_a_branch_without_patches_starts_few_git_processes(
    make_world: Any, monkeypatch: pytest.MonkeyPatch, carrier: str, most: int
) -> None:
    world: World = make_world(carrier)
    start(world.open())
    assert processes_of_status(world, monkeypatch) <= most


def processes_of_status(world: World, monkeypatch: pytest.MonkeyPatch, until: str | None = None) -> int:
    """How many processes git itself says that it starts as."""
    trace = world.root / "trace"
    trace.unlink(missing_ok=True)
    with monkeypatch.context() as patch:
        patch.setenv("GIT_TRACE", str(trace))
        collect(open_observers(world.checkout)[0], until=until, fetch=False)
    return trace.read_text().count("trace: built-in:")


@pytest.mark.parametrize("named_by", ["commit", "pull request"])
def test_reverts_that_github_made_are_told_by_their_pull_requests(tmp_path: Path, named_by: str) -> None:
    miniature.git(tmp_path, "init", "-q", "--bare", "upstream.git")
    git = Git(tmp_path / "upstream.git")
    begun = Line(git, "", {"one": [f"one {number}" for number in range(8)]})
    begun.commit({}, "Begin\n")
    bad = begun.commit({("one", 7): "feature"}, "Add a feature (#71)\n")
    ours = Line(git, bad, begun.texts)
    what = f"This reverts commit {bad}." if named_by == "commit" else "Reverts llvm/llvm-project#71"
    carrying = ours.commit({("one", 7): "one 7"}, f"Do without\n\n{what}\n")
    upstream = Line(git, bad, begun.texts)
    upstream.commit({("one", 1): "other"}, "Revert another (#72)\n\nReverts llvm/llvm-project#7\n")
    patches = carried(git, bad, ours.tip)
    assert [patch.kind for patch in patches] == ["revert"]
    assert fates(git, patches, bad, upstream.tip) == {carrying: ""}
    reverting = upstream.commit(
        {("one", 7): "one 7"}, 'Revert "Add a feature" (#73)\n\nReverts llvm/llvm-project#71\n\n> Reverts #72\n'
    )
    assert fates(git, patches, bad, upstream.tip) == {carrying: f"upstream reverts it too, in {reverting[:12]}"}
    upstream.commit({("one", 7): "feature"}, 'Revert "Revert "Add a feature"" (#74)\n\nReverts llvm/llvm-project#73\n')
    assert fates(git, patches, bad, upstream.tip) == {carrying: ""}


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_fork_that_merges_upstream_has_a_status(unpatched: World, by_hand: bool) -> None:
    world, git = unpatched, unpatched.open().upstream
    first, second = world.affecting[:2]
    git.fetch()
    ours = commit_files(git, f"{first}^", {"mlir/ours.txt": b"ours\n"}, "Ours\n", WHO)
    tree = merge_commits(git, ours, second).tree
    if by_hand:
        tree = commit_files(git, second, {"mlir/ours.txt": b"by hand\n"}, "Tree\n", WHO) + "^{tree}"
    pin = commit_tree(git, git.text("rev-parse", tree), [ours, second], "Merge upstream\n", WHO)
    if not by_hand:
        pin = commit_files(git, pin, {"mlir/more.txt": b"more\n"}, "More\n", WHO)
    git.run("update-ref", "refs/heads/pinned", pin)
    (world.checkout / git.config.pin_file).write_text(f"{pin}\n")
    world.git("commit", "-qam", "Pin a fork")
    (observer,) = open_observers(world.checkout)
    kinds = [(patch.subject, patch.kind) for patch in observer.look().patches]
    assert kinds == [("Ours", "local"), ("Merge upstream", "merge") if by_hand else ("More", "local")]
    data = collect(observer)
    assert data["base"] == second
    stack = observer.look(until=world.affecting[2])
    assert observer.applies(stack, world.affecting[2]) != by_hand
