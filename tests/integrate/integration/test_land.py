"""Landing: at an earlier advance, against what others push, repeated, twice at once; what it tells and keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import is_ancestor, tree_of
from mlir_release.integrate.deliver import branch
from mlir_release.integrate.deliver.branch import sync
from mlir_release.integrate.deliver.deliver import pull_request_text
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.open import open_project
from mlir_release.integrate.project import Integration
from mlir_release.integrate.state import LANDED, T_CULPRITS
from mlir_release.integrate.status import collect_stats
from mlir_release.integrate.upstream import UpstreamRepository
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import integrate
from tests.integrate.integration.miniature import BRANCH, NOON, URL, World
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

LANDED_HERE = LANDED + BRANCH


def walked(world: World, steps: int = 4) -> list[str]:
    """Start, and advance without tests; all pushed. Returns the branch's commits, the start first."""
    walk = world.begin(publish=True)
    for _ in range(steps):
        walk.next()
    return world.git("rev-list", "--reverse", "origin/main..HEAD").split()


def origin(world: World) -> Git:
    return Git(world.root / "origin.git")


def pin_here(world: World) -> str:
    project = world.open()
    inside = world.checkout / "third_party/llvm"
    assert not inside.exists() or miniature.git(inside, "rev-parse", "HEAD") == project.pin()
    return project.pin()


def check_landed(world: World, advance: str, head: str, commit: str) -> None:
    """The branch, here and at the remote, is one commit with the advance's tree; what was there is in reach."""
    assert world.git("rev-parse", "HEAD") == origin(world).resolve(f"refs/heads/{BRANCH}") == commit
    assert world.git("rev-list", "--count", "origin/main..HEAD") == "1"
    assert world.git("rev-parse", "HEAD^{tree}") == world.git("rev-parse", f"{advance}^{{tree}}")
    assert world.git("status", "--porcelain") == ""
    assert world.git("symbolic-ref", "--short", "HEAD") == BRANCH
    assert pin_here(world) == world.open().pin(advance)
    for git in (Git(world.checkout), origin(world)):
        assert is_ancestor(git, head, LANDED_HERE)


@pytest.mark.parametrize("patched", [False, True])
@pytest.mark.parametrize("carrier", ["submodule", "pin-file"])
def test_backing_off_by_some_advances_and_landing(make_world: Any, carrier: str, patched: bool) -> None:
    world: World = make_world(carrier, patched=patched)
    commits = walked(world)
    world.git("reset", "-q", "--hard", "HEAD~2")
    before = world.git("for-each-ref", "refs/heads", "refs/mlir-release")
    told = integrate(world, "land")
    assert (told["code"], told["error"]) == (4, "branch-diverged")
    assert "2 commits" in told["where"]
    assert "land --at HEAD" in told["remedy"]
    assert world.git("for-each-ref", "refs/heads", "refs/mlir-release") == before
    assert origin(world).resolve(f"refs/heads/{BRANCH}") == commits[-1]
    told = integrate(world, "land", "--at", "HEAD")
    assert told["code"] == 0
    check_landed(world, commits[-3], commits[-1], told["commit"])
    again = integrate(world, "land")
    assert (again["code"], again["commit"]) == (0, told["commit"])
    assert not sync(Walk(world.open()))


@pytest.mark.parametrize("carrier", ["submodule", "pin-file"])
def test_landing_at_an_advance_needs_no_reset(make_world: Any, carrier: str) -> None:
    world: World = make_world(carrier)
    commits = walked(world)
    walk = Walk(world.open())
    commit = land(walk, squash=True, pulls=None, at="HEAD~3")
    check_landed(world, commits[-4], commits[-1], commit)
    # Later, it is backed off to another advance, which is in reach only as one of those that were landed.
    commit = land(walk, squash=True, pulls=None, at=commits[-2][:12])
    check_landed(world, commits[-2], commits[-1], commit)
    assert land(walk, squash=True, pulls=None, at=commits[-2]) == commit
    assert world.git("rev-parse", LANDED_HERE) == commits[-1]


def test_nothing_lands_whose_llvm_others_can_not_fetch(make_world: Any) -> None:
    """The carried patches were exported, and somebody has removed them there."""
    world: World = make_world("pin-file", patched=True)
    commits = walked(world, 1)
    miniature.git(world.root / "fork.git", "update-ref", "-d", "refs/heads/downstream-llvm")
    error = refused(lambda: land(Walk(world.open()), squash=True, pulls=None), "land-unreachable")
    assert error.where in {world.open().pin(commit) for commit in commits}
    assert world.git("rev-parse", "HEAD") == origin(world).resolve(f"refs/heads/{BRANCH}")


def test_the_advances_up_to_there_are_kept_apart_if_asked(plain: World) -> None:
    commits = walked(plain)
    assert land(Walk(plain.open()), squash=False, pulls=None, at="HEAD~1") == commits[-2]
    assert plain.git("rev-parse", "HEAD") == origin(plain).resolve(f"refs/heads/{BRANCH}") == commits[-2]
    assert origin(plain).resolve(LANDED_HERE) == commits[-1]
    assert pin_here(plain) == plain.open().pin(commits[-2])


@pytest.mark.parametrize(
    ("at", "identifier", "said"),
    [
        ("HEAD~40", "revision-unknown", "names no commit"),
        ("--force", "revision-unknown", "names no commit"),
        ("", "revision-unknown", "names no commit"),
        ("main", "revision-unsuitable", "is not a commit of"),
        ("elsewhere", "revision-unsuitable", "is not a commit of"),
        ("beside", "revision-unsuitable", "is not a commit of"),
        ("refs/mlir-release/probes/x", "revision-unsuitable", "is not a commit of"),
    ],
)
def test_an_advance_that_is_not_on_the_branch_is_refused(plain: World, at: str, identifier: str, said: str) -> None:
    walked(plain, 1)
    plain.git("branch", "elsewhere", plain.git("commit-tree", "-m", "x", "-p", "main", "main^{tree}"))
    plain.git("branch", "beside", plain.git("commit-tree", "-m", "x", "-p", "HEAD", "HEAD^{tree}"))
    plain.git("update-ref", "refs/mlir-release/probes/x", plain.git("commit-tree", "-m", "x", "HEAD^{tree}"))
    before = plain.git("for-each-ref")
    told = integrate(plain, "land", f"--at={at}")
    assert (told["code"], told["error"]) == (2, identifier), told
    assert said in told["what"]
    assert told["remedy"]
    assert plain.git("for-each-ref") == before


# -- others ------------------------------------------------------------------------------------------------------------


def colleague(world: World, folder: Path) -> Path:
    """Another clone of the downstream, at the integrate branch."""
    miniature.git(world.root, "clone", "-q", "-b", BRANCH, f"{URL}origin.git", str(folder))
    return folder


def test_commits_that_others_have_pushed_are_not_left_out_unseen(plain: World, tmp_path: Path) -> None:
    walked(plain)
    other = colleague(plain, tmp_path / "other")
    miniature.git(other, "commit", "-q", "--allow-empty", "-m", "Theirs")
    miniature.git(other, "push", "-q")
    theirs = miniature.git(other, "rev-parse", "HEAD")
    head = plain.git("rev-parse", "HEAD")
    for at in ("HEAD~1", None):
        refused(lambda at=at: land(Walk(plain.open()), squash=True, pulls=None, at=at), "branch-diverged")  # type: ignore[misc]
        assert (plain.git("rev-parse", "HEAD"), origin(plain).resolve(f"refs/heads/{BRANCH}")) == (head, theirs)
    commit = land(Walk(plain.open()), squash=True, pulls=None, at="HEAD~1")  # they have been seen now
    check_landed(plain, f"{head}~1", theirs, commit)


def test_a_refused_push_leaves_the_branch_as_it_was(plain: World) -> None:
    commits = walked(plain)
    hook = plain.root / "origin.git" / "hooks" / "update"
    hook.write_text('#!/bin/sh\ncase "$1" in refs/heads/*) echo "not today"; exit 1;; esac\n')
    hook.chmod(0o755)
    for at in (None, "HEAD~2"):
        error = refused(lambda at=at: land(Walk(plain.open()), squash=True, pulls=None, at=at), "push-failed")  # type: ignore[misc]
        assert "not today" in error.why
        assert plain.git("rev-parse", "HEAD") == origin(plain).resolve(f"refs/heads/{BRANCH}") == commits[-1]
        assert plain.git("status", "--porcelain") == ""
    hook.unlink()
    check_landed(plain, commits[-3], commits[-1], land(Walk(plain.open()), squash=True, pulls=None, at="HEAD~2"))


def test_a_remote_that_refuses_the_old_commits_is_only_a_warning(plain: World) -> None:
    commits = walked(plain)
    hook = plain.root / "origin.git" / "hooks" / "update"
    hook.write_text('#!/bin/sh\ncase "$1" in refs/mlir-release/landed/*) echo "no such refs"; exit 1;; esac\n')
    hook.chmod(0o755)
    told = integrate(plain, "land")
    assert told["code"] == 0
    assert "no such refs" in told["said"]
    assert origin(plain).resolve(LANDED_HERE) is None
    assert plain.git("rev-parse", LANDED_HERE) == commits[-1]
    hook.unlink()
    assert integrate(plain, "land")["commit"] == told["commit"]  # the next time, it takes them
    assert origin(plain).resolve(LANDED_HERE) == commits[-1]


def test_two_landings_at_once_are_one(plain: World) -> None:
    commits = walked(plain)
    line = [sys.executable, "-m", "mlir_release", "integrate", "-C", str(plain.checkout), "land", "--json"]
    line += ["--at", commits[-3]]
    running = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    (commit,) = {json.loads(out)["commit"] for out, _ in said}
    check_landed(plain, commits[-3], commits[-1], commit)


def test_a_landing_on_another_machine_is_taken_over(world: World, tmp_path: Path) -> None:
    commits = walked(world)
    other = colleague(world, tmp_path / "other")
    elsewhere = Walk(open_project(other, clock=lambda: NOON))
    miniature.git(other, "config", "user.name", "Somebody Else")
    commit = land(elsewhere, squash=True, pulls=None)
    assert land(Walk(world.open()), squash=True, pulls=None) == commit
    check_landed(world, commits[-1], commits[-1], commit)
    # And what was landed there can be backed off from here, whose clone has never seen the advances.
    third = colleague(world, tmp_path / "third")
    backed_off = land(Walk(open_project(third)), squash=True, pulls=None, at=commits[-2])
    assert tree_of(origin(world), backed_off) == tree_of(Git(world.checkout), commits[-2])


def test_what_a_killed_landing_pushed_is_replaced_though_its_text_is_another(plain: World) -> None:
    commits = walked(plain)
    older = plain.git("commit-tree", "-m", "Integrate, as told before", "-p", "main", "HEAD^{tree}")
    plain.git("push", "-q", "--force", f"{URL}origin.git", f"{older}:refs/heads/{BRANCH}")  # where nobody has seen it
    commit = land(Walk(plain.open()), squash=True, pulls=None)
    check_landed(plain, commits[-1], commits[-1], commit)
    assert commit != older


def test_what_was_landed_twice_is_all_in_reach(plain: World) -> None:
    first = walked(plain)
    land(Walk(plain.open()), squash=True, pulls=None)
    walk = Walk(plain.open())
    walk.next()
    (plain.checkout / "README").write_text("after review\n")
    plain.git("add", "README")
    plain.git("commit", "-q", "-m", "Address a comment")
    second = plain.git("rev-parse", "HEAD")
    commit = land(walk, squash=True, pulls=None)
    check_landed(plain, second, first[-1], commit)
    for git in (Git(plain.checkout), origin(plain)):
        assert is_ancestor(git, second, LANDED_HERE)
    assert "Address a comment" in plain.git("log", "-1", "--format=%B")
    count = len(plain.open().upstream.affecting(plain.open().started_from(BRANCH), walk.observer.look().base))
    assert f"{count} affecting commits" in plain.git("log", "-1", "--format=%B")


def test_a_landing_of_an_advance_that_tested_bad_warns(plain: World) -> None:
    walk = plain.begin(publish=True)
    walk.next()
    seen = walk.observer.look()
    bad = seen.ahead[0]
    walk.advance(seen, bad, walk.observer.stack_at(seen, bad.sha), "bad", {})
    plain.fix("rename scale")
    told = integrate(plain, "land", "--at", "HEAD~1")
    assert told["code"] == 0
    assert "tested bad" in told["said"]


# -- a rebased branch --------------------------------------------------------------------------------------------------


def rebased(world: World) -> tuple[str, str]:
    """A person's fix, pushed, whose message is amended then. Returns the commits at the remote and here."""
    walked(world)
    world.fix("rename scale")
    world.git("push", "-q", "origin", BRANCH)
    theirs = world.git("rev-parse", "HEAD")
    world.git("commit", "-q", "--amend", "-m", "Follow upstream, really")
    return theirs, world.git("rev-parse", "HEAD")


@pytest.mark.parametrize("command", [("sync",), ("next", "--push"), ("land",)])
def test_after_a_rebase_the_message_says_how_it_replaces_what_was_pushed(
    plain: World, command: tuple[str, ...]
) -> None:
    theirs, ours = rebased(plain)
    told = integrate(plain, *command)
    assert (told["code"], told["error"]) == (4, "branch-diverged")
    assert "rebased" in told["why"]
    assert f"git push --force-with-lease={BRANCH}:{theirs} origin {BRANCH}" in told["remedy"]
    assert origin(plain).resolve(f"refs/heads/{BRANCH}") == theirs
    plain.git("push", "-q", f"--force-with-lease={BRANCH}:{theirs}", "origin", BRANCH)
    assert integrate(plain, "sync")["code"] == 0
    assert is_ancestor(origin(plain), ours, BRANCH)


def test_a_rebased_branch_can_be_landed_at_once(plain: World) -> None:
    theirs, ours = rebased(plain)
    told = integrate(plain, "land", "--at", "HEAD")
    assert told["code"] == 0
    check_landed(plain, ours, theirs, told["commit"])
    assert is_ancestor(origin(plain), ours, LANDED_HERE)


# -- what is told ------------------------------------------------------------------------------------------------------


def with_two_breaks(world: World) -> Walk:
    """Over two culprits without tests, each fixed; the second by a carried revert. Main is merged between."""
    walk = world.begin(publish=True)
    to_a_break(walk, world.commits["rename scale"])
    world.fix("rename scale")
    world.git("commit", "-q", "--allow-empty", "-m", "Tidy <b>up</b> after #7 by @team")
    other = world.git("commit-tree", "-m", "x", "-p", "main", "main^{tree}")
    world.git("push", "-q", "origin", f"{other}:refs/heads/main")
    sync(walk)
    walk.next()
    to_a_break(walk, world.commits["healing"])
    branch.carry(walk, world.commits["healing"], revert=True, why="it is wrong", link="", drop_when="")
    return walk


def to_a_break(walk: Walk, culprit: str) -> None:
    seen = walk.observer.look(until=culprit)
    if len(seen.ahead) > 1:
        walk.next(to=seen.ahead[-2].sha)
        seen = walk.observer.look(until=culprit)
    walk.advance(seen, seen.ahead[0], walk.observer.stack_at(seen, culprit), "bad", {})


def section(body: str, title: str) -> list[str]:
    return body.partition(f"### {title}\n\n")[2].partition("\n\n")[0].splitlines()


@pytest.mark.parametrize(
    "upstream", ["", "https://github.com/llvm/llvm-project.git", "git@github.com:llvm/llvm-project"]
)
def test_culprits_are_told_with_their_subjects_and_what_fixed_them(plain: World, upstream: str) -> None:
    walk = with_two_breaks(plain)
    project = walk.project
    if upstream:
        there = structs.replace(project.upstream.config, url=upstream)
        config = structs.replace(project.config, upstream=(there,))
        project = Integration(config, project.outer, UpstreamRepository(project.upstream.directory, there))
    title, body = pull_request_text(project, walk.branch)
    at = "llvm/llvm-project@" if upstream else ""
    first, second = plain.commits["rename scale"], plain.commits["healing"]
    assert section(body, "Upstream commits that broke this project") == [
        f'- {at}{first} \\[mlir] Rename scale — fixed by "Follow upstream: rename scale", '
        '"Tidy &lt;b>up&lt;/b> after #\u200b7 by @\u200bteam"'.replace("\\[", "["),
        f'- {at}{second} [mlir] Tune add — fixed by "Carry \'Revert "[mlir] Tune add"\'"',
    ]
    changes = section(body, "Changes to this repository")
    assert [line[2:17] for line in changes] == ["Follow upstream", "Tidy &lt;b>up&l"]  # the squash removes their ids
    begun = project.started_from(walk.branch)
    assert f"from {at}{begun} to {at}{second}" in body
    compared = f"affecting commits. https://github.com/llvm/llvm-project/compare/{begun}...{second}\n"
    assert (compared in body) == bool(upstream)
    assert title == f"Integrate LLVM at {second[:12]}"


def test_a_squashed_commit_names_its_culprits_for_the_statistics(plain: World) -> None:
    walk = with_two_breaks(plain)
    before = collect_stats(plain.open())
    land(walk, squash=True, pulls=None)
    culprits = [plain.commits["rename scale"], plain.commits["healing"]]
    trailers = parse_trailers(plain.git("log", "-1", "--format=%B"))
    assert trailers[T_CULPRITS].split() == culprits
    after = collect_stats(plain.open())
    assert (list(after.culprits), after.folders, after.months) == (culprits, before.folders, before.months)


def test_what_an_earlier_landing_told_is_told_again(plain: World) -> None:
    walk = with_two_breaks(plain)
    land(walk, squash=True, pulls=None)
    _, told = pull_request_text(walk.project, walk.branch)
    plain.git("commit", "-q", "--allow-empty", "-m", "Address a comment")
    land(walk, squash=True, pulls=None)
    _, body = pull_request_text(walk.project, walk.branch)
    for title in ("Upstream commits that broke this project", "Changes to this repository"):
        assert set(section(body, title)) >= set(section(told, title)) != set()
    assert section(body, "Changes to this repository")[-1].endswith("Address a comment")
    trailers = parse_trailers(plain.git("log", "-1", "--format=%B"))
    assert len(trailers[T_CULPRITS].split()) == 2
    assert "2 breaks" in body


def test_the_title_follows_the_template(pinned: World) -> None:
    pinned.reconfigure(
        "[upstream.export]",
        '[land]\ntitle = "Bump {name} {from}→{short} ({count} commits) [{commit}]"\n[upstream.export]',
    )
    walk = pinned.begin()
    begun = walk.observer.look().base
    walk.next()
    base = pinned.affecting[0]
    title = f"Bump LLVM {begun[:12]}→{base[:12]} (1 commits) [{base}]"
    assert pull_request_text(walk.project, walk.branch)[0] == title
    land(walk, squash=True, pulls=None)
    assert miniature.git(pinned.root / "origin.git", "log", "-1", "--format=%s", walk.branch) == title
