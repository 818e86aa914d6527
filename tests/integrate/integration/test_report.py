"""What an integrate tells people: status, reports, pages, statistics; and bisecting that is interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground import strategy as st
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.deliver.deliver import pull_request_text
from mlir_release.integrate.state import BISECTS
from mlir_release.integrate.status import collect, collect_stats, render
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import integrate, invoke

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integrate.integration.miniature import World


@pytest.fixture
def world(make_world: Any) -> World:
    """A small world in which an integrate has been started."""
    made: World = make_world(patched=True)
    start(made.open())
    return made


def line(world: World, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "mlir_release", "integrate", "-C", str(world.checkout), *arguments]


def cli(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line(world, *arguments), capture_output=True, text=True, check=False)


def test_a_walk_that_stops_says_all_in_one_document(world: World) -> None:
    assert json.loads(cli(world, "report", "--json").stdout)["outcome"] == "nothing"
    done = cli(world, "run", "--json")
    assert done.returncode == 7, done.stderr
    said = json.loads(done.stdout)
    assert (said["error"], said["exit_code"], said["outcome"]) == ("walk-needs-person", 7, "culprit")
    assert said["bad"] == said["report"]["culprit"] == world.commits["rename scale"]
    assert said["good"] == world.affecting[world.affecting.index(said["bad"]) - 1]
    assert "touches app.c" not in str(said["report"]["suspects"])
    assert "scale" in str(said["report"]["suspects"][0]["evidence"])
    again = json.loads(cli(world, "report", "--json").stdout)
    assert again == said["report"]


def test_a_walk_to_a_culprit_is_drawn_in_the_summary_and_counted(
    plain: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = plain.begin().run(st.Adaptive())
    culprit = plain.affecting.index(end.bad) + 1
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    invoke(plain, "run", "--no-probes")
    text = (tmp_path / "summary.md").read_text()
    assert "An upstream commit breaks this project" in text
    assert f"The walk: {culprit - 1} of {len(plain.affecting)} affecting commits of LLVM" in text
    assert invoke(plain, "page").output.strip() in text
    marks, branch = text.split("```text\n")[1].splitlines()[:2]
    assert marks[culprit - 1 : culprit + 1] == "oX"
    assert branch.index("^") == culprit - 1
    data = integrate(plain, "page")
    assert [test["position"] for test in data["tests"] if test["verdict"] == "bad"][-1] == culprit
    assert data["culprits"] == [end.bad]
    assert f"\n- {culprit}: `{end.bad[:12]}` [mlir] Rename scale\n" in text
    Walk(plain.open()).next()  # a person goes to the culprit, to fix it
    stats = collect_stats(plain.open())
    assert list(stats.months.values()) == [{"commits": culprit, "breaks": 1}]
    assert stats.culprits == (end.bad,)
    assert stats.folders == {"mlir": 1}
    assert (stats.walks, stats.linear_tests) == (1, culprit + 1)
    assert stats.tests == sum(test["attempts"] for test in data["tests"])
    assert "2026-11" in stats.as_text()


def test_a_failure_that_no_pattern_knows_is_shown_with_its_log_and_one_remedy(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the terminal, in the step summary (which the pull request and the notifications get, too) and by `report`."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    message = "changed: IotaOp | I64Attr:$iota_dimension"
    guard = f"./smoke.sh >quiet.txt 2>&1 && exit 0; echo '{message}'; exit 1"
    config = (world.checkout / "integrate.toml").read_text()
    replaced = re.sub(r"(?m)^command = .*$", lambda _: f"command = {json.dumps(['sh', '-c', guard])}", config)
    assert replaced != config
    (world.checkout / "integrate.toml").write_text(replaced)
    world.git("commit", "-q", "-a", "-m", "another smoke test")
    done = cli(world, "run")
    assert done.returncode == 7
    summary = (tmp_path / "summary.md").read_text()
    for text in (done.stdout + done.stderr, summary, cli(world, "report").stdout):
        assert message in text
        assert "Whole log: `" in text
        assert text.count("Next: ") == 1


def test_a_log_of_full_ci_is_held_against_what_came_in_since_main(world: World, tmp_path: Path) -> None:
    walk = Walk(world.open())
    walk.next(to=world.commits["flaky"])
    log = tmp_path / "ci.log"
    log.write_bytes(b"FAILED: other.o\nother.c:3:4: error: implicit declaration of function 'scale' caf\xe9\n")
    report = json.loads(cli(world, "report", "--json", "--log", str(log)).stdout)
    assert report["outcome"] == "bad"
    assert (report["good"], report["bad"]) == (world.commits["bug"], world.commits["flaky"])
    assert [suspect["commit"] for suspect in report["suspects"]] == [world.commits["rename scale"]]
    assert world.commits["rename scale"][:12] in cli(world, "report", "--log", str(log)).stdout


def test_status_tells_what_will_become_of_each_patch(world: World) -> None:
    walk = Walk(world.open())
    seen = walk.observer.look()
    for commit in (seen.base, world.affecting[0]):
        walk.probe(seen, commit)
    data = collect(walk.observer)
    assert (data["ahead"][0]["commit"], data["ahead"][0]["verdict"]) == (world.affecting[0], "good")
    become = {patch["subject"].split()[0]: patch["contained"] for patch in data["patches"]}
    assert "does not apply on" in become["Keep"]
    assert "mlir/notes.txt" in become["Keep"]
    assert "upstream reverts it too" in become["Revert"]
    assert "upstream has it" in become["[mlir]"]
    text = render(data)
    assert "which tests good" in text
    assert all(reason in text for reason in become.values())
    before = collect(walk.observer, until=world.affecting[0])
    assert {patch["contained"] for patch in before["patches"]} == {""}


def test_the_ledger_is_shown_whole(world: World) -> None:
    ledger = {"--why": "a crash in ours", "--link": "https://example.com/pull/7", "--drop-when": "7 is merged"}
    options = [text for option in ledger.items() for text in option]
    added = cli(world, "patches", "add", world.commits["healing"], *options, "--json")
    assert added.returncode == 0, added.stderr
    tip = json.loads(added.stdout)["commit"]
    assert miniature.git(world.root / "fork.git", "rev-parse", "downstream-llvm") == tip
    for arguments in (["status"], ["patches", "explain", tip[:10]]):
        said = cli(world, *arguments).stdout
        assert all(value in said for value in ledger.values()), said
    assert cli(world, "patches", "explain", "feedbeef").returncode == 2
    walk = Walk(world.open())
    _, body = pull_request_text(walk.project, walk.branch)
    assert all(value in body for value in ledger.values())


def everything(world: World) -> tuple[str, ...]:
    """But for the verdicts of bisects."""
    llvm = world.checkout / "third_party/llvm"
    return (
        world.git("rev-parse", "HEAD"),
        world.git("status", "--porcelain", "--branch", "--ignored"),
        *(ref for ref in world.git("for-each-ref").splitlines() if not ref.endswith(BISECTS)),
        miniature.git(llvm, "rev-parse", "HEAD"),
        miniature.git(llvm, "status", "--porcelain", "--branch"),
        miniature.git(llvm, "for-each-ref", "refs/heads"),
    )


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("kind", ["upstream", "branch"])
def test_an_interrupted_bisect_leaves_everything_as_it_was(
    world: World, tmp_path: Path, kind: str, how: signal.Signals
) -> None:
    for number in range(3):
        (world.checkout / "number.txt").write_text(f"{number}\n")
        world.git("add", "number.txt")
        world.git("commit", "-q", "-m", f"number {number}")
    before = everything(world)
    good, bad = ("HEAD~3", "HEAD") if kind == "branch" else (world.affecting[0], world.commits["healing"])
    begun = tmp_path / "begun"
    wait = f"echo $$ >{begun}.part; mv {begun}.part {begun}; while :; do sleep 0.1; done"
    command = line(world, "bisect", kind, "--good", good, "--bad", bad, "--", "sh", "-c", wait)
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        while not begun.exists() and process.poll() is None:
            time.sleep(0.01)
        os.kill(process.pid, how)
        if how == signal.SIGKILL:  # what it started outlives it; its folder is in nobody's way
            os.kill(int(begun.read_text()), signal.SIGKILL)
        _, errors = process.communicate()
    assert begun.exists(), errors
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    assert everything(world) == before
    # And it can be run again.
    test = "test $(cat number.txt || echo 0) -lt 1" if kind == "branch" else "./smoke.sh"
    done = cli(world, "bisect", kind, "--json", "--good", good, "--bad", bad, "--", "sh", "-c", test)
    assert done.returncode == 0, done.stderr
    expected = world.git("rev-parse", "HEAD~1") if kind == "branch" else world.commits["rename scale"]
    assert json.loads(done.stdout)["first_bad"] == expected
    assert everything(world) == before
