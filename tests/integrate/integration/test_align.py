"""``--align``: a walk to the commit that another project pins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground import strategy as st
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.pins.dependency import aligned
from mlir_release.integrate.walk.together import JointWalk
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration.in_process import invoke as run
from tests.integrate.integration.miniature import WHO, git
from tests.refusals import refused

if TYPE_CHECKING:
    from tests.integrate.integration.pair import Stack


def pinned_by(world: Stack, name: str) -> str:
    """LLVM's commit that a planted commit of dialect pins."""
    return git(world.root / "dialect.git", "show", f"{world.commits[name]}:build_tools/llvm_version.txt")


@pytest.mark.parametrize(
    "target", ["dialect", "third_party/dialect", "third_party/dialect#build_tools/llvm_version.txt"]
)
def test_a_walk_goes_to_what_a_dependency_pins(stack: Any, target: str) -> None:
    world: Stack = stack()
    start(*world.open().everyone)
    run(world, "--upstream", "dialect", "next", "--advance-to", world.commits["integrate 1"])
    assert aligned([world.named("llvm")], target) == f"llvm@{pinned_by(world, 'integrate 1')}"
    assert run(world, "--upstream", "llvm", "next", "--align", target).exit_code == 0
    assert world.named("llvm").pin() == pinned_by(world, "integrate 1")


def test_another_project_is_asked_for_its_pin(stack: Any) -> None:
    world: Stack = stack()
    start(*world.open().everyone)
    where = f"pin-of:{world.root}/dialect.git@{world.commits['integrate 1']}#build_tools/llvm_version.txt"
    goal = aligned([world.named("llvm")], where)
    assert goal == f"llvm@{pinned_by(world, 'integrate 1')}"
    end = JointWalk([Walk(each) for each in world.open().everyone]).run(st.Adaptive(), until=goal)
    assert next(each for each in end.everywhere() if each.upstream == "llvm").outcome == "head"
    assert world.named("llvm").pin() == pinned_by(world, "integrate 1")


def test_a_fork_stands_for_what_it_is_based_on(stack: Any, capsys: pytest.CaptureFixture[str]) -> None:
    world: Stack = stack()
    start(*world.open().everyone)
    fork, goal = world.root / "fork.git", world.commits["break 1"]
    git(fork, "fetch", "-q", str(world.root / "llvm.git"), "main")
    patched = commit_files(Git(fork), goal, {"mlir/ours.txt": b"ours\n"}, "Ours \x1b[31m\n", WHO)
    git(fork, "update-ref", "refs/heads/carried-llvm", patched)
    other = world.root / "other.git"
    git(world.root, "init", "-q", "--bare", "other.git")
    pinning = commit_files(Git(other), None, {"llvm_version.txt": f"{patched}\n".encode()}, "Begin\n", WHO)
    git(other, "update-ref", "refs/heads/main", pinning)
    assert aligned([world.named("llvm")], f"pin-of:{other}@main#llvm_version.txt") == f"llvm@{goal}"
    said = capsys.readouterr().err
    assert "with 1 patches, which are not taken" in said
    assert f"patch {patched[:12]} Ours" in said
    assert "\x1b" not in said


def test_targets_that_can_not_be_followed(stack: Any) -> None:
    world: Stack = stack()
    start(*world.open().everyone)
    llvm, dialect = (world.named(name) for name in ("llvm", "dialect"))
    refused(lambda: aligned([llvm], "nowhere"), "option-invalid", "no submodule of this repository")
    refused(lambda: aligned([dialect], "third_party/llvm"), "pin-invalid", "shows no pin of dialect")
    refused(lambda: aligned([llvm], "dialect#missing.txt"), "pin-invalid")
    unpinning = f"pin-of:{world.root}/llvm.git@main"
    refused(lambda: aligned([dialect], unpinning), "pin-invalid", "shows no pin of dialect")
    Walk(llvm).next(to=world.commits["break 1"])
    refused(lambda: aligned([llvm], "dialect"), "revision-unsuitable", "behind this branch")
    both = run(world, "run", "--until", "llvm@main", "--align", "dialect")
    assert "both say where to go" in str(both.exception)
