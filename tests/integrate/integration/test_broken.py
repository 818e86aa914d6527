"""The broken state at the remote: pushed where a walk stops, moved, removed, and never taken for an integrate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.git.repository import Git
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.state import T_UPSTREAM, T_VERDICT
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import Pulls, integrate, invoke
from tests.integrate.integration.miniature import BRANCH
from tests.kill import NEEDS_COMPILER
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integrate.integration.miniature import World

pytestmark = NEEDS_COMPILER

BROKEN = f"{BRANCH}-broken"


@pytest.fixture
def pulls(use_pulls: Any) -> Pulls:
    use_pulls(made := Pulls())
    return made


def run(world: World, *arguments: str) -> dict[str, Any]:
    return integrate(world, "run", "--push", *arguments)


def at_remote(world: World) -> str | None:
    return Git(world.root / "origin.git").resolve(f"refs/heads/{BROKEN}")


def stopped(world: World) -> dict[str, Any]:
    """At the first break."""
    start(world.open(), publish=True)
    return run(world, "--until", world.commits["rename scale"])


@pytest.mark.parametrize("patched", [False, True])
def test_a_culprit_is_pushed_on_top_of_the_branch_and_removed_when_the_walk_goes_on(
    make_world: Any, pulls: Pulls, patched: bool
) -> None:
    world: World = make_world(patched=patched)
    world.reconfigure("[upstream.export]", '[ci]\nworkflow = "ci.yml"\n[upstream.export]')
    told = stopped(world)
    assert told["outcome"] == "culprit"
    head, broken = world.git("rev-parse", BRANCH), at_remote(world)
    assert broken is not None
    assert world.git("rev-parse", f"{broken}^") == head == world.git("rev-parse", f"origin/{BRANCH}")
    trailers = parse_trailers(world.git("log", "-1", "--format=%B", broken))
    assert (trailers[T_UPSTREAM], trailers[T_VERDICT]) == (world.commits["rename scale"], "bad")
    assert told["report"]["broken"] == BROKEN
    assert f"`{BROKEN}`" in invoke(world, "run", "--push").stdout
    assert at_remote(world) == broken, "the same state is the same commit"
    assert {kind for kind, call in pulls.calls if call["branch"] == BROKEN} == {"ensure_ci"}
    Walk(world.open(), publish=True).next()
    world.fix("rename scale")
    assert run(world, "--until", world.commits["rename scale"])["outcome"] == "head"
    assert at_remote(world) is None


def test_it_moves_to_the_next_culprit(pinned: World) -> None:
    stopped(pinned)
    first = at_remote(pinned)
    Walk(pinned.open(), publish=True).next()
    pinned.fix("rename scale")
    told = run(pinned, "--until", pinned.commits["rename field"])
    assert told["bad"] == pinned.commits["rename field"]
    second = at_remote(pinned)
    assert second not in (None, first)
    assert parse_trailers(pinned.git("log", "-1", "--format=%B", str(second)))[T_UPSTREAM] == told["bad"]


def test_a_landing_removes_it(pinned: World) -> None:
    stopped(pinned)
    assert at_remote(pinned) is not None
    land(Walk(pinned.open()), squash=True, pulls=None)
    assert at_remote(pinned) is None


def fixed_there(world: World, folder: Path) -> str:
    """What a colleague does: fix the project on the broken branch, and push that."""
    miniature.git(world.root, "clone", "-q", "-b", BROKEN, f"{miniature.URL}origin.git", str(folder))
    _, old, new = miniature.FIXES["rename scale"]
    (folder / "app.c").write_text((folder / "app.c").read_text().replace(f"SCALE {old}", f"SCALE {new}"))
    miniature.git(folder, "commit", "-q", "-a", "-m", "Follow upstream")
    miniature.git(folder, "push", "-q")
    return miniature.git(folder, "rev-parse", "HEAD")


def test_what_a_colleague_commits_there_stays_and_can_be_merged(pinned: World, tmp_path: Path) -> None:
    stopped(pinned)
    fix = fixed_there(pinned, tmp_path / "colleague")
    told = run(pinned)
    assert told["outcome"] == "culprit"
    assert "people have committed there" in told["said"]
    assert at_remote(pinned) == fix
    land_elsewhere = Walk(pinned.open())
    land_elsewhere.project.fetch_branch(BROKEN)
    pinned.git("merge", "-q", "--ff-only", f"origin/{BROKEN}")
    assert run(pinned, "--until", pinned.commits["rename scale"])["outcome"] == "head"
    assert at_remote(pinned) is None


def test_work_that_is_nowhere_else_is_not_removed(pinned: World, tmp_path: Path) -> None:
    stopped(pinned)
    fix = fixed_there(pinned, tmp_path / "colleague")
    Walk(pinned.open(), publish=True).next()
    pinned.fix("rename scale")
    told = run(pinned, "--until", pinned.commits["rename scale"])
    assert told["outcome"] == "head"
    assert "was left as it is" in told["said"]
    assert at_remote(pinned) == fix


def test_without_push_or_if_it_is_turned_off_nothing_is_pushed(pinned: World) -> None:
    pinned.reconfigure("[upstream.export]", "[ci]\nbroken = false\n[upstream.export]")
    told = stopped(pinned)
    assert (told["outcome"], told["report"]["broken"], at_remote(pinned)) == ("culprit", "", None)


def test_a_remote_that_refuses_it_is_only_a_warning(pinned: World) -> None:
    hook = pinned.root / "origin.git" / "hooks" / "update"
    hook.write_text('#!/bin/sh\ncase "$1" in *-broken) echo "no such branches"; exit 1;; esac\n')
    hook.chmod(0o755)
    told = stopped(pinned)
    assert (told["outcome"], told["report"]["broken"]) == ("culprit", "")
    assert "no such branches" in told["said"]


def test_its_name_is_no_integrate_branch(pinned: World) -> None:
    stopped(pinned)
    pinned.git("fetch", "-q")
    pinned.git("switch", "-q", BROKEN)
    refused(lambda: Walk(pinned.open()), "integrate-not-started", "is not an integrate branch")
    # A later start of the same day: its name is neither that nor derived from it.
    pinned.git("switch", "-q", "main")
    assert start(pinned.open()) == f"{BRANCH}_1"
