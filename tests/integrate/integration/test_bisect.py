"""Bisects of the upstream: what is recorded is not tested again, with which sources and patches, and bad input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mlir_release.ground import strategy as st
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files, commit_tree, merge_commits
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.state import BISECTS
from mlir_release.integrate.walk.bisect import bisect_upstream
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.bisecting import runs, scale
from tests.integrate.integration.in_process import invoke
from tests.integrate.integration.miniature import WHO
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integrate.integration.miniature import World


# -- recorded ----------------------------------------------------------------------------------------------------------


def test_a_second_bisect_of_the_same_question_tests_nothing(world: World) -> None:
    world.reconfigure("timeout-minutes = 2\n", "timeout-minutes = 2\nattempts = 1\n")
    first, newest = world.affecting[0], world.commits["needed"]
    found = bisect_upstream(world.open(), first, newest, scale(world))
    assert found.first_bad == world.commits["rename scale"]
    assert (found.known, found.steps) == (0, len(runs(world)))
    again = bisect_upstream(world.open(), first, newest, scale(world))
    assert (again.first_bad, again.known) == (found.first_bad, again.steps)
    assert len(runs(world)) == found.steps
    assert again.as_text().endswith(f"{again.steps} steps, {again.steps} known")


def test_a_failure_that_says_something_else_is_untestable(unpatched: World) -> None:
    ends, (culprit, *_) = (unpatched.affecting[0], "HEAD"), [unpatched.commits["rename scale"]]
    crash = ("sh", "-c", './smoke.sh && exit; echo "no device"; [ -e build/api.o ] && echo "it crashed"; exit 1')
    found = bisect_upstream(unpatched.open(), *ends, crash, bad_if="^it crash")
    project = unpatched.open()
    assert (found.first_bad, project.upstream.commit("HEAD").sha) == (culprit, project.upstream.head())
    refused(lambda: bisect_upstream(project, *ends, crash, bad_if="other"), "revision-unsuitable", "untestable")
    refused(lambda: bisect_upstream(project, *ends, crash, bad_if="("), "option-invalid")


def test_an_interrupted_bisect_goes_on_where_it_was(unpatched: World) -> None:
    """The command does not answer twice: killed there, it is asked that question again and no other."""
    first, newest = unpatched.affecting[0], unpatched.affecting[-1]
    third = f'if [ "$(wc -l < {unpatched.root}/runs)" -eq 3 ] || [ "$(wc -l < {unpatched.root}/runs)" -eq 5 ]; '
    command = scale(unpatched, prefix=f"{third}then kill -9 $$; fi; ")
    for _ in range(2):
        refused(lambda: bisect_upstream(unpatched.open(), first, newest, command), "interrupted")
    found = bisect_upstream(unpatched.open(), first, newest, command)
    assert found.first_bad == unpatched.commits["rename scale"]
    assert found.known == 3
    asked = runs(unpatched)
    assert len(asked) == len(set(asked)) + 2


def test_another_machine_goes_on_with_what_was_pushed(unpatched: World, tmp_path: Path) -> None:
    first, newest = unpatched.affecting[0], unpatched.affecting[-1]
    found = bisect_upstream(unpatched.open(), first, newest, scale(unpatched), share=True)
    assert miniature.git(unpatched.root / "origin.git", "rev-parse", BISECTS) == unpatched.git("rev-parse", BISECTS)
    again = bisect_upstream(unpatched.elsewhere(tmp_path / "other"), first, newest, scale(unpatched), share=True)
    assert (again.first_bad, again.known) == (found.first_bad, again.steps)
    assert len(runs(unpatched)) == found.steps


def test_verdicts_of_a_walk_count_and_narrow_the_search(unpatched: World, tmp_path: Path) -> None:
    start(unpatched.open(), publish=True)
    end = Walk(unpatched.open(), publish=True).run(st.Linear())
    assert end.bad == unpatched.commits["rename scale"]
    unpatched.git("switch", "-q", "main")
    for project in (unpatched.open(), unpatched.elsewhere(tmp_path / "other")):
        base = project.upstream.base_of(project.pin(), project.upstream.head())
        found = bisect_upstream(project, base, end.bad, ("./smoke.sh",), share=True)
        assert found.first_bad == end.bad
        assert found.steps - found.known <= 1  # the base was taken for good, and the commit before the break tested


def test_two_bisects_with_other_ends_share_verdicts(unpatched: World) -> None:
    bisect_upstream(unpatched.open(), unpatched.affecting[0], unpatched.affecting[-1], scale(unpatched))
    before = len(runs(unpatched))
    found = bisect_upstream(unpatched.open(), unpatched.affecting[0], unpatched.commits["healing"], scale(unpatched))
    assert found.first_bad == unpatched.commits["rename scale"]
    assert len(runs(unpatched)) <= before + 1  # the new end


def test_again_tests_what_is_recorded_and_replaces_it(unpatched: World, tmp_path: Path) -> None:
    """A flaky command recorded a verdict that is wrong."""
    flaky = tmp_path / "flaky"
    flaky.touch()
    command = scale(unpatched, prefix=f"[ -e {flaky} ] && exit 0; ")
    first, newest = unpatched.affecting[0], unpatched.affecting[-1]
    for _ in range(2):
        error = refused(lambda: bisect_upstream(unpatched.open(), first, newest, command), "revision-unsuitable")
        assert "--again" in error.remedy
    assert len(runs(unpatched)) == 1
    flaky.unlink()
    found = bisect_upstream(unpatched.open(), first, newest, command, again=True)
    assert (found.first_bad, found.known) == (unpatched.commits["rename scale"], 0)
    assert bisect_upstream(unpatched.open(), first, newest, command).known == found.steps


def test_a_mistyped_command_is_named_and_not_that_of_the_configuration(unpatched: World) -> None:
    first, newest = unpatched.affecting[0], unpatched.affecting[-1]
    for command in (("grpe", "-q", "x"), ("sh", "-c", "grpe -q x")):
        error = refused(lambda: bisect_upstream(unpatched.open(), first, newest, command), "tool-missing")  # noqa: B023
        assert "integrate.toml" not in f"{error.what}{error.remedy}"
        assert "the command on the command line" in error.what
        assert error.where == " ".join(command)


def test_a_remote_that_is_not_there_is_an_error_only_where_verdicts_are_shared(unpatched: World) -> None:
    (unpatched.root / "origin.git").rename(unpatched.root / "gone")
    first, newest = unpatched.affecting[0], unpatched.affecting[1]
    refused(lambda: bisect_upstream(unpatched.open(), first, newest, scale(unpatched), share=True), "network-failed")
    assert runs(unpatched) == []
    refused(lambda: bisect_upstream(unpatched.open(), first, first, scale(unpatched)), "revision-unsuitable")
    assert bisect_upstream(unpatched.open(), first, newest, scale(unpatched)).first_bad == newest


# -- inside an older advance, and patches that do not fit --------------------------------------------------------------


def test_at_tests_the_sources_of_an_older_advance(unpatched: World) -> None:
    walk = unpatched.begin()
    good, bad = unpatched.affecting[0], unpatched.commits["rename scale"]
    walk.next(to=bad)
    unpatched.fix("rename scale")
    refused(
        lambda: bisect_upstream(unpatched.open(), good, bad, ("./smoke.sh",)), "revision-unsuitable", "--bad tests good"
    )
    found = bisect_upstream(unpatched.open(), good, bad, ("./smoke.sh",), at="HEAD~1")
    assert found.first_bad == bad
    refused(lambda: bisect_upstream(unpatched.open(), good, bad, ("true",), at="nowhere"), "revision-unknown")


def test_a_patch_that_fits_only_new_commits_can_be_left_out(plain: World) -> None:
    plain.reconfigure("timeout-minutes = 2\n", "timeout-minutes = 2\nattempts = 1\n")
    walk = plain.begin()
    late = plain.commits["drop last"]
    walk.next(to=late)
    llvm, work = plain.checkout / "third_party/llvm", plain.root / "resolving"
    miniature.git(llvm, "worktree", "add", "-q", "--detach", str(work), late)
    header = (work / "mlir/api.h").read_text().replace("int newest(void);", "int newest(void); /* ours */")
    (work / "mlir/api.h").write_text(header)
    miniature.git(work, "commit", "-q", "-a", "-m", "Comment on newest")
    patch = miniature.git(work, "rev-parse", "HEAD")
    walk.next(to=late, resolved=patch)
    good, bad = plain.affecting[0], plain.commits["rename field"]
    error = refused(lambda: bisect_upstream(plain.open(), good, bad, scale(plain)), "revision-unsuitable")
    assert "Comment on newest" in error.why
    assert "does not apply" in error.why
    assert "--without" in error.why
    arguments = ["bisect", "upstream", "--good", good, "--bad", bad, "--without", patch[:9], "--json", "--"]
    done = invoke(plain, *arguments, *scale(plain))
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["first_bad"] == plain.commits["rename scale"]
    (left_out,) = said["left_out"].items()
    assert left_out[0] == f"{patch[:12]} (Comment on newest): --without"
    assert len(left_out[1]) == said["steps"]
    refused(
        lambda: bisect_upstream(plain.open(), good, bad, scale(plain), without=["123456"]), "option-invalid", "names 0"
    )


def test_patches_that_the_ledger_leaves_out_are_told_with_their_steps(world: World) -> None:
    world.reconfigure("timeout-minutes = 2\n", "timeout-minutes = 2\nattempts = 1\n")
    good, bad = world.affecting[0], world.commits["bug reverted"]
    found = bisect_upstream(world.open(), good, bad, scale(world))
    reasons = {patch.partition(": ")[2].split(":")[0].split(",")[0]: at for patch, at in found.left_out.items()}
    assert set(reasons) == {"upstream has it", "upstream reverts it too"}
    assert reasons["upstream reverts it too"] == (bad,)


# -- merges ------------------------------------------------------------------------------------------------------------


def branched(git: Git, parent: str, name: str, *, bad: int = -1) -> list[str]:
    """Five commits on ``parent`` that touch files of their own; the one of number ``bad`` breaks the downstream."""
    line = []
    for number in range(5):
        files = {f"mlir/{name}{number}": b"x\n", **({"mlir/bad": b"x\n"} if number == bad else {})}
        line.append(parent := commit_files(git, parent, files, f"{name} {number}\n", WHO))
    return line


def merged(git: Git, ours: str, theirs: str) -> str:
    return commit_tree(git, merge_commits(git, ours, theirs).tree, [ours, theirs], "Merge\n", WHO)


def test_the_walk_and_a_bisect_go_into_merges(unpatched: World) -> None:
    git = Git(unpatched.root / "upstream.git")
    base = git.text("rev-parse", f"{unpatched.affecting[0]}^")
    inner = branched(git, base, "inner", bad=2)
    outer = branched(git, base, "outer")
    outer[3:] = branched(git, merged(git, outer[2], inner[4]), "late")
    whole = merged(git, unpatched.affecting[0], outer[-1])
    git.run("update-ref", "refs/heads/main", whole)
    smoke = '#!/bin/sh\ntest ! -e "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir/bad"\n'
    (unpatched.checkout / "smoke.sh").write_text(smoke)
    unpatched.publish("Test that")
    start(unpatched.open())
    joined = git.text("rev-parse", f"{outer[3]}^")
    end = Walk(unpatched.open()).run(st.Adaptive())
    assert (end.outcome, end.good, end.bad) == ("culprit", unpatched.affecting[0], whole)
    assert [each.sha for each in end.suspects] == [whole, joined, inner[2]]
    found = bisect_upstream(unpatched.open(), base, "HEAD", ("./smoke.sh",))
    assert found.first_bad == whole
    assert found.inside is not None
    assert found.inside.inside is not None
    assert (found.inside.first_bad, found.inside.inside.first_bad) == (joined, inner[2])
