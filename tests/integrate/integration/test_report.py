"""What an integrate tells people: status, reports, the pull request; and bisecting that is interrupted."""

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
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.state import BISECTS
from mlir_release.integrate.status import collect, render
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integrate.integration.miniature import World


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> World:
    return miniature.build(tmp_path_factory.mktemp("built") / "world", patched=True, small=True)


@pytest.fixture
def world(built: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A small world in which an integrate has been started."""
    made = miniature.copy(built.root, tmp_path / "world")
    made.enter(monkeypatch)
    start(made.open())
    return made


def walking(world: World) -> Walk:
    return Walk(world.open())


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


def test_the_report_goes_to_the_step_summary(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert cli(world, "run").returncode == 7
    summary = (tmp_path / "summary.md").read_text()
    assert "An upstream commit breaks this project" in summary
    assert world.commits["rename scale"][:12] in summary


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
    walk = walking(world)
    walk.next(to=world.commits["flaky"])
    log = tmp_path / "ci.log"
    log.write_bytes(b"FAILED: other.o\nother.c:3:4: error: implicit declaration of function 'scale' caf\xe9\n")
    report = json.loads(cli(world, "report", "--json", "--log", str(log)).stdout)
    assert report["outcome"] == "bad"
    assert (report["good"], report["bad"]) == (world.commits["bug"], world.commits["flaky"])
    assert [suspect["commit"] for suspect in report["suspects"]] == [world.commits["rename scale"]]
    assert world.commits["rename scale"][:12] in cli(world, "report", "--log", str(log)).stdout


def test_status_tells_what_will_become_of_each_patch(world: World) -> None:
    walk = walking(world)
    walk.probe(walk.observer.look(), walk.observer.look().base)
    data = collect(walk.observer)
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
    _, body = pull_request_text(walking(world).project, walking(world).branch)
    assert all(value in body for value in ledger.values())


class Pulls:
    """Remembers the pull request's text."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []

    def ensure_draft(self, *, title: str, body: str, **_: Any) -> str:
        self.texts.append((title, body))
        return ""

    def comment(self, **_: Any) -> None:
        """Not of interest."""

    mark_ready = dispatch = ensure_ci = newest = comment


def test_landing_again_writes_the_same_text(world: World) -> None:
    walk = walking(world)
    walk.run(st.Adaptive(), until=world.affecting[0])
    pulls = Pulls()
    first = land(walk, squash=True, pulls=pulls)
    assert land(walking(world), squash=True, pulls=pulls) == first
    assert pulls.texts[0] == pulls.texts[1]
    assert f"Advances LLVM from {world.commits['bug']} to {world.affecting[0]}: 1 affecting" in pulls.texts[1][1]


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
