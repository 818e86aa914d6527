"""Upstream's reverts of commits that a branch carries, or has taken, are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.foreign import code, markdown
from mlir_release.integrate.deliver.branch import carry, start
from mlir_release.integrate.open import open_observers
from mlir_release.integrate.patches.ledger import Reverted, reverted_since
from mlir_release.integrate.status import collect, render
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import invoke

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integrate.integration.miniature import Upstream, World


@pytest.fixture
def grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Upstream], None]], World]:
    """Makes a world whose smoke test passes, of what comes after the commits that a branch is to take."""

    def make(ahead: Callable[[Upstream], None]) -> World:
        root = tmp_path / "world"
        up = miniature.begin(root, patched=False)
        base = up.previous
        up.commit("[mlir] Feature (#7)", {"mlir/feature.c": "int feature;\n"}, name="feature")
        up.commit("[clang] Elsewhere (#8)", {"clang/x.c": "elsewhere\n"}, name="elsewhere", affecting=False)
        up.flush()
        undo = f'Revert "Something"\n\nThis reverts commit {base}.\n'
        up.commit(undo, {"mlir/undone.c": "int undone;\n"}, name="undo")
        up.filler(1, others=0)
        up.flush()
        up.commits["taken"] = up.previous
        ahead(up)
        up.filler(1, others=0)
        world = miniature.finish(root, up, base, carrier="pin-file", patched=False)
        world.enter(monkeypatch)
        world.reconfigure('["./smoke.sh"]', '["true"]')
        start(world.open())
        Walk(world.open()).next(to=up.commits["taken"])
        return world

    return make


def revert(up: Upstream, message: str, name: str = "revert") -> None:
    up.flush()
    up.commit(message, {"mlir/feature.c": f"/* {len(message)} */\n"}, name=name)
    up.flush()


def by_button(up: Upstream) -> None:
    revert(up, 'Revert "[mlir] Feature" (#9)\n\nReverts llvm/llvm-project#7\n')


def by_git(up: Upstream) -> None:
    revert(up, f'Revert "[mlir] Feature (#7)"\n\nThis reverts commit {up.commits["feature"]}.\n')


def watched(world: World) -> list[Reverted]:
    project = world.open()
    seen = open_observers(world.checkout)[0].look(fetch=False)
    return reverted_since(project.upstream, seen.base, seen.patches, project.upstream.head())


@pytest.mark.parametrize("how", [by_button, by_git])
def test_the_revert_of_a_commit_that_the_branch_took_is_reported(grow: Any, how: Callable[[Upstream], None]) -> None:
    world = grow(how)
    feature, by = world.commits["feature"], world.commits["revert"]
    assert watched(world) == [Reverted(commit=feature, subject="[mlir] Feature (#7)", by=by, patch="")]
    line = f"{feature[:12]} [mlir] Feature (#7) (taken): upstream reverts it in {by[:12]}"
    until = world.commits["taken"]  # a goal before the revert hides nothing
    for data in (collect(open_observers(world.checkout)[0]), collect(open_observers(world.checkout)[0], until=until)):
        assert line in render(data)
    ended = invoke(world, "run", "--until", until)
    assert ended.exit_code == 0, ended.output
    assert f"has a commit that upstream has reverted: {line}" in ended.stderr
    Walk(world.open()).next(to=by)
    assert watched(world) == []  # the branch has the revert, too


def test_what_was_landed_again_or_came_before_or_lies_elsewhere_or_undoes_is_not_reported(grow: Any) -> None:
    def ahead(up: Upstream) -> None:
        by_git(up)
        again = f'Reapply "[mlir] Feature" (#10)\n\nThis reverts commit {up.commits["revert"]}.\n'
        revert(up, again, "again")
        revert(up, "Revert Elsewhere\n\nReverts llvm/llvm-project#8\n", "other")
        revert(up, f"Reland Something\n\nThis reverts commit {up.commits['undo']}.\n", "reland")
        revert(
            up, f"Nonsense\n\nThis reverts commit {'1' * 40}.\n\nReverts llvm/llvm-project#999999999999\n", "nonsense"
        )
        up.commit("[mlir] Newer (#11)", {"mlir/newer.c": "\n"}, name="newer")
        revert(up, "Revert newer\n\nReverts llvm/llvm-project#11\n", "ahead")

    world = grow(ahead)
    assert watched(world) == []
    assert "reverted" not in render(collect(open_observers(world.checkout)[0]))


def test_the_revert_of_a_commit_that_the_branch_carries_is_reported(grow: Any) -> None:
    def ahead(up: Upstream) -> None:
        up.commit("[mlir] Needed (#20)", {"mlir/needed.c": "int needed;\n"}, name="needed")
        up.flush()
        said = f"Revert needed\n\nThis reverts commit {up.commits['needed']}.\n"
        up.commit(said, {"mlir/needed.c": "\n"}, name="revert")

    world = grow(ahead)
    carry(Walk(world.open()), world.commits["needed"], revert=False, why="we need it", link="", drop_when="")
    data = collect(open_observers(world.checkout)[0])
    needed, by, patch = world.commits["needed"], world.commits["revert"], data["patches"][0]["sha"]
    assert data["reverted"] == [{"commit": needed, "subject": "[mlir] Needed (#20)", "by": by, "patch": patch}]
    assert f"(carried as {patch[:12]}): upstream reverts it in {by[:12]}" in render(data)
    assert Reverted(**data["reverted"][0]).text(code, markdown).startswith(f"`{needed[:12]}` ")


def test_what_the_branch_reverts_itself_is_not_reported(world: World) -> None:
    start(world.open())
    data = collect(open_observers(world.checkout)[0])
    assert any(patch["contained"].startswith("upstream reverts it too") for patch in data["patches"])
    assert data["reverted"] == []
