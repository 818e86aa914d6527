"""The workflow that walks a downstream's LLVM forward, run by act: up to a culprit, and after a fix up to head."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.git.repository import Git
from tests.github_server import GitHubServer
from tests.integrate.integration import miniature
from tests.workflows.integrate import CI, DOWNSTREAM, WORKFLOW, make_runner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integrate.integration.miniature import World
    from tests.workflows.rehearse import Runner


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Runner, World]]:
    """The state after a first manual dispatch and all rounds that follow from it."""
    workspace = tmp_path_factory.mktemp("integrate")
    with GitHubServer(workspace / "github") as github:
        runner, world = make_runner(github, workspace)
        walk(runner, branch="")
        yield runner, world


def walk(runner: Runner, *, branch: str) -> None:
    """Run the workflow, and each next round that it dispatches; the CI that it also dispatches is not run."""
    runner.run(WORKFLOW, "main", {"branch": branch, "strategy": "parallel", "width": "2"})
    while runner.waiting:
        dispatch = runner.waiting.pop(0)
        if dispatch.workflow == WORKFLOW:
            runner.run(WORKFLOW, dispatch.ref, dispatch.inputs)


def pull_of(runner: Runner) -> dict[str, Any]:
    (pull,) = [issue for issue in runner.github.repositories[DOWNSTREAM].issues if "head" in issue]
    return pull


def branch_of(runner: Runner) -> str:
    return str(pull_of(runner)["head"])


def issue_of(runner: Runner) -> tuple[dict[str, Any], list[str]]:
    """The standing issue, and its comments."""
    repository = runner.github.repositories[DOWNSTREAM]
    (issue,) = [issue for issue in repository.issues if "head" not in issue]
    return issue, [comment["body"] for comment in repository.comments.values() if comment["issue"] == issue["number"]]


def jobs(runner: Runner) -> list[dict[str, str]]:
    """Results of the jobs of each run, by name; probes count up."""
    found = []
    for number in range(1, len(runner.log) + 1):
        log = (runner.workspace / f"run-{number}-{WORKFLOW}.log").read_text(errors="replace")
        found.append(dict(re.findall(r"^\[integrate/Integrate LLVM/(.+?)\s*\] 🏁  Job (\w+)", log, re.MULTILINE)))
    return found


def test_rounds_lead_to_a_named_culprit(stopped: tuple[Runner, World]) -> None:
    runner, world = stopped
    repository = runner.github.repositories[DOWNSTREAM]
    start, *rounds = jobs(runner)
    assert start == {"integrate: start": "succeeded"}
    assert len(rounds) >= 2
    assert {results["integrate: plan round"] for results in rounds} == {"succeeded"}
    probes = [sum(name.startswith("integrate: probe ") for name in results) for results in rounds]
    assert probes == [2] * (len(rounds) - 1) + [1], "the last round confirms the culprit"
    ends = [results["integrate: advance"] for results in rounds]
    assert ends == ["succeeded"] * (len(rounds) - 1) + ["failed"]  # failed: a developer must act

    pull = pull_of(runner)
    assert pull["draft"]
    assert pull["base"] == "main"
    (comment,) = [comment for comment in repository.comments.values() if comment["issue"] == pull["number"]]
    assert f"Culprit: `{world.commits['rename scale'][:12]}`" in comment["body"]
    # Compilers differ in whether the compiler or the linker complains, and in the quotation marks.
    assert re.search(r"(implicit declaration of function|undefined reference to) .?scale", comment["body"])
    head = repository.git.resolve(f"refs/heads/{branch_of(runner)}")
    assert head is not None
    pin = repository.git.text("rev-parse", f"{head}:third_party/llvm")
    assert pin == world.affecting[world.affecting.index(world.commits["rename scale"]) - 1]
    assert pin in pull["body"]


def test_one_issue_tells_the_state_and_a_comment_the_culprit(stopped: tuple[Runner, World]) -> None:
    runner, world = stopped
    issue, comments = issue_of(runner)
    assert issue["title"] == "LLVM roller: needs a person"
    assert branch_of(runner) in issue["body"]
    (comment,) = comments
    assert f"culprit at `{world.commits['rename scale'][:12]}`" in comment


def test_ci_is_dispatched_once_for_each_head(stopped: tuple[Runner, World]) -> None:
    runner, _ = stopped
    repository = runner.github.repositories[DOWNSTREAM]
    checked = [(run["head_branch"], run["head_sha"]) for run in repository.runs if run["workflow"] == CI]
    name = branch_of(runner)
    branch = repository.git.text("log", "--first-parent", "--format=%H", f"main..{name}").split()
    assert len(checked) == len(set(checked))
    assert (name, branch[0]) in checked
    assert {sha for where, sha in checked if where == name} <= set(branch)
    broken = repository.git.text("rev-parse", f"{name}-broken")
    assert [sha for where, sha in checked if where != name] == [broken], "the broken state is checked, too"


def test_probes_see_no_token(stopped: tuple[Runner, World]) -> None:
    runner, _ = stopped
    seen = [path.read_text() for path in (runner.workspace / "seen").iterdir()]
    assert len(seen) >= 4
    for text in seen:
        assert "MLIR_RELEASE_UPSTREAM_COMMIT=" in text
        assert "remote.origin.url=" in text
        assert runner.token not in text
        assert "extraheader" not in text


def test_after_a_fix_the_walk_continues_to_head(stopped: tuple[Runner, World]) -> None:
    runner, world = stopped
    branch = branch_of(runner)
    repository = runner.github.repositories[DOWNSTREAM]
    world.git("fetch", "-q", "origin")
    world.git("switch", "-q", branch)
    llvm = world.checkout / "third_party" / "llvm"
    miniature.git(llvm, "fetch", "-q", str(world.root / "upstream.git"), "main")
    world.fix("rename scale")
    world.git("push", "-q", "origin", branch)
    before = len(runner.log)
    walk(runner, branch=branch)
    assert all(success for _, _, success in runner.log[before:])
    pin = Git(repository.git.directory).text("rev-parse", f"{branch}:third_party/llvm")
    assert pin == world.affecting[-1]
    pull = pull_of(runner)
    assert pin in pull["body"]
    assert "Follow upstream: rename scale" in pull["body"]
    issue, comments = issue_of(runner)
    assert issue["title"] == "LLVM roller: at head"
    assert len(comments) == 2
    assert "The walk goes on" in comments[1]


def test_a_schedule_goes_on_with_the_open_branch_and_a_stopped_roller_does_nothing(
    stopped: tuple[Runner, World],
) -> None:
    """After the test before it: the walk is at head."""
    runner, _ = stopped
    branch, heads = branch_of(runner), runner.github.repositories[DOWNSTREAM].git.text("for-each-ref", "refs/heads")
    before = len(runner.log)
    walk(runner, branch="")
    assert [success for _, _, success in runner.log[before:]] == [True]
    assert branch_of(runner) == branch  # no other pull request
    assert runner.github.repositories[DOWNSTREAM].git.text("for-each-ref", "refs/heads") == heads

    runner.settings["MLIR_RELEASE_ROLL"] = "stopped: release week"
    runner.github.repositories[DOWNSTREAM].git.run("update-ref", f"refs/heads/{branch}", f"{branch}~1")
    heads = runner.github.repositories[DOWNSTREAM].git.text("for-each-ref", "refs/heads")
    before = len(runner.log)
    for again in ("", branch):
        walk(runner, branch=again)
    assert [success for _, _, success in runner.log[before:]] == [True, True]
    start, round_ = jobs(runner)[before:]
    assert start == {"integrate: start": "succeeded"}
    assert not [name for name in round_ if name.startswith("integrate: probe ")]
    assert runner.github.repositories[DOWNSTREAM].git.text("for-each-ref", "refs/heads") == heads
    issue, comments = issue_of(runner)
    assert issue["title"].startswith("LLVM roller: stopped")
    assert "now **stopped**" in comments[-1]


def test_a_dry_run_probes_on_a_branch_that_nobody_else_sees(stopped: tuple[Runner, World]) -> None:
    """After the test before it: there is a pull request, which is given up here."""
    runner, _ = stopped
    repository = runner.github.repositories[DOWNSTREAM]
    pull_of(runner)["state"] = "closed"
    runner.settings["MLIR_RELEASE_ROLL"] = "dry-run"
    heads, seen = repository.git.text("for-each-ref", "refs/heads"), len(list((runner.workspace / "seen").iterdir()))
    runner.run(WORKFLOW, "main", {"branch": "", "strategy": "parallel", "width": "2"})
    (dispatch,) = runner.waiting
    assert dispatch.inputs["branch"] == "integrates/llvm-00000000"
    runner.waiting.clear()
    runner.run(WORKFLOW, dispatch.ref, dispatch.inputs)
    assert sum(name.startswith("integrate: probe ") for name in jobs(runner)[-1]) == 2
    assert len(list((runner.workspace / "seen").iterdir())) == seen + 2 + 1  # a failure is tried twice
    assert repository.git.resolve("refs/mlir-release/probes/integrates/llvm-00000000") is not None
    assert repository.git.text("for-each-ref", "refs/heads") == heads
    assert len([issue for issue in repository.issues if "head" in issue]) == 1
    runner.waiting.clear()
    assert issue_of(runner)[0]["title"].startswith("LLVM roller: dry-run")
