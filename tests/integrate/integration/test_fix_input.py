"""What a person may do to the work tree of a fix, and where ``fix`` makes no sense: one message each, nothing lost."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from mlir_release.ground import strategy as st
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.fix.fix import Fix, close_fix, open_fix
from mlir_release.integrate.patches.patches import PatchConflict
from mlir_release.integrate.project import Integration
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import invoke
from tests.refusals import check_error, refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.ground.errors import ReleaseError
    from tests.integrate.integration.miniature import World


@pytest.fixture
def world(make_world: Any) -> World:
    """One whose walk has stopped at a culprit."""
    made: World = make_world(patched=True)
    start(made.open())
    assert Walk(made.open()).run(st.Adaptive()).bad == made.commits["rename scale"]
    return made


@pytest.fixture
def fix(world: World) -> Fix:
    """Its work tree, in which something was built."""
    made = open_fix(Walk(world.open()))
    (made.worktree / "build").mkdir()
    (made.worktree / "build/object").write_text("kept\n")
    return made


def error_of(folder: Path, *arguments: str, id: str = "", said: str = "") -> ReleaseError:
    return check_error(invoke(folder, *arguments).exception, id, said)


# -- the work tree -----------------------------------------------------------------------------------------------------


def elsewhere(world: World) -> None:
    """Let the branch go on, so that the work tree belongs to another commit."""
    world.git("commit", "-q", "--allow-empty", "-m", "Go elsewhere")


def in_the_way(world: World) -> ReleaseError:
    return refused(lambda: open_fix(Walk(world.open())), "checkout-dirty")


def test_a_work_tree_that_was_deleted_is_made_again(world: World, fix: Fix) -> None:
    shutil.rmtree(fix.worktree)
    again = open_fix(Walk(world.open()))
    assert (again.worktree, again.kept) == (fix.worktree, False)
    assert miniature.git(fix.worktree, "status", "--porcelain") == ""
    assert "scale_by" in (fix.worktree / "third_party/llvm/mlir/api.h").read_text()


def test_a_linked_work_tree_of_an_older_version_is_taken_as_a_person_left_it(world: World, fix: Fix) -> None:
    """It has its own git folder afterwards; what is committed, what is not and what was built stay."""
    head = miniature.git(fix.worktree, "rev-parse", "HEAD")
    shutil.rmtree(fix.worktree)
    world.git("worktree", "add", "-q", "--detach", str(fix.worktree), head)
    llvm = world.checkout / "third_party/llvm"
    sources = fix.worktree / "third_party/llvm"
    miniature.git(
        llvm, "worktree", "add", "-q", "--detach", str(sources), world.git("rev-parse", f"{head}:./third_party/llvm")
    )
    (fix.worktree / "build").mkdir()
    (fix.worktree / "build/object").write_text("kept\n")
    miniature.git(fix.worktree, "commit", "-q", "--allow-empty", "-m", "Half of it")
    mine = miniature.git(fix.worktree, "rev-parse", "HEAD")
    (fix.worktree / "app.c").write_text("/* mine */\n")
    written = (sources / "mlir/api.h").stat().st_mtime_ns
    again = open_fix(Walk(world.open()))
    assert again.kept
    assert miniature.git(fix.worktree, "rev-parse", "HEAD") == mine
    assert miniature.git(fix.worktree, "status", "--porcelain") == "M app.c"
    assert (fix.worktree / "build/object").read_text() == "kept\n"
    assert (sources / "mlir/api.h").stat().st_mtime_ns == written
    for tree in (fix.worktree, sources):
        assert miniature.git(tree, "rev-parse", "--path-format=absolute", "--git-common-dir") == str(tree / ".git")
    assert str(fix.worktree) not in world.git("worktree", "list")


def test_what_a_person_committed_on_a_branch_of_the_work_tree_is_kept_in_the_checkout(world: World, fix: Fix) -> None:
    miniature.git(fix.worktree, "switch", "-q", "-c", "aside")
    miniature.git(fix.worktree, "commit", "-q", "--allow-empty", "-m", "Aside")
    aside = miniature.git(fix.worktree, "rev-parse", "HEAD")
    miniature.git(fix.worktree, "switch", "-q", "--detach", "HEAD~")
    elsewhere(world)
    assert not open_fix(Walk(world.open())).kept
    assert world.git("log", "-1", "--format=%s", f"refs/mlir-release/fix/{aside}") == "Aside"


def test_a_folder_that_git_does_not_know_is_not_touched(world: World, fix: Fix) -> None:
    shutil.rmtree(fix.worktree / ".git")
    assert "does not know" in in_the_way(world).why
    assert (fix.worktree / "build/object").read_text() == "kept\n"
    error_of(world.checkout, "fix", "--continue", id="nothing-to-do")


@pytest.mark.parametrize("discard", [False, True])
def test_what_is_not_committed_is_in_the_way_until_it_is_on_a_branch_or_discarded(
    world: World, fix: Fix, discard: bool
) -> None:
    (fix.worktree / "app.c").write_text("/* mine */\n")
    elsewhere(world)
    error = in_the_way(world)
    assert "app.c" in error.why
    assert f"rm -rf {fix.worktree}" in error.remedy
    if discard:
        shutil.rmtree(fix.worktree)
    else:
        miniature.git(fix.worktree, "commit", "-qam", "Mine")
        error = in_the_way(world)
        mine = miniature.git(fix.worktree, "rev-parse", "HEAD")
        assert error.remedy.startswith(f"git branch NAME {mine[:12]}")
        world.git("branch", "mine", mine)
    assert not open_fix(Walk(world.open())).kept
    assert miniature.git(fix.worktree, "log", "-1", "--format=%s", "HEAD~") == "Go elsewhere"
    if not discard:
        assert world.git("show", "mine:app.c") == "/* mine */"
        assert (fix.worktree / "build/object").read_text() == "kept\n"


def test_a_checkout_whose_submodule_did_not_follow_a_fix_of_several_commits_follows(world: World, fix: Fix) -> None:
    _, old, new = miniature.FIXES["rename scale"]
    app = fix.worktree / "app.c"
    app.write_text(app.read_text().replace(f"#define SCALE {old}\n", f"#define SCALE {new}\n"))
    miniature.git(fix.worktree, "commit", "-qam", "Follow upstream")
    miniature.git(fix.worktree, "commit", "-q", "--allow-empty", "-m", "And more")
    opened = world.open()
    with pytest.raises(KeyboardInterrupt):
        close_fix(Walk(Killed(opened.config, opened.outer, opened.upstream, opened.clock)))
    assert world.git("status", "--porcelain") == "M third_party/llvm"
    close_fix(Walk(world.open()))
    assert world.git("status", "--porcelain") == ""
    assert world.git("rev-parse", "HEAD") == miniature.git(fix.worktree, "rev-parse", "HEAD")


class Killed(Integration):
    def follow(self, *_: object) -> NoReturn:
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["new.c", "third_party/llvm/mlir/api.h"])
def test_a_new_file_and_a_change_in_the_upstreams_sources_are_neither_lost_nor_tested_with_the_commit(
    world: World, fix: Fix, name: str
) -> None:
    miniature.git(fix.worktree, "commit", "-q", "--allow-empty", "-m", "Half of it")
    (fix.worktree / name).write_text("/* mine */\n")
    error = error_of(world.checkout, "fix", "--continue")
    assert (error.id, error.why) == ("nothing-to-do", f"not committed: {name}")
    elsewhere(world)
    assert in_the_way(world).why == f"not committed: {name}"
    assert (fix.worktree / name).read_text() == "/* mine */\n"


# -- where there is nothing to fix -------------------------------------------------------------------------------------


def test_a_conflict_is_named_with_what_can_be_done_about_it(world: World) -> None:
    walk = Walk(world.open())
    position = world.affecting.index(world.commits["conflict"])
    walk.next(to=world.affecting[position - 1])
    with pytest.raises(PatchConflict) as caught:
        open_fix(walk)
    assert caught.value.patch.subject == "Keep notes"
    for arguments in (["fix"], ["fix", "--continue"]):
        error = error_of(world.checkout, *arguments)
        assert (error.id, error.where) == ("patch-conflict", "mlir/notes.txt")


@pytest.mark.parametrize("command", [("fix",), ("fix", "--continue"), ("page",)])
def test_another_branch_or_none_is_refused(world: World, command: tuple[str, ...]) -> None:
    world.git("switch", "-q", "main")
    error = error_of(world.checkout, *command)
    assert (error.id, error.what[:17]) == ("integrate-not-started", "the branch 'main'")
    world.git("switch", "-q", "--detach")
    error_of(
        world.checkout,
        *command,
        id="integrate-not-started",
        said="HEAD is detached: no branch would keep what is committed here",
    )


@pytest.mark.parametrize("command", [("fix",), ("fix", "--continue"), ("page",), ("stats",)])
def test_outside_of_a_project_there_is_one_message(tmp_path: Path, command: tuple[str, ...]) -> None:
    error_of(tmp_path, *command, id="input-missing", said="this is not inside a git work tree")
    error_of(tmp_path / "missing", *command, id="input-missing", said="this is not inside a git work tree")
    miniature.git(tmp_path, "init", "-q")
    error_of(tmp_path, *command, id="input-missing", said="in this repository")


def test_a_shallow_clone_can_not_tell_where_the_walk_began(world: World, tmp_path: Path) -> None:
    branch = world.git("branch", "--show-current")
    world.git("push", "-q", "origin", branch)
    shallow = tmp_path / "shallow"
    miniature.git(tmp_path, "clone", "-q", "--depth=1", "-b", branch, f"file://{world.root}/origin.git", str(shallow))
    error = error_of(shallow, "page", id="clone-incomplete")
    assert "git fetch --unshallow" in error.remedy
