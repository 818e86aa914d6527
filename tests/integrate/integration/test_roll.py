"""The roller: its modes, the branch that it goes on with, and what it tells in its one issue."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.git.repository import Git
from mlir_release.ground.strategy import Adaptive
from mlir_release.integrate.config import ROLL_VARIABLE as VARIABLE
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.open import open_project
from mlir_release.integrate.walk.roll import RollState, begin, look, open_branch, read_orders, read_state, track
from mlir_release.integrate.walk.walk import Walk
from mlir_release.release.forge.open import open_pulls, open_roll_issues
from tests.github_server import GitHubServer
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import invoke, succeed
from tests.refusals import check_error, refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.integrate.project import Integration
    from tests.integrate.integration.miniature import World

TODAY, TOMORROW = "integrates/llvm-20261120", "integrates/llvm-20261121"
REPOSITORY = "ours/downstream"


@pytest.fixture
def world(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    made: World = make_world()
    monkeypatch.delenv(VARIABLE, raising=False)
    return made


@pytest.fixture
def github(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    """The downstream is there, and this process has the token of a job."""
    with GitHubServer(tmp_path / "github") as server:
        origin = server.add_repository(REPOSITORY, {}, workflows=("llvm.yml",))
        world.git("remote", "set-url", "origin", str(origin))
        world.git("push", "-q", "--force", "origin", "main")
        token = server.token(scopes=("contents", "actions", "pull_requests", "issues"))
        for name, value in server.environment(REPOSITORY, token).items():
            monkeypatch.setenv(name, value)
        yield server


def days_later(world: World, days: int = 1) -> Integration:
    return open_project(world.checkout, clock=lambda: miniature.NOON + timedelta(days=days))


def set_roll(world: World, *lines: str) -> None:
    """Write ``[roll]`` on main, and go back to the branch."""
    here = world.git("branch", "--show-current")
    world.git("switch", "-q", "main")
    with (world.checkout / "integrate.toml").open("a") as file:
        file.write("\n".join(["[roll]", *lines, ""]))
    world.git("commit", "-q", "-a", "-m", "Set the roller")
    world.git("push", "-q", "origin", "main")
    world.git("switch", "-q", here)


def heads(world: World) -> dict[str, str]:
    """The remote's branches."""
    listed = world.git("ls-remote", "--heads", "origin").splitlines()
    return {name.removeprefix("refs/heads/"): commit for commit, name in (line.split("\t") for line in listed)}


# -- which branch ------------------------------------------------------------------------------------------------------


def test_a_schedule_goes_on_with_the_branch_of_another_day_on_any_machine(world: World, tmp_path: Path) -> None:
    assert begin(world.open(), publish=True).new
    walk = Walk(world.open(), publish=True)
    walk.next()
    walk.push_branch()
    world.git("switch", "-q", "main")
    world.git("submodule", "--quiet", "update")
    for _ in range(2):
        begun = begin(days_later(world), publish=True)
        assert (begun.branch, begun.new) == (TODAY, False)
    assert world.git("branch", "--show-current") == TODAY
    assert sorted(heads(world)) == [TODAY, "main"]
    assert world.git("status", "--porcelain") == ""
    other = tmp_path / "other"
    miniature.git(tmp_path, "clone", "-q", f"{miniature.URL}origin.git", str(other))
    begun = begin(open_project(other, clock=lambda: miniature.NOON + timedelta(days=3)), publish=True)
    assert (begun.branch, begun.new) == (TODAY, False)
    assert miniature.git(other, "rev-parse", "HEAD") == heads(world)[TODAY]
    assert miniature.git(other, "status", "--porcelain") == ""


@pytest.mark.parametrize("button", ["squash", "merge"])
def test_what_has_landed_is_not_gone_on_with(world: World, button: str) -> None:
    walk = world.begin(publish=True)
    walk.next()
    walk.push_branch()
    world.git("switch", "-q", "main")
    world.git("submodule", "--quiet", "update")
    if button == "squash":
        world.git("merge", "-q", "--squash", TODAY)
        world.git("commit", "-q", "-m", "Integrate LLVM (#1)")
        world.git("submodule", "--quiet", "update")
    world.git("push", "-q", "origin", "main" if button == "squash" else f"{TODAY}:main")
    begun = begin(days_later(world), publish=True)
    assert (begun.branch, begun.new) == (TOMORROW, True)


def test_a_branch_that_has_only_begun_is_open_although_main_is_as_far(world: World) -> None:
    start(world.open(), publish=True)
    found = open_branch(days_later(world), None)
    assert found is not None
    assert (found.name, found.waits) == (TODAY, False)


def test_a_landed_branch_waits_for_its_merge(world: World) -> None:
    walk = world.begin(publish=True)
    walk.next()
    land(walk, squash=True, pulls=None)
    before = heads(world)
    begun = begin(days_later(world), publish=True)
    assert (begun.branch, begun.said) == ("", f"nothing to do: {TODAY} waits to be merged")
    assert heads(world) == before
    assert look(days_later(world), None).state == "waiting for its merge"


def test_the_pull_request_tells_what_is_open(world: World, github: GitHubServer) -> None:
    pulls = open_pulls()
    start(world.open(), publish=True, pulls=pulls)
    found = open_branch(days_later(world), pulls)
    assert found is not None
    assert found.pull is not None
    assert (found.pull.state, found.waits) == ("draft", False)
    (pull,) = github.repositories[REPOSITORY].issues
    pull["draft"] = False
    found = open_branch(days_later(world), pulls)
    assert found is not None
    assert found.waits  # for a review: nobody pushes there meanwhile
    pull["state"] = "closed"
    assert open_branch(days_later(world), pulls) is None
    world.git("switch", "-q", "main")
    begun = begin(days_later(world), publish=True, pulls=pulls)
    assert (begun.branch, begun.new) == (TOMORROW, True)


def test_changes_that_are_not_committed_are_refused_before_anything_is_checked_out(world: World) -> None:
    start(world.open(), publish=True)
    world.git("switch", "-q", "main")
    (world.checkout / "app.c").write_text("mine\n")
    refused(lambda: begin(days_later(world)), "checkout-dirty")
    assert world.git("branch", "--show-current") == "main"


# -- modes -------------------------------------------------------------------------------------------------------------


def test_the_variable_goes_before_the_file_and_may_have_a_reason(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_orders(world.open()).mode == "running"
    set_roll(world, 'mode = "dry-run"', 'why = "trying it"')
    orders = read_orders(world.open())
    assert orders.text() == "the roller is dry-run by [roll] in integrate.toml: trying it"
    monkeypatch.setenv(VARIABLE, " stopped: release week (Ada) ")
    orders = read_orders(world.open())
    assert orders.text() == f"the roller is stopped by the variable {VARIABLE}: release week (Ada)"


def test_a_mistyped_variable_stops_everything(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "stoped")
    error = refused(lambda: begin(world.open(), publish=True), "config-invalid", "'stoped'")
    assert "running, stopped, dry-run" in error.remedy
    assert list(heads(world)) == ["main"]


def test_main_orders_also_where_the_branch_is_older(world: World) -> None:
    start(world.open(), publish=True)
    set_roll(world, 'mode = "stopped"')
    assert world.git("branch", "--show-current") == TODAY
    assert "[roll]" not in (world.checkout / "integrate.toml").read_text()
    assert read_orders(world.open()).mode == "stopped"


def test_a_stopped_roller_starts_plans_and_moves_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "stopped: release week")
    summary, outputs = tmp_path / "summary", tmp_path / "outputs"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_OUTPUT", str(outputs))
    done = succeed(world, "start", "--roll", "--push", "--json")
    assert json.loads(done.stdout) == {"branch": "", "new": False}
    assert "release week" in summary.read_text()
    assert list(heads(world)) == ["main"]

    start(world.open(), publish=True)
    before = heads(world)
    done = invoke(world, "plan", "--roll", "--json")
    assert json.loads(done.stdout)["probes"] == []
    assert "probes<<" in outputs.read_text()
    done = succeed(world, "run", "--roll", "--push", "--json")
    assert json.loads(done.stdout)["outcome"] == "stopped"
    assert heads(world) == before
    monkeypatch.delenv(VARIABLE)
    assert json.loads(invoke(world, "plan", "--roll", "--json").stdout)["probes"] != []


def everything(world: World, github: GitHubServer) -> Any:
    place = github.repositories[REPOSITORY]
    fork = miniature.git(world.root / "fork.git", "for-each-ref")
    return heads(world), place.issues, place.comments, fork


@pytest.mark.parametrize("started", [False, True])
def test_a_dry_run_names_the_culprit_and_moves_nothing(
    world: World, github: GitHubServer, monkeypatch: pytest.MonkeyPatch, *, started: bool
) -> None:
    if started:
        start(world.open(), publish=True, pulls=open_pulls())
        world.git("switch", "-q", "main")
    monkeypatch.setenv(VARIABLE, "dry-run")
    before = everything(world, github)
    succeed(world, "start", "--roll", "--push")
    branch = world.git("branch", "--show-current")
    assert branch == (TODAY if started else "integrates/llvm-00000000")
    # As two rounds of the workflow: verdicts are recorded, and the next round is dispatched.
    succeed(world, "run", "--roll", "--no-probes", "--push", "--next-round", "llvm.yml")
    (run,) = github.repositories[REPOSITORY].runs
    assert run["head_branch"] == "main"
    done = invoke(world, "run", "--roll", "--push")
    assert check_error(done.exception, "walk-needs-person").where == world.commits["rename scale"]
    assert everything(world, github) == before
    state = look(world.open(), open_pulls())
    assert (state.mode, state.state, state.bad) == ("dry-run", "needs a person", world.commits["rename scale"])
    assert state.subject == "[mlir] Rename scale"


def test_a_dry_run_up_to_head_says_what_it_would_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    miniature.git(world.root / "upstream.git", "update-ref", "refs/heads/main", world.affecting[0])
    monkeypatch.setenv(VARIABLE, "dry-run")
    invoke(world, "start", "--roll")
    done = succeed(world, "run", "--roll")
    assert f"LLVM would be at head, {world.affecting[0]}; integrates/llvm-00000000 stays" in done.stdout
    assert list(heads(world)) == ["main"]


def test_the_branch_of_a_dry_run_is_never_pushed_not_even_after_it(
    world: World, github: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "dry-run")
    invoke(world, "start", "--roll", "--push")
    monkeypatch.setenv(VARIABLE, "running")
    before = heads(world)
    done = succeed(world, "run", "--roll", "--no-probes", "--push", "--next-round", "llvm.yml")
    assert "no round is dispatched" in done.output
    assert heads(world) == before
    assert github.repositories[REPOSITORY].runs == []
    check_error(invoke(world, "run", "--push").exception, "walk-needs-person")
    assert heads(world) == before


# -- the state, and its issue ------------------------------------------------------------------------------------------


def state_of(world: World) -> RollState:
    return look(world.open(), open_pulls())


def test_one_issue_tells_the_state_and_a_comment_what_is_new(
    world: World, github: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, tracker = github.repositories[REPOSITORY], open_roll_issues()

    def told() -> tuple[str, list[str]]:
        found = track(tracker, state_of(world))
        again = track(tracker, state_of(world))
        assert again == found
        (issue,) = [issue for issue in place.issues if "head" not in issue]
        assert issue["state"] == "open"
        assert issue["labels"] == ["llvm-roller"]
        return issue["title"], [comment["body"] for comment in place.comments.values()]

    assert told() == ("LLVM roller: idle", [])
    start(world.open(), publish=True, pulls=open_pulls())
    assert told() == ("LLVM roller: walking", [])
    end = Walk(world.open(), publish=True).run(Adaptive())
    assert end.outcome == "culprit"
    title, comments = told()
    assert title == "LLVM roller: needs a person"
    assert len(comments) == 1
    assert f"culprit at `{end.bad[:12]}`" in comments[0]
    body = next(issue["body"] for issue in place.issues if "head" not in issue)
    assert f"| pin | `{end.base[:12]}` of 2026-09-21, 59 days old |" in body
    assert world.affecting.index(end.base) == 0
    assert "| ahead of main | 1 affecting commit |" in body
    assert f"| behind upstream | {end.remaining} affecting commits |" in body
    (pull,) = [issue for issue in place.issues if "head" in issue]
    assert f"[`{TODAY}`]({github.url}/{REPOSITORY}/pull/{pull['number']})" in body

    Walk(world.open()).next()
    world.fix("rename scale")
    walk = Walk(world.open(), publish=True)
    walk.run(Adaptive(), until=end.bad)
    title, comments = told()
    assert title == "LLVM roller: walking"
    assert len(comments) == 2
    assert f"The walk goes on: `{end.bad[:12]}` is passed." in comments[1]
    assert f"| last culprit | `{end.bad[:12]}` |" in next(i["body"] for i in place.issues if "head" not in i)

    monkeypatch.setenv(VARIABLE, "stopped: release week for @everyone")
    title, comments = told()
    assert title == "LLVM roller: stopped, walking"
    assert len(comments) == 3
    assert "now **stopped**" in comments[2]
    assert "@everyone" not in comments[2]


def test_the_state_goes_from_job_to_job_as_a_file(
    world: World, github: GitHubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "roll.json"
    done = succeed(world, "roll", "--record-to", str(file), "--json")
    assert json.loads(done.stdout) == json.loads(file.read_text())
    assert read_state(file).state == "idle"
    elsewhere = succeed(tmp_path, "roll", "--from", str(file), "--track")
    (issue,) = github.repositories[REPOSITORY].issues
    assert f"{github.url}/{REPOSITORY}/issues/{issue['number']}" in elsewhere.stdout
    monkeypatch.delenv("GITHUB_TOKEN")
    refused(open_roll_issues, "needs-github")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"idle"', '"@everyone"'),
        ('"running"', '"<b>"'),
        ('"pin": "', '"pin": "x'),
        ('"upstream"', '"downstream"'),
        ("{", "["),
    ],
)
def test_a_file_that_no_roller_wrote_is_refused(world: World, tmp_path: Path, old: str, new: str) -> None:
    file = tmp_path / "roll.json"
    assert invoke(world, "roll", "--record-to", str(file)).exit_code == 0
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))
    refused(lambda: read_state(file), "input-invalid")


def test_looking_moves_nothing_and_needs_no_branch_here(world: World, tmp_path: Path) -> None:
    start(world.open(), publish=True)
    Walk(world.open(), publish=True).run(Adaptive())
    other = tmp_path / "other"
    miniature.git(tmp_path, "clone", "-q", f"{miniature.URL}origin.git", str(other))
    (other / "app.c").write_text("mine\n")
    before = Git(other).text("for-each-ref", "refs/heads")
    state = look(open_project(other), None)
    assert (state.branch, state.state, state.bad) == (TODAY, "needs a person", world.commits["rename scale"])
    assert Git(other).text("for-each-ref", "refs/heads") == before
