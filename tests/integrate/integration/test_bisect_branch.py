"""Bisects of a branch: its first bad commit is followed into what it brought, or it is said why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.integrate.deliver import branch
from mlir_release.integrate.deliver.branch import sync
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.state import LANDED, PROBES, REMOTE_LANDED
from mlir_release.integrate.walk.bisect import bisect_branch
from tests.integrate.integration.bisecting import runs, scale
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integrate.integration.miniature import World


def lose_the_walk(world: World) -> None:
    """Forget the advances that were landed, here and at the remote."""
    (name,) = world.git("for-each-ref", "--format=%(refname)", LANDED).split()
    for ref in world.git("for-each-ref", "--format=%(refname)", LANDED, REMOTE_LANDED).split():
        world.git("update-ref", "-d", ref)
    world.git("push", "-q", "origin", f":{name}")


# -- from the branch into the upstream ---------------------------------------------------------------------------------


def test_an_advance_of_many_commits_is_followed_into_the_upstream(world: World) -> None:
    world.reconfigure("timeout-minutes = 2\n", "timeout-minutes = 2\nattempts = 1\n")
    walk = world.begin()
    walk.next(to=world.affecting[0])
    walk.next(to=world.commits["needed"])
    world.fix("rename scale")
    found = bisect_branch(world.open(), "main", "HEAD", scale(world))
    assert found.subject == f"Advance LLVM to {world.commits['needed'][:12]}"
    assert found.inside is not None
    assert found.inside.first_bad == world.commits["rename scale"]
    assert found.inside.inside is None
    asked = runs(world)
    assert found.inside.known >= 2, "both ends were tested on the branch"
    assert len(asked) == found.steps + found.inside.steps - found.known - found.inside.known
    assert bisect_branch(world.open(), "main", "HEAD", scale(world), upstream=False).inside is None
    assert len(runs(world)) == len(asked)


def test_a_commit_of_the_downstream_itself_is_the_end(unpatched: World) -> None:
    walk = unpatched.begin()
    walk.next(to=unpatched.affecting[0])
    (unpatched.checkout / "number.txt").write_text("4\n")
    unpatched.git("add", "number.txt")
    unpatched.git("commit", "-q", "-m", "Spoil it")
    walk.next(to=unpatched.affecting[1])
    found = bisect_branch(unpatched.open(), "main", "HEAD", ("test", "!", "-e", "number.txt"))
    assert (found.subject, found.inside) == ("Spoil it", None)
    assert found.end == "it changes this repository, and not LLVM"


def test_a_change_of_the_carried_patches_is_the_end(plain: World) -> None:
    walk = plain.begin()
    branch.carry(walk, plain.commits["needed"], revert=False, why="ours", link="", drop_when="")
    command = ("sh", "-c", '! test -e "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir/needed.c"')
    found = bisect_branch(plain.open(), "main", "HEAD", command)
    assert found.end == "it changes the patches that are carried on LLVM"


def test_a_merge_of_main_is_followed_to_the_commit_that_main_brought(unpatched: World, tmp_path: Path) -> None:
    walk = unpatched.begin(publish=True)
    walk.next(to=unpatched.affecting[0])
    unpatched.push_to_main(tmp_path / "one", "harmless", "\n")
    culprit = unpatched.push_to_main(tmp_path / "two", "number.txt", "4\n")
    unpatched.push_to_main(tmp_path / "three", "harmless", "again\n")
    sync(walk)
    walk.next(to=unpatched.affecting[1])
    found = bisect_branch(unpatched.open(), "HEAD~3", "HEAD", ("test", "!", "-e", "number.txt"))
    assert found.subject.startswith("Merge main into")
    assert found.inside is not None
    assert (found.inside.first_bad, found.inside.subject) == (culprit, "Write number.txt")


def test_a_merge_of_two_sides_that_pass_alone_is_the_end(unpatched: World, tmp_path: Path) -> None:
    walk = unpatched.begin(publish=True)
    walk.next(to=unpatched.commits["rename scale"])
    side = unpatched.push_to_main(tmp_path / "side", "number.txt", "4\n")
    sync(walk)
    command = scale(unpatched, prefix="test -e number.txt || exit 0; ")
    found = bisect_branch(unpatched.open(), "HEAD~1", "HEAD", command)
    assert found.subject.startswith("Merge main into")
    assert found.inside is None
    assert found.end == f"it merges {side[:12]}, which tests good: the two sides do not fit together"


# -- what was landed ---------------------------------------------------------------------------------------------------


@pytest.fixture
def landed(unpatched: World) -> World:
    """On main, the walk past "rename scale" is one commit; a further one follows."""
    walk = unpatched.begin()
    walk.next(to=unpatched.affecting[0])
    walk.next(to=unpatched.commits["healing"])
    unpatched.fix("rename scale")
    walk.next(to=unpatched.affecting[unpatched.affecting.index(unpatched.commits["healing"]) + 1])
    commit = land(walk, squash=True, pulls=None)
    unpatched.git("switch", "-q", "main")
    unpatched.git("merge", "-q", "--ff-only", commit)
    (unpatched.checkout / "later.txt").write_text("later\n")
    unpatched.git("add", "later.txt")
    unpatched.git("commit", "-q", "-m", "Go on")
    unpatched.git("push", "-q")
    unpatched.git("branch", "-q", "-D", walk.branch)
    return unpatched


def test_a_squashed_landing_is_followed_into_the_walk_that_it_was(landed: World) -> None:
    found = bisect_branch(landed.open(), "HEAD~2", "HEAD", scale(landed))
    assert found.subject.startswith("Integrate LLVM at")
    walked = found.inside
    assert walked is not None
    assert walked.subject == f"Advance LLVM to {landed.commits['healing'][:12]}"
    assert walked.inside is not None
    assert walked.inside.first_bad == landed.commits["rename scale"]
    text = found.as_text()
    assert text.index("Integrate LLVM at") < text.index("Advance LLVM to") < text.index("[mlir] Rename scale")
    assert "[mlir] Rename scale" in found.as_markdown()


def test_the_walk_is_fetched_if_it_was_pushed(landed: World) -> None:
    name = landed.git("for-each-ref", "--format=%(refname)", LANDED)
    landed.git("push", "-q", "origin", f"{name}:{name}")
    landed.git("update-ref", "-d", name)
    found = bisect_branch(landed.open(), "HEAD~2", "HEAD", scale(landed))
    assert found.inside is not None
    assert found.inside.subject == f"Advance LLVM to {landed.commits['healing'][:12]}"


def test_revisions_may_be_named_that_only_the_remotes_landed_walks_have(landed: World, tmp_path: Path) -> None:
    name = landed.git("for-each-ref", "--format=%(refname)", LANDED)
    landed.git("push", "-q", "origin", f"{name}:{name}")
    tip = landed.git("rev-parse", name)
    for bad in (tip, name.removeprefix(LANDED)):
        project = landed.elsewhere(tmp_path / bad.replace("/", "-"))
        found = bisect_branch(project, "origin/main~2", bad, scale(landed))
        assert found.subject == f"Advance LLVM to {landed.commits['healing'][:12]}"
    refused(lambda: bisect_branch(landed.open(), "no-such", "HEAD", ("true",)), "revision-unknown", "names no commit")


def test_what_others_pushed_beside_walks_that_landed_is_passed_over(landed: World) -> None:
    blob = landed.git("hash-object", "-w", "app.c")
    alone = landed.git("commit-tree", "-m", "Alone", "HEAD^{tree}")
    landed.git("push", "-q", "origin", f"{blob}:{LANDED}blob", f"{alone}:{LANDED}alone", f"{blob}:{PROBES}blob")
    lose_the_walk(landed)
    found = bisect_branch(landed.open(), "HEAD~2", "HEAD", scale(landed), share=True)
    assert found.inside is not None
    assert (found.inside.of, found.inside.first_bad) == ("LLVM", landed.commits["rename scale"])


#: Fails where the downstream's sources do not fit.
BUILDS = 'cd "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir" && cc -w -I. "$OLDPWD/app.c" api.c -o /dev/null'


def test_where_a_landings_sources_do_not_build_on_older_commits_the_search_begins_near_its_end(landed: World) -> None:
    """They build from "rename scale" on; what is looked for came later."""
    lose_the_walk(landed)
    command = ("sh", "-c", f'if [ -e later.txt ] || grep -q scale_by app.c; then {BUILDS} && grep -q "a + b" api.c; fi')
    found = bisect_branch(landed.open(), "HEAD~2", "HEAD", command)
    assert found.inside is not None
    assert found.inside.first_bad == landed.commits["healing"]


def test_a_landing_whose_sources_do_not_build_on_the_older_upstream_is_said_to_be_more(landed: World) -> None:
    """app.c was changed with the walk: on the old upstream it does not compile any more."""
    lose_the_walk(landed)
    command = ("sh", "-c", f"{scale(landed)[2]} && {BUILDS}")
    found = bisect_branch(landed.open(), "HEAD~2", "HEAD", command)
    assert found.inside is None
    assert "it changes more than LLVM" in found.end
