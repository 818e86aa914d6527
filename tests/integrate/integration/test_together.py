"""A walk over two upstreams: what moves together, who waits for whom, and what commands say of such a branch."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import to_builtins

from mlir_release.ground import strategy as st
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files, commit_tree, tree_of, tree_with
from mlir_release.integrate.deliver.branch import start, sync
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.state import past_of
from mlir_release.integrate.walk.rounds import gather, plan_round, probe
from mlir_release.integrate.walk.together import JointWalk, named
from mlir_release.integrate.walk.walk import Allowed, Walk
from tests.integrate.integration.in_process import invoke as run
from tests.integrate.integration.miniature import git
from tests.integrate.integration.pair import ORDERS, Stack
from tests.refusals import refused

if TYPE_CHECKING:
    from mlir_release.integrate.report import WalkEnd


@pytest.fixture
def world(stack: Any) -> Stack:
    """llvm, and dialect that pins it."""
    made: Stack = stack()
    return made


def joint(world: Stack, *, publish: bool = False) -> JointWalk:
    return JointWalk([Walk(project, publish=publish) for project in world.open().everyone])


def ends(end: WalkEnd) -> dict[str, str]:
    return {each.upstream: each.outcome for each in end.everywhere()}


def stopped(world: Stack, *arguments: str) -> ReleaseError:
    """How a command ends that does not do what it was asked to."""
    error = run(world, *arguments).exception
    assert isinstance(error, ReleaseError)
    return error


def subjects(world: Stack) -> list[str]:
    return world.git("log", "--first-parent", "--reverse", "--format=%s", "main..").splitlines()


@pytest.mark.parametrize(
    ("order", "pinned", "carrier"), [(ORDERS[0], "file", "submodule"), (ORDERS[1], "submodule", "pin-file")]
)
def test_upstreams_that_pin_each_other_move_together(
    stack: Any, order: tuple[str, ...], pinned: str, carrier: str
) -> None:
    world = stack(order=order, pinned=pinned, carrier=carrier)
    named = {name: sha[:12] for name, sha in world.commits.items()}
    start(*world.open().everyone, publish=True)
    assert world.git("branch", "--show-current") == f"integrates/{'+'.join(order)}-20261120"
    end = joint(world, publish=True).run(st.Adaptive())
    assert ends(end) == {"llvm": "culprit", "dialect": "culprit"}
    bad = {each.upstream: each.bad for each in end.everywhere()}
    assert bad == {"llvm": world.commits["break 2"], "dialect": world.commits["feature"]}
    assert all(each.tried for each in end.everywhere())
    first = [subject for subject in subjects(world) if " with " in subject]
    assert len(first) == 1
    assert f"dialect to {named['integrate 1']}" in first[0]

    ran = world.tests
    assert joint(world).run(st.Adaptive()).smoke_tests == 0
    assert world.tests == ran

    world.follow("fancy")
    assert ends(joint(world, publish=True).run(st.Adaptive())) == {"llvm": "head", "dialect": "head"}
    moved = [subject for subject in subjects(world) if " with " in subject]
    assert len(moved) == 3
    assert f"dialect to {named['integrate 2']}" in moved[1]
    assert f"dialect to {named['integrate 3']}" in moved[2]
    assert {each.slug: each.pin() for each in world.open().everyone} == world.heads

    land(Walk(world.open()), squash=True, pulls=None)
    message = world.git("log", "-1", "--format=%B")
    trailers = parse_trailers(message)
    for name in order:
        assert trailers[f"Integrate-Upstream-{name}"] == world.heads[name]
        assert f"Advances {name} from" in message
    assert message.startswith(f"Integrate {order[0]} at {world.heads[order[0]][:12]} and {order[1]} at")


def test_rounds_of_probes_lead_to_the_same_branch(world: Stack, tmp_path: Path) -> None:
    start(*world.open().everyone, publish=True)
    strategy = st.Adaptive()
    until = f"llvm@{world.commits['break 1']}+dialect@{world.commits['integrate 1']}"
    combined = set()
    for number in range(40):
        data = plan_round(joint(world), strategy, until=until)
        if not data["probes"]:
            break
        folder = tmp_path / f"records{number}"
        folder.mkdir()
        for place, wanted in enumerate(data["probes"]):
            elsewhere = joint(world)
            ref, before = elsewhere.store.ref, world.git("for-each-ref", "--format=%(objectname)", elsewhere.store.ref)
            probe(elsewhere, wanted, folder / f"{place}.json")
            world.git("update-ref", *(["-d", ref] if not before else [ref, before]))  # it was another machine
            combined |= {wanted} if "+" in wanted else set()
        assert gather(joint(world), folder) == len(data["probes"])
        joint(world).run(strategy, allowed=Allowed(probes=False), until=until)
    assert combined
    by_rounds = tree_of(world.open().outer, "HEAD")

    world.git("reset", "-q", "--hard", "main")
    world.git("submodule", "--quiet", "update")
    world.git("update-ref", "-d", joint(world).store.ref)
    assert ends(joint(world).run(strategy, until=until)) == {"llvm": "head", "dialect": "head"}
    assert tree_of(world.open().outer, "HEAD") == by_rounds


def test_a_record_of_a_combination_that_nobody_asked_for_is_refused(world: Stack, tmp_path: Path) -> None:
    start(*world.open().everyone)
    walks = joint(world)
    moves = {walks.walks[0]: world.commits["break 1"], walks.walks[1]: world.commits["integrate 1"]}
    record = walks.walks[0].probe(walks.walks[0].observer.look(), world.commits["break 1"])
    folder = tmp_path / "records"
    folder.mkdir()
    walks.project.outer.run("update-ref", "-d", walks.store.ref)  # so that no commit is known to be bad
    forged = {**to_builtins(record), "outer": to_builtins(walks.step(moves).question)["outer"], "verdict": "good"}
    (folder / "forged.json").write_text(json.dumps(forged))
    refused(lambda: gather(walks, folder), "input-invalid")
    (folder / "forged.json").write_text(json.dumps({**to_builtins(record), "of": "nobody"}))
    refused(lambda: gather(walks, folder), "input-invalid")


def test_one_upstream_alone_has_a_branch_of_its_own(world: Stack) -> None:
    assert run(world, "--upstream", "dialect", "start").exit_code == 0
    branch = world.git("branch", "--show-current")
    assert branch.startswith("integrates/dialect-")
    before = world.named("llvm").pin()
    assert stopped(world, "run").details["bad"] == world.commits["integrate 1"]
    assert world.named("llvm").pin() == before
    contradiction = stopped(world, "--upstream", "llvm", "next")
    assert f"the branch '{branch}' is an integrate of dialect, not of llvm" in str(contradiction)
    shown = run(world, "--upstream", "llvm", "status", "--json")  # to look is no contradiction
    assert json.loads(shown.stdout)["upstream"] == "llvm"


def test_commands_on_a_branch_of_several(world: Stack) -> None:
    assert run(world, "start").exit_code == 0
    assert "follows no upstream 'mars'" in str(stopped(world, "--upstream", "mars", "status"))
    for command in (["next"], ["range", "HEAD~1", "HEAD"], ["patches", "add", "HEAD", "--why", "x"]):
        assert "which one is meant?" in str(stopped(world, *command))
    assert [each["upstream"] for each in json.loads(run(world, "status", "--json").stdout)] == ["llvm", "dialect"]
    assert "llvm@" in json.loads(run(world, "plan", "--json").stdout)["probes"][0]
    assert run(world, "--upstream", "dialect", "next").exit_code == 0
    assert subjects(world)[-1].startswith("Advance dialect to ")
    details: Any = stopped(world, "run", "--until", f"dialect@{world.commits['integrate 1']}").details
    assert [details["upstream"], details["others"][0]["upstream"]] == ["llvm", "dialect"]
    assert details["others"][0]["outcome"] == "head"
    page = run(world, "page")
    assert "commits of llvm" in page.output
    assert "commits of dialect" in page.output
    assert "Tried llvm at " in run(world, "report").output + run(world, "run").output
    fixed = run(world, "fix")
    assert fixed.exit_code == 0
    assert f"{world.commits['break 2'][:12]} fails" in fixed.output
    assert "does not say which upstream" in str(stopped(world, "run", "--until", world.heads["llvm"]))


def test_carried_patches_belong_to_their_upstream(world: Stack) -> None:
    run(world, "start")
    for upstream, name in (("llvm", "break 1"), ("dialect", "feature")):
        added = run(world, "--upstream", upstream, "patches", "add", world.commits[name], "--why", "early")
        assert added.exit_code == 0, added.output
    listed = run(world, "patches", "list").output.splitlines()
    assert ["llvm: " in listed[0], "dialect: " in listed[1]] == [True, True]
    fork = world.root / "fork.git"
    exported = git(fork, "for-each-ref", "--format=%(refname:short)").splitlines()
    assert exported == ["carried-dialect", "carried-llvm"]
    patch = listed[1].split()[1]
    assert "why: early" in run(world, "patches", "explain", patch).output
    assert run(world, "patches", "drop", patch).exit_code == 0
    assert [each.pin() == world.heads[each.slug] for each in world.open().everyone] == [False, False]
    assert len(run(world, "patches", "list").output.splitlines()) == 1
    assert run(world, "--upstream", "llvm", "next", "--advance-to", world.commits["break 1"]).exit_code == 0
    assert run(world, "patches", "list").output.strip().endswith("Change the interface [cherry-pick, dropped]")


def test_a_branch_with_two_pins_is_synchronised(world: Stack) -> None:
    start(*world.open().everyone, publish=True)
    walks = joint(world, publish=True)
    walks.run(st.Adaptive(), until=f"llvm@{world.commits['break 1']}+dialect@{world.commits['integrate 1']}")
    tip = world.git("rev-parse", "HEAD")
    world.git("reset", "-q", "--hard", "HEAD~1")
    world.git("submodule", "--quiet", "update")
    assert sync(walks.walks[0])
    assert world.git("rev-parse", "HEAD") == tip
    assert world.git("status", "--porcelain") == ""


def test_what_was_recorded_before_there_were_several_is_the_first_ones(world: Stack) -> None:
    first, second = world.open().everyone
    base = first.pin()
    message = f"Advance\n\nIntegrate-Upstream: {base}\nIntegrate-Commits: 3\n"
    world.git("commit", "-q", "--allow-empty", "-m", message)
    assert past_of(first.outer, "HEAD", first.names).upstream == base
    assert past_of(second.outer, "HEAD", second.names).upstream == ""


def test_names_in_front_of_commits(world: Stack) -> None:
    first, second = everyone = world.open().everyone
    assert named(everyone, "llvm@main+dialect@abc") == {first: "main", second: "abc"}
    assert named([second], "dialect@abc") == named([second], "abc") == {second: "abc"}
    for text in ("abc", "mars@abc", "llvm@abc+def"):
        refused(partial(named, everyone, text), "option-invalid")


def extend(world: Stack, upstream: str, base: str, files: dict[str, str]) -> str:
    """Let an upstream's main branch end in a commit on ``base``."""
    repository = Git(world.root / f"{upstream}.git")
    content = {path: text.encode() for path, text in files.items()}
    made = commit_files(repository, base, content, "Extend\n", world.open().signature())
    git(repository.directory, "update-ref", "refs/heads/main", made)
    return made


def test_a_pin_that_nobody_has_is_named_and_not_tried(world: Stack) -> None:
    lost = "abcdef0123" * 4
    bad = extend(
        *(world, "dialect", f"{world.commits['integrate 1']}~1"),
        {"lib/needs.txt": "2\n", "build_tools/llvm_version.txt": f"{lost}\n"},
    )
    git(world.root / "llvm.git", "update-ref", "refs/heads/main", f"{world.commits['break 1']}~1")
    start(*world.open().everyone)
    end = joint(world).run(st.Adaptive())
    assert ends(end) == {"llvm": "head", "dialect": "culprit"}
    assert (end.upstream, end.bad, end.tried) == ("dialect", bad, ())
    assert end.blocked == (f"llvm at {lost[:12]}, which is pinned there, can't be fetched",)
    error = stopped(world, "run")
    assert "can't be fetched" in str(error.details)


def test_a_pin_beyond_where_the_walk_goes_is_named(world: Stack) -> None:
    start(*world.open().everyone)
    end = joint(world).run(st.Adaptive(), until=f"llvm@{world.commits['break 1']}~1")
    blocked = {each.upstream: each.blocked for each in end.everywhere()}
    assert "is after" in blocked["dialect"][0]


def test_upstreams_that_pin_each_other_in_a_circle_come_to_an_end(world: Stack) -> None:
    base = world.named("dialect").pin()
    broken = extend(
        *(world, "llvm", f"{world.commits['break 1']}~1"), {"mlir/api.txt": "2\n", "dialect_version.txt": f"{base}\n"}
    )
    follows = extend(
        *(world, "dialect", f"{world.commits['integrate 1']}~1"),
        {"lib/needs.txt": "2\n", "build_tools/llvm_version.txt": f"{broken}\n"},
    )
    worse = extend(world, "llvm", broken, {"mlir/api.txt": "9\n", "dialect_version.txt": f"{follows}\n"})
    start(*world.open().everyone)
    end = joint(world).run(st.Adaptive())
    assert ends(end) == {"llvm": "culprit", "dialect": "head"}
    assert (end.bad, end.good) == (worse, broken)
    assert world.named("dialect").pin() == follows
    assert world.tests < 12


def test_upstreams_without_a_visible_pin_are_tried_together_at_their_heads(world: Stack) -> None:
    extend(world, "dialect", world.named("dialect").pin(), {"lib/needs.txt": "2\n"})
    repository = Git(world.root / "dialect.git")
    tree = tree_with(repository, "main", {"build_tools/llvm_version.txt": None})
    made = commit_tree(repository, tree, [repository.text("rev-parse", "main")], "Hide\n", world.open().signature())
    git(repository.directory, "update-ref", "refs/heads/main", made)
    start(*world.open().everyone)
    end = joint(world).run(st.Adaptive(), until=f"llvm@{world.commits['break 1']}")
    assert set(ends(end).values()) == {"head"}
    both = f"Advance llvm to {world.commits['break 1'][:12]} with dialect to {made[:12]}"
    assert [subject for subject in subjects(world) if " with " in subject] == [both]


def test_a_fix_for_one_upstream_lets_all_go_on(world: Stack) -> None:
    start(*world.open().everyone)
    joint(world).run(st.Adaptive())
    place = json.loads(run(world, "--upstream", "dialect", "fix", "--json").stdout)
    assert place["bad"] == world.commits["feature"]
    tree = Path(place["worktree"])
    (tree / "app.txt").write_text("fancy\n")
    git(tree, "commit", "-q", "-a", "-m", "Follow the feature", env={**os.environ, **world.environment()})
    api = tree / "third_party/llvm/mlir/api.txt"
    api.write_text("7\n")  # of the upstream that is not to be fixed
    assert "third_party/llvm/mlir/api.txt" in str(stopped(world, "--upstream", "dialect", "fix", "--continue"))
    api.write_text("2\n")
    assert stopped(world, "--upstream", "dialect", "fix", "--continue").details["bad"] == world.commits["integrate 2"]
    assert ends(joint(world).run(st.Adaptive())) == {"llvm": "head", "dialect": "head"}
    assert "Follow the feature" in subjects(world)


def test_a_smoke_test_is_told_of_all_upstreams_alike_whichever_is_walked(world: Stack) -> None:
    start(*world.open().everyone)
    base = {each.slug: each.pin() for each in world.open().everyone}
    for walk in joint(world).walks:
        seen = walk.observer.look()
        walk.probe(seen, seen.ahead[0].sha)
        moved = base | {walk.project.slug: seen.ahead[0].sha}
        told = (world.root / "runs").read_text().splitlines()[-1].split()
        assert told == [moved["llvm"], moved["llvm"], moved["dialect"]]


def test_three_move_together_where_two_pin_the_third(stack: Any) -> None:
    world = stack(order=("llvm", "dialect", "tools"))
    start(*world.open().everyone)
    until = f"llvm@{world.commits['break 1']}+dialect@{world.commits['integrate 1']}"
    end = joint(world).run(st.Adaptive(), until=until)
    assert ends(end) == dict.fromkeys(("llvm", "dialect", "tools"), "head")
    at = {name: world.commits[name][:12] for name in ("break 1", "integrate 1", "tools 1")}
    moved = "Advance llvm to {break 1} with dialect to {integrate 1} with tools to {tools 1}".format(**at)
    assert moved in subjects(world)
