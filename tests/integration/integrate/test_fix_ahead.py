"""``integrate fix --ahead``: a fix that builds on the old LLVM, too, lands on main before the bump."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.errors import ConflictError, NeedsPersonError
from mlir_release.git.trees import is_ancestor
from mlir_release.integrate import strategy as st
from mlir_release.integrate.branch import start, sync
from mlir_release.integrate.fix import open_fix
from mlir_release.integrate.fix_ahead import send_ahead
from mlir_release.integrate.project import Project
from mlir_release.integrate.walk import Walk
from tests.integration.integrate import miniature
from tests.integration.integrate.test_fix import at_once, interrupt
from tests.refusals import check_error, refused

if TYPE_CHECKING:
    from tests.integration.integrate.miniature import World

#: Builds on both: it does without the function that upstream renames.
BOTH = "add(3, 3)"


class Pulls:
    """Pull requests that note what is asked of them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def ensure_draft(self, **given: Any) -> str:
        self.calls.append(("draft", given))
        return "https://mini.invalid/pull/1"

    def mark_ready(self, **given: Any) -> None:
        self.calls.append(("ready", given))

    def ensure_ci(self, **given: Any) -> None:
        self.calls.append(("ci", given))


@pytest.fixture
def carrier() -> str:
    return "submodule"


@pytest.fixture(scope="module")
def walked() -> dict[str, World]:
    """Worlds that were built already, by carrier; tests copy them."""
    return {}


@pytest.fixture
def world(
    walked: dict[str, World],
    carrier: str,
    make_world: Any,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    """One whose walk has stopped at a culprit."""
    if carrier not in walked:
        made: World = make_world(carrier, patched=True)
        start(made.open(), publish=True)
        assert Walk(made.open(), publish=True).run(st.Adaptive()).bad == made.commits["rename scale"]
        walked[carrier] = miniature.copy(made.root, tmp_path_factory.mktemp("walked") / "world")
    copied = miniature.copy(walked[carrier].root, tmp_path / "copy")
    for name, value in copied.environment().items():
        monkeypatch.setenv(name, value)
    return copied


def repaired(worktree: Path, new: str = BOTH, message: str = "Do without scale") -> str:
    """What a person does there; the commit."""
    path = worktree / "app.c"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(f"#define SCALE {new}\n" if "define SCALE" in line else line for line in lines))
    miniature.git(worktree, "commit", "-qam", message, env={**os.environ, **miniature.dated()})
    return miniature.git(worktree, "rev-parse", "HEAD")


def walking(world: World, *, push: bool = False) -> Walk:
    return Walk(world.open(), publish=push)


def cli(world: World, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["integrate", "-C", str(world.checkout), *arguments])


def land_on_main(world: World, name: str, *, squash: bool) -> None:
    """What GitHub does with the pull request."""
    clone = world.root / "landing"
    miniature.git(world.root, "clone", "-q", f"{miniature.URL}origin.git", str(clone))
    miniature.git(clone, "merge", "-q", *(["--squash"] if squash else []), f"origin/{name}")
    if squash:
        miniature.git(clone, "commit", "-q", "-m", "Do without scale (#1)")
    miniature.git(clone, "push", "-q", "origin", "HEAD:main")


@pytest.mark.parametrize(("carrier", "squash"), [("submodule", True), ("pin-file", False)])
def test_a_fix_lands_first_and_the_bump_is_pointer_only(world: World, squash: bool) -> None:
    fixed = repaired(open_fix(walking(world)).worktree)
    pulls: Any = Pulls()
    sent = send_ahead(walking(world, push=True), pulls)
    bad = world.commits["rename scale"]
    assert sent.branch == f"integrates/llvm-20261120-ahead-{bad[:12]}"
    assert world.git("ls-remote", "origin", f"refs/heads/{sent.branch}").split()[0] == sent.commit
    assert world.git("diff", "--name-only", "origin/main", sent.commit) == "app.c"
    assert world.git("log", "--format=%s %an", f"origin/main..{sent.commit}") == "Do without scale Dora Downstream"
    (kind, asked), (ready, _) = pulls.calls
    assert (kind, ready, asked["branch"], asked["base"]) == ("draft", "ready", sent.branch, "main")
    assert asked["title"] == "Do without scale"
    for said in (f"`{bad[:12]}` [mlir] Rename scale", f"`{sent.old[:12]}`, the LLVM of `main`"):
        assert said in asked["body"]
    before = world.git("rev-parse", "HEAD")
    land_on_main(world, sent.branch, squash=squash)
    assert sync(walking(world))
    end = walking(world).run(st.Adaptive())
    assert end.bad == world.commits["rename field"]
    changed = world.git("diff", "--name-only", "origin/main", "HEAD").split()
    assert changed == [world.open().upstream.config.carrier]
    assert world.git("log", "--oneline", "-S", BOTH, "--format=%H", "HEAD", "--", "app.c").count("\n") == 0
    assert is_ancestor(world.open().outer, before, "HEAD")
    assert not is_ancestor(world.open().outer, fixed, "HEAD")
    assert open_fix(walking(world)).bad == world.commits["rename field"]  # what was sent is not in the way


def test_the_verdict_at_the_culprit_is_known_when_the_walk_goes_on(world: World) -> None:
    repaired(open_fix(walking(world)).worktree)
    sent = send_ahead(walking(world, push=True))
    land_on_main(world, sent.branch, squash=True)
    walk = walking(world)
    sync(walk)
    seen = walk.observer.look(fetch=False)
    good = {seen.upstream_at(position) for position, record in walk.observer.verdicts(seen).items()}
    assert sent.bad in good


def test_a_fix_that_needs_the_new_llvm_makes_no_branch_and_goes_into_the_bump(world: World) -> None:
    repaired(open_fix(walking(world)).worktree, "scale_by(3, 2)")
    done = cli(world, "fix", "--ahead")
    error = check_error(done.exception, "smoke-failed", "can't land before the bump")
    assert "scale_by" in error.why
    assert "mlir-release integrate fix --continue takes the fix into the bump" in error.remedy
    log = error.remedy.partition("the whole log is ")[2].partition(";")[0]
    assert "scale_by" in Path(log).read_text()
    assert "ahead" not in world.git("for-each-ref", "--format=%(refname)", "refs/heads")
    assert cli(world, "fix", "--continue").exception.details["bad"] == world.commits["rename field"]


def test_a_fix_that_fails_at_the_culprit_makes_no_branch(world: World) -> None:
    repaired(open_fix(walking(world)).worktree, "scale(3) /* as before */")
    refused(lambda: send_ahead(walking(world)), "smoke-failed", "the smoke test of")
    assert "ahead" not in world.git("for-each-ref", "--format=%(refname)", "refs/heads")


def test_without_push_it_makes_the_branch_here_and_names_the_next_command(world: World) -> None:
    repaired(open_fix(walking(world)).worktree)
    done = cli(world, "fix", "--ahead", "--json")
    said = json.loads(done.stdout)
    assert (said["pushed"], said["pull_request"]) == (False, "")
    assert world.git("rev-parse", said["branch"]) == said["commit"]
    assert world.git("ls-remote", "origin", f"refs/heads/{said['branch']}") == ""
    assert "next: mlir-release integrate fix --ahead --push" in cli(world, "fix", "--ahead").stdout
    done = cli(world, "fix", "--ahead", "--push")
    assert "open a pull request of it to main" in done.stdout
    assert world.git("ls-remote", "origin", f"refs/heads/{said['branch']}").split()[0] == said["commit"]


def test_its_branch_is_not_taken_for_an_integrate(world: World) -> None:
    repaired(open_fix(walking(world)).worktree)
    sent = send_ahead(walking(world))
    world.git("switch", "-q", sent.branch)
    check_error(cli(world, "fix").exception, "integrate-not-started", "is not an integrate branch")


def test_it_is_repeated_and_killed_without_another_test(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = repaired(open_fix(walking(world)).worktree)
    with monkeypatch.context() as patch:
        patch.setattr("mlir_release.integrate.fix_ahead._make_branch", interrupt)
        with pytest.raises(KeyboardInterrupt):
            send_ahead(walking(world))
    monkeypatch.setattr("mlir_release.integrate.walk.smoke_test", interrupt)
    first = send_ahead(walking(world))
    assert send_ahead(walking(world)) == first
    again = send_ahead(walking(world, push=True))
    assert (again.commit, again.pushed) == (first.commit, True)
    assert send_ahead(walking(world, push=True)) == again
    assert world.git("rev-parse", f"refs/mlir-release/sent-ahead/{fixed}") == fixed


def test_two_at_once_test_once_and_make_one_branch(world: World) -> None:
    repaired(open_fix(walking(world)).worktree)
    done = at_once(world, "--ahead", "--push", "--json")
    assert [code for code, *_ in done] == [0, 0], done
    first, second = (json.loads(output) for _, output, _ in done)
    assert first == second
    assert sum(errors.count("testing ") for *_, errors in done) == 2  # at the culprit and on the old LLVM


def test_another_fix_replaces_the_first_and_what_others_pushed_stays(world: World) -> None:
    worktree = open_fix(walking(world)).worktree
    repaired(worktree)
    first = send_ahead(walking(world, push=True))
    repaired(worktree, "add(2, 4)", "Add other numbers")
    second = send_ahead(walking(world, push=True))
    assert second.commit != first.commit
    assert world.git("ls-remote", "origin", f"refs/heads/{second.branch}").split()[0] == second.commit
    clone = world.root / "review"
    miniature.git(world.root, "clone", "-q", "-b", second.branch, f"{miniature.URL}origin.git", str(clone))
    miniature.git(clone, "commit", "-q", "--allow-empty", "-m", "Reviewed")
    miniature.git(clone, "push", "-q")
    repaired(worktree, "add(1, 5)", "And others")
    refused(lambda: send_ahead(walking(world, push=True)), "branch-diverged", kind=ConflictError)
    assert miniature.git(clone, "ls-remote", "origin", second.branch).split()[0] == miniature.git(
        clone, "rev-parse", "HEAD"
    )
    world.git("branch", "-f", second.branch, "main")
    refused(lambda: send_ahead(walking(world)), "branch-diverged", kind=ConflictError)


def test_a_fix_that_main_has_or_that_clashes_with_main_is_told_so(world: World) -> None:
    worktree = open_fix(walking(world)).worktree
    refused(lambda: send_ahead(walking(world)), "nothing-to-do", "holds no fix")
    repaired(worktree)
    clone = world.root / "other"
    miniature.git(world.root, "clone", "-q", f"{miniature.URL}origin.git", str(clone))
    repaired(clone, "add(4, 2)", "Do otherwise")
    miniature.git(clone, "push", "-q")
    error = refused(lambda: send_ahead(walking(world)), "patch-conflict", "does not apply on main", NeedsPersonError)
    assert error.where == "app.c"
    repaired(clone, BOTH, "Do the same")
    miniature.git(clone, "push", "-q")
    refused(lambda: send_ahead(walking(world)), "nothing-to-do", "main has all of this fix already")


def test_an_amended_advance_is_no_advance_on_main(world: World) -> None:
    worktree = open_fix(walking(world)).worktree
    repaired(worktree)
    miniature.git(worktree, "reset", "-q", "--soft", "HEAD~")
    miniature.git(worktree, "commit", "-q", "--amend", "--no-edit")
    sent = send_ahead(walking(world))
    message = world.git("log", "-1", "--format=%B", sent.commit)
    assert message == f"Adapt to LLVM {sent.bad[:12]}"
    pins = [world.open().pin(commit) for commit in ("main", sent.commit)]
    assert pins[0] == pins[1]


def test_what_a_person_left_uncommitted_is_not_sent(world: World) -> None:
    worktree = open_fix(walking(world)).worktree
    repaired(worktree)
    (worktree / "app.c").write_text("/* mine */\n")
    error = refused(lambda: send_ahead(walking(world)), "nothing-to-do")
    assert error.why == "not committed: app.c"


def test_a_checkout_with_changes_of_its_own_is_left_as_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The branch is made from objects: nothing is checked out."""
    repaired(open_fix(walking(world)).worktree)
    (world.checkout / "app.c").write_text("/* half */\n")
    monkeypatch.setattr(Project, "move_branch", interrupt)
    send_ahead(walking(world))
    assert (world.checkout / "app.c").read_text() == "/* half */\n"


def test_main_can_be_out_of_reach(world: World) -> None:
    repaired(open_fix(walking(world)).worktree)
    (world.root / "origin.git").rename(world.root / "gone.git")
    done = cli(world, "fix", "--ahead")
    assert done.exit_code == 0, done.output
    subprocess.run(["git", "-C", str(world.checkout), "log", "-1", "main"], check=True, capture_output=True)
    check_error(cli(world, "fix", "--ahead", "--push").exception)
