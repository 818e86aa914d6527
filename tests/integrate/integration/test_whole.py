"""The whole integrate to head, in the miniature world, with every strategy: the culprits named are the planted ones."""

from __future__ import annotations

from typing import Any

import pytest

from mlir_release.ground import strategy as st
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import is_ancestor
from mlir_release.integrate.deliver import branch
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.deliver.land import check_reachable
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.miniature import FIXES, World


def drive(world: World, strategy: st.Strategy, width: int = 1) -> tuple[list[str], int]:
    """Walk to head, doing what a person does in between; the names of the culprits, and the number of smoke tests."""
    names = {sha: name for name, sha in world.commits.items()}
    culprits: list[str] = []
    tests = 0
    start(world.open(), publish=True)
    for _ in range(20):
        walk = Walk(world.open(), publish=True)
        end = walk.run(strategy, width=width)
        tests += end.smoke_tests
        if end.outcome == "head":
            return culprits, tests
        if end.outcome == "conflict":
            assert end.conflict is not None
            assert end.bad == world.commits["conflict"]
            branch.drop([walk], end.conflict.patch.sha)
            continue
        assert end.outcome == "culprit", end
        name = names[end.bad]
        culprits.append(name)
        if name in FIXES:
            walk.next()
            world.fix(name)
        else:  # upstream's own mistake: skip it
            walk.next(to=world.commits["healed"])
    raise AssertionError("the walk does not end")


PERSISTING = ["rename scale", "rename field", "drop last"]


@pytest.mark.parametrize(("name", "width"), [("linear", 1), ("head", 1), ("adaptive", 1), ("parallel", 4)])
@pytest.mark.parametrize("carrier", ["submodule", "pin-file"])
def test_the_whole_integrate(make_world: Any, carrier: str, name: str, width: int) -> None:
    big = (carrier, name) in {("submodule", "adaptive"), ("submodule", "linear")}
    world = make_world(carrier, patched=True, small=not big)
    culprits, tests = drive(world, st.make_strategy(name, width), width)
    print(f"{carrier}, {name}: {tests} smoke tests for {len(world.affecting)} affecting commits")
    assert [c for c in culprits if c != "healing"] == PERSISTING
    if name == "linear":
        assert "healing" in culprits
    project = world.open()
    walk = Walk(world.open())
    seen = walk.observer.look()
    assert seen.ahead == ()
    assert seen.base == world.affecting[-1]
    assert seen.patches == ()  # landed, followed, dropped by hand
    log = world.git("log", "--format=%B", "HEAD")
    assert "upstream has it" in log
    assert "upstream reverts it too" in log
    check_reachable(project, walk.branch)
    # What was published is what is here, and every LLVM that was ever pinned can be fetched by others.
    assert miniature.git(world.root / "origin.git", "rev-parse", walk.branch) == seen.head
    fork = Git(world.root / "fork.git")
    for commit in world.git("rev-list", "--first-parent", "origin/main..HEAD").split():
        pin = project.pin(commit)
        assert is_ancestor(project.upstream, pin, world.affecting[-1]) or is_ancestor(fork, pin, "downstream-llvm")
    assert world.git("status", "--porcelain") == ""
