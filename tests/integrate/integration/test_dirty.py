"""What is not committed in the checkout, or in the upstream's submodule: refused, or brought up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
def test_files_changed_inside_the_submodule_are_refused_before_anything_happens(plain: World, command: str) -> None:
    llvm = walked(plain)
    before = plain.git("for-each-ref")
    for staged in (False, True):
        (llvm / "mlir/api.c").write_text("/* mine */\n")
        if staged:
            miniature.git(llvm, "add", "mlir/api.c")
        error = refused(lambda: COMMANDS[command](plain), "checkout-dirty", "third_party/llvm are changed")
        assert "mlir/api.c" in error.where
        assert "patches add" in error.remedy
        assert (llvm / "mlir/api.c").read_text() == "/* mine */\n"
        assert plain.git("for-each-ref") == before


def test_untracked_files_inside_the_submodule_are_nobodys_business(plain: World) -> None:
    llvm = walked(plain)
    (llvm / "build").mkdir()
    (llvm / "build/notes").write_text("mine\n")
    assert Walk(plain.open()).next()
    assert (llvm / "build/notes").read_text() == "mine\n"


def test_an_untracked_file_in_the_way_of_an_advance_is_named_and_kept(plain: World) -> None:
    llvm = walked(plain, 1)
    (llvm / "mlir/needed.c").write_text("mine\n")
    error = refused(lambda: Walk(plain.open()).next(to=plain.commits["needed"]), "checkout-dirty")
    assert "mlir/needed.c" in error.why
    assert (llvm / "mlir/needed.c").read_text() == "mine\n"
    (llvm / "mlir/needed.c").unlink()
    Walk(plain.open()).next()
    assert plain.git("status", "--porcelain") == ""


@pytest.mark.parametrize("away", ["switch -q main", "reset -q --hard HEAD~2", "checkout -q HEAD~2"])
def test_a_submodule_that_git_left_behind_is_brought_up_to_date(
    plain: World, away: str, capsys: pytest.CaptureFixture[str]
) -> None:
    llvm = walked(plain)
    plain.git(*away.split())
    assert plain.git("status", "--porcelain") == "M third_party/llvm"
    project = plain.open()
    project.refuse_dirty()
    assert plain.git("status", "--porcelain") == ""
    assert miniature.git(llvm, "rev-parse", "HEAD") == project.pin()
    assert "third_party/llvm" in capsys.readouterr().err


def test_a_commit_that_a_person_checked_out_in_the_submodule_is_not_touched(plain: World) -> None:
    llvm = walked(plain)
    miniature.git(llvm, "checkout", "-q", "--detach", plain.affecting[-1])
    error = refused(lambda: plain.open().refuse_dirty(), "checkout-dirty")
    assert "git submodule update" in error.remedy
    assert miniature.git(llvm, "rev-parse", "HEAD") == plain.affecting[-1]


def test_other_submodules_that_git_left_behind_are_brought_up_to_date_too(plain: World) -> None:
    walked(plain, 1)
    plain.git("submodule", "--quiet", "add", f"{miniature.URL}upstream.git", "third_party/dep")
    dep = plain.checkout / "third_party/dep"
    miniature.git(dep, "checkout", "-q", "--detach", plain.affecting[0])
    plain.git("add", "third_party/dep")
    plain.git("commit", "-q", "-m", "Add dep")
    miniature.git(dep, "checkout", "-q", "--detach", plain.affecting[1])
    plain.git("commit", "-q", "-a", "-m", "Move dep")
    plain.git("reset", "-q", "--hard", "HEAD~1")
    plain.open().refuse_dirty()
    assert plain.git("status", "--porcelain") == ""
    assert miniature.git(dep, "rev-parse", "HEAD") == plain.affecting[0]


def test_a_submodule_that_git_can_not_bring_up_to_date_is_told_in_gits_words(plain: World) -> None:
    walked(plain, 1)
    plain.git("submodule", "--quiet", "add", f"{miniature.URL}upstream.git", "third_party/dep")
    for commit, message in (("d" * 40, "Add dep"), (plain.affecting[0], "Move dep")):
        plain.git("update-index", "--cacheinfo", f"160000,{commit},third_party/dep")
        plain.git("commit", "-q", "-m", message)
    miniature.git(plain.checkout / "third_party/dep", "checkout", "-q", "--detach", plain.affecting[0])
    plain.git("reset", "-q", "--hard", "HEAD~1")
    error = refused(lambda: plain.open().refuse_dirty(), "program-failed", "git submodule --quiet update")
    assert "d" * 40 in error.why
