"""What a dependency pins: a walk goes there (``--align``), and a patch is carried until the dependency has a commit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground import strategy as st
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files
from mlir_release.integrate.deliver.branch import carry, start
from mlir_release.integrate.pins.dependency import aligned, carried_dependency
from mlir_release.integrate.walk.rounds import gather, plan_round, probe
from mlir_release.integrate.walk.together import JointWalk
from mlir_release.integrate.walk.walk import Allowed, Walk
from tests.integrate.integration.in_process import invoke as run
from tests.integrate.integration.miniature import WHO, git
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integrate.integration.pair import Stack

PLAIN, FOLLOWED = ("llvm",), ("llvm", "dialect")

#: Recorded verdicts only.
RECALLS = Allowed(probes=False)


def joint(world: Stack) -> JointWalk:
    return JointWalk([Walk(project, publish=True) for project in world.open().everyone])


def dialect_stands_at(world: Stack, revision: str) -> None:
    """Let dialect's main branch be at a commit."""
    git(world.root / "dialect.git", "update-ref", "refs/heads/main", revision)


def waiting(stack: Any, order: tuple[str, ...]) -> Stack:
    """A branch at llvm's break 1, which is reverted until dialect, whose main is before it, follows."""
    world: Stack = stack(order=order)
    dialect_stands_at(world, f"{world.commits['integrate 1']}~1")
    start(*world.open().everyone, publish=True)
    llvm = Walk(world.open().everyone[0], publish=True)
    llvm.next(to=world.commits["break 1"])
    until = ("--until-dependency", "third_party/dialect")
    added = run(
        world, "--upstream", "llvm", "patches", "add", world.commits["break 1"], "--revert", "--why", "w", *until
    )
    assert added.exit_code == 0, added.exception
    return world


@pytest.mark.parametrize("order", [PLAIN, FOLLOWED])
def test_the_dependency_moves_and_the_revert_is_dropped_as_one_step(stack: Any, order: tuple[str, ...]) -> None:
    world = waiting(stack, order)
    until = f"{'llvm@' if order == FOLLOWED else ''}{world.commits['break 1']}"
    shown = run(world, "--upstream", "llvm", "patches", "list").output
    assert "until third_party/dialect has it" in shown
    assert "which does not contain it yet" in run(world, "--upstream", "llvm", "status").output
    tip = world.git("rev-parse", "HEAD")
    if order == PLAIN:
        assert joint(world).run(st.Adaptive(), until=until).outcome == "head"
        assert world.git("rev-parse", "HEAD") == tip

    dialect_stands_at(world, f"{world.commits['feature']}~1")
    told = run(world, "--upstream", "llvm", "status").output
    assert "contains it: the walk tries to drop the revert with it" in told
    assert "drop when: dialect pins llvm with" in told
    ran = world.tests
    walked = f"{until}+dialect@{world.commits['integrate 1']}" if order == FOLLOWED else until
    assert joint(world).run(st.Adaptive(), until=walked).outcome == "head"
    assert world.tests == ran + 1
    subjects = world.git("log", "--first-parent", "--format=%s", f"{tip}..").splitlines()
    assert subjects[-1].startswith(f"Advance dialect to {world.commits['integrate 1'][:12]} and drop 'Revert")
    assert world.named("llvm" if order == FOLLOWED else "").pin() == world.commits["break 1"]
    assert world.git("rev-parse", "HEAD:third_party/dialect") == world.commits["integrate 1"]
    assert world.git("status", "--porcelain") == ""
    assert joint(world).run(st.Adaptive(), until=walked).smoke_tests == 0


def test_a_step_that_fails_is_not_taken_and_not_tested_again(stack: Any) -> None:
    world = waiting(stack, PLAIN)
    theirs = Git(world.root / "dialect.git")
    pins = git(theirs.directory, "show", f"{world.commits['integrate 1']}:build_tools/llvm_version.txt")
    files = {"build_tools/llvm_version.txt": f"{pins}\n".encode(), "lib/needs.txt": b"never\n"}
    dialect_stands_at(world, commit_files(theirs, "refs/heads/main", files, "Integrate badly\n", WHO))
    tip, ran = world.git("rev-parse", "HEAD"), world.tests
    for _ in range(2):
        assert joint(world).run(st.Adaptive(), until=world.commits["break 1"]).outcome == "head"
        assert world.git("rev-parse", "HEAD") == tip
        assert world.tests == ran + 2  # the step; and the branch as it is, with the revert


def test_a_round_tests_the_step_on_another_machine(stack: Any, tmp_path: Path) -> None:
    world = waiting(stack, PLAIN)
    dialect_stands_at(world, f"{world.commits['feature']}~1")
    planned = plan_round(joint(world), st.Adaptive(), until=world.commits["break 1"])["probes"]
    assert planned[0].startswith("drop@")
    end = joint(world).run(st.Adaptive(), until=world.commits["break 1"], allowed=RECALLS)
    assert end.outcome == "untested"
    folder = tmp_path / "records"
    folder.mkdir()
    probe(joint(world), planned[0], folder / "0.json")
    world.git("update-ref", "-d", joint(world).store.ref)
    assert gather(joint(world), folder) == 1
    assert joint(world).run(st.Adaptive(), until=world.commits["break 1"], allowed=RECALLS).outcome == "head"
    assert world.open().pin() == world.commits["break 1"]
    refused(lambda: probe(joint(world), planned[0]), "revision-unknown")


def test_dependencies_that_can_not_be_waited_for(stack: Any) -> None:
    world: Stack = stack(order=PLAIN)
    walk = world.begin()
    walk.next(to=world.commits["break 1"])

    def waits_for(path: str, commit: str = "") -> Any:
        wanted = commit or world.commits["break 1"]
        return lambda: carry(walk, wanted, revert=True, why="w", link="", drop_when="", until=path)

    refused(waits_for("nowhere"), "option-invalid", "no submodule of this repository")
    refused(waits_for("third_party/dialect#no.txt"), "pin-invalid")
    refused(waits_for("third_party/dialect", f"{world.commits['break 1']}~2"), "revision-unsuitable", "already")
    unpinned = commit_files(Git(world.root / "dialect.git"), None, {"lib/needs.txt": b"1\n"}, "No pin\n", WHO)
    foreign = {"build_tools/llvm_version.txt": f"{'0123456789' * 4}\n".encode()}
    alien = commit_files(Git(world.root / "dialect.git"), unpinned, foreign, "A foreign pin\n", WHO)
    for commit, words in ((unpinned, "shows no pin of llvm"), (alien, "not in llvm's history")):
        dialect_stands_at(world, commit)
        world.git("-C", "third_party/dialect", "fetch", "-q", "origin", commit)
        world.git("update-index", "--cacheinfo", f"160000,{commit},third_party/dialect")
        world.git("commit", "-q", "-m", "Move")
        world.git("submodule", "--quiet", "update")
        refused(waits_for("third_party/dialect"), "pin-invalid", words)
    lost = "abcdef0123" * 4
    world.git("update-index", "--cacheinfo", f"160000,{lost},third_party/dialect")
    world.git("commit", "-q", "-m", "Move to what nobody has")
    refused(lambda: walk.project.refuse_dirty(), "program-failed")
    refused(lambda: carried_dependency(walk.project, "third_party/dialect"), "commit-unreachable")


def test_a_dependency_that_can_not_be_read_later_stops_nothing(stack: Any, capsys: pytest.CaptureFixture[str]) -> None:
    world = waiting(stack, PLAIN)
    (world.root / "dialect.git").rename(world.root / "gone.git")
    assert joint(world).run(st.Adaptive(), until=world.commits["break 1"]).outcome == "head"
    assert "can't be read" in capsys.readouterr().err
    data = json.loads(
        run(world, "patches", "explain", run(world, "patches", "list").output.split()[0], "--json").stdout
    )
    assert data["until"] == "third_party/dialect"


# -- --align -----------------------------------------------------------------------------------------------------------


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
