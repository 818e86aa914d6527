"""What is not committed in the checkout, or in the upstream's submodule: refused, or brought up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground import strategy as st
from mlir_release.integrate.deliver.branch import start, sync
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integrate.integration.miniature import World


def walked(world: World, steps: int = 3) -> Path:
    """Advanced without tests. Returns the folder of the submodule."""
    walk = world.begin(publish=True)
    for _ in range(steps):
        walk.next()
    return world.checkout / "third_party/llvm"


COMMANDS: dict[str, Callable[[World], object]] = {
    "start": lambda world: start(world.open()),
    "run": lambda world: Walk(world.open()).run(st.Adaptive()),
    "next": lambda world: Walk(world.open()).next(),
    "sync": lambda world: sync(Walk(world.open())),
    "land": lambda world: land(Walk(world.open()), squash=True, pulls=None),
    "land --at": lambda world: land(Walk(world.open()), squash=True, pulls=None, at="HEAD~1"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_files_changed_inside_the_submodule_are_refused_before_anything_happens(make_world: Any, command: str) -> None:
    world: World = make_world()
    llvm = walked(world)
    before = world.git("for-each-ref")
    for staged in (False, True):
        (llvm / "mlir/api.c").write_text("/* mine */\n")
        if staged:
            miniature.git(llvm, "add", "mlir/api.c")
        error = refused(lambda: COMMANDS[command](world), "checkout-dirty", "third_party/llvm are changed")
        assert "mlir/api.c" in error.where
        assert "patches add" in error.remedy
        assert (llvm / "mlir/api.c").read_text() == "/* mine */\n"
        assert world.git("for-each-ref") == before


def test_untracked_files_inside_the_submodule_are_nobodys_business(make_world: Any) -> None:
    world: World = make_world()
    llvm = walked(world)
    (llvm / "build").mkdir()
    (llvm / "build/notes").write_text("mine\n")
    assert Walk(world.open()).next()
    assert (llvm / "build/notes").read_text() == "mine\n"


def test_an_untracked_file_in_the_way_of_an_advance_is_named_and_kept(make_world: Any) -> None:
    world: World = make_world()
    llvm = walked(world, 1)
    (llvm / "mlir/needed.c").write_text("mine\n")
    error = refused(lambda: Walk(world.open()).next(to=world.commits["needed"]), "checkout-dirty")
    assert "mlir/needed.c" in error.why
    assert (llvm / "mlir/needed.c").read_text() == "mine\n"
    (llvm / "mlir/needed.c").unlink()
    Walk(world.open()).next()
    assert world.git("status", "--porcelain") == ""


@pytest.mark.parametrize("away", ["switch -q main", "reset -q --hard HEAD~2", "checkout -q HEAD~2"])
def test_a_submodule_that_git_left_behind_is_brought_up_to_date(
    make_world: Any, away: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world: World = make_world()
    llvm = walked(world)
    world.git(*away.split())
    assert world.git("status", "--porcelain") == "M third_party/llvm"
    project = world.open()
    project.refuse_dirty()
    assert world.git("status", "--porcelain") == ""
    assert miniature.git(llvm, "rev-parse", "HEAD") == project.pin()
    assert "third_party/llvm" in capsys.readouterr().err


def test_start_after_a_finished_walk_needs_no_cure_by_hand(make_world: Any) -> None:
    world: World = make_world()
    walked(world)
    world.git("switch", "-q", "main")
    assert start(world.open()).endswith("_1")
    assert world.git("status", "--porcelain") == ""


def test_a_commit_that_a_person_checked_out_in_the_submodule_is_not_touched(make_world: Any) -> None:
    world: World = make_world()
    llvm = walked(world)
    miniature.git(llvm, "checkout", "-q", "--detach", world.affecting[-1])
    error = refused(lambda: world.open().refuse_dirty(), "checkout-dirty")
    assert "git submodule update" in error.remedy
    assert miniature.git(llvm, "rev-parse", "HEAD") == world.affecting[-1]


def test_other_submodules_that_git_left_behind_are_brought_up_to_date_too(make_world: Any) -> None:
    world: World = make_world()
    walked(world, 1)
    world.git("submodule", "--quiet", "add", f"{miniature.URL}upstream.git", "third_party/dep")
    dep = world.checkout / "third_party/dep"
    miniature.git(dep, "checkout", "-q", "--detach", world.affecting[0])
    world.git("add", "third_party/dep")
    world.git("commit", "-q", "-m", "Add dep")
    miniature.git(dep, "checkout", "-q", "--detach", world.affecting[1])
    world.git("commit", "-q", "-a", "-m", "Move dep")
    world.git("reset", "-q", "--hard", "HEAD~1")
    world.open().refuse_dirty()
    assert world.git("status", "--porcelain") == ""
    assert miniature.git(dep, "rev-parse", "HEAD") == world.affecting[0]


def test_a_submodule_that_git_can_not_bring_up_to_date_is_told_in_gits_words(make_world: Any) -> None:
    world: World = make_world()
    walked(world, 1)
    world.git("submodule", "--quiet", "add", f"{miniature.URL}upstream.git", "third_party/dep")
    for commit, message in (("d" * 40, "Add dep"), (world.affecting[0], "Move dep")):
        world.git("update-index", "--cacheinfo", f"160000,{commit},third_party/dep")
        world.git("commit", "-q", "-m", message)
    miniature.git(world.checkout / "third_party/dep", "checkout", "-q", "--detach", world.affecting[0])
    world.git("reset", "-q", "--hard", "HEAD~1")
    error = refused(lambda: world.open().refuse_dirty(), "program-failed", "git submodule --quiet update")
    assert "d" * 40 in error.why
