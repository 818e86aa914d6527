"""What a walk does on several machines and on the command line, its reports, bisections, patches and landing."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlir_release.ground import strategy as st
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import is_ancestor
from mlir_release.integrate.deliver import branch
from mlir_release.integrate.deliver.branch import start, sync
from mlir_release.integrate.deliver.deliver import pull_request_text
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.open import open_project
from mlir_release.integrate.patches.patches import PatchConflict
from mlir_release.integrate.report import WalkEnd, WalkReport
from mlir_release.integrate.walk.bisect import bisect_upstream
from mlir_release.integrate.walk.rounds import gather, plan_round, probe
from mlir_release.integrate.walk.together import JointWalk
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import Pulls, invoke
from tests.integrate.integration.miniature import NOON, World
from tests.refusals import refused


@pytest.mark.parametrize("patched", [False, True])
@pytest.mark.parametrize("carrier", ["submodule", "pin-file"])
def test_another_machine_goes_on_and_derives_no_verdict_again(
    make_world: Any, tmp_path: Path, carrier: str, patched: bool
) -> None:
    world = make_world(carrier, patched=patched)
    start(world.open(), publish=True)
    first = Walk(world.open(), publish=True).run(st.Adaptive())
    assert first.outcome == "culprit"
    assert first.smoke_tests > 0
    again = Walk(world.elsewhere(tmp_path / "other"), publish=True).run(st.Adaptive())
    assert (again.outcome, again.bad, again.smoke_tests) == (first.outcome, first.bad, 0)


def test_the_next_round_is_dispatched_while_probes_are_needed(
    plain: World, use_pulls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(plain.open(), publish=True)
    use_pulls(pulls := Pulls())
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    words = ["run", "--no-probes", "--push", "--strategy", "parallel", "--width", "3", "--next-round", "llvm.yml"]
    assert invoke(plain, *words).exit_code == 0
    kind, call = pulls.calls[-1]
    inputs = {"branch": Walk(plain.open()).branch, "strategy": "parallel", "width": "3"}
    assert (kind, call) == ("dispatch", {"workflow": "llvm.yml", "branch": "main", "inputs": inputs})
    pulls.calls.clear()
    Walk(plain.open()).run(st.Adaptive(), until=plain.affecting[0])
    invoke(plain, *words, "--until", plain.affecting[0])
    assert [kind for kind, _ in pulls.calls] == ["ensure_draft"]  # at the goal: no further round


def test_rounds_of_machines_that_clone_without_blobs(plain: World, tmp_path: Path) -> None:
    start(plain.open(), publish=True)
    branch = plain.git("symbolic-ref", "--short", "HEAD")
    for number, upstream in enumerate(plain.affecting[:2]):
        machine = tmp_path / f"machine-{number}"
        source = f"file://{plain.root}/origin.git"
        miniature.git(tmp_path, "clone", "-q", "--filter=blob:none", "-b", branch, source, str(machine))
        walk = Walk(open_project(machine, clock=lambda: NOON), publish=True)
        walk.store.pull("origin")
        missing = miniature.git(machine, "rev-list", "--objects", "--missing=print", "--glob=refs/mlir-release/probes")
        assert "?" not in missing
        walk.probe(walk.observer.look(), upstream)
        walk.store.push("origin")
    here = Walk(plain.open())
    here.store.pull("origin")
    assert {record.upstream for record in here.store.load().values()} == set(plain.affecting[:2])


def culprit(world: World) -> tuple[Walk, WalkEnd]:
    walk = world.begin(publish=True)
    return walk, walk.run(st.Adaptive())


def test_the_report_names_errors_and_suspects(plain: World) -> None:
    walk, end = culprit(plain)
    assert end.record is not None
    seen = walk.observer.look()
    report = WalkReport.of(walk.project, replace(end, outcome="range", suspects=seen.ahead[:8]))
    assert any("scale" in finding.text for finding in report.findings)
    assert report.suspects[0].commit.sha == plain.commits["rename scale"]
    assert Path(report.log).is_file()
    markdown = report.as_markdown()
    assert plain.commits["rename scale"][:12] in markdown
    assert f"Reproduce on `{end.branch}`: `mlir-release integrate probe {end.bad[:12]}`" in markdown
    assert probe(JointWalk([walk]), end.bad[:12]).verdict == "bad"
    assert json.loads(json.dumps(report.as_json()))["suspects"]


def test_a_bisect_over_older_commits_carries_no_revert_of_what_is_not_there_yet(
    plain: World, capfd: pytest.CaptureFixture[str]
) -> None:
    """The pin is at the newest commit and carries two reverts of recent ones; the range lies before them."""
    start(plain.open())
    newest = plain.affecting[-1]
    walk = Walk(plain.open())
    walk.next(to=newest)
    for name in ("rename field", "drop last"):
        branch.carry(walk, plain.commits[name], revert=True, why="ours", link="", drop_when="")
    command = ("sh", "-c", 'grep -q "int scale(" "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir/api.h"')
    result = bisect_upstream(plain.open(), plain.affecting[0], newest, command)
    assert result.first_bad == plain.commits["rename scale"]
    assert (result.skipped, result.reasons) == ((), ())
    said = capfd.readouterr().err
    assert [line.split()[2] for line in said.splitlines() if line.startswith("    step ")][:2] == [
        newest[:12],
        plain.affecting[0][:12],
    ], "the ends are tested first"


def test_a_stack_resolved_by_hand_is_taken(world: World) -> None:
    walk = world.begin()
    target = world.commits["conflict"]
    with pytest.raises(PatchConflict) as caught:
        walk.next(to=target)
    assert caught.value.files == ("mlir/notes.txt",)
    llvm = world.checkout / "third_party/llvm"
    work = world.root / "resolving"
    miniature.git(llvm, "worktree", "add", "-q", "--detach", str(work), target)
    (work / "mlir/notes.txt").write_text("both notes\n")
    miniature.git(work, "commit", "-q", "-a", "-m", "Keep notes\n\nCarried-Kind: local\nCarried-Why: we read them")
    resolved = miniature.git(work, "rev-parse", "HEAD")
    walk.next(to=target, resolved=resolved)
    assert walk.observer.look().pin == resolved
    assert is_ancestor(Git(world.root / "fork.git"), resolved, "downstream-llvm")


def test_sync_brings_a_persons_fix_and_main(plain: World, tmp_path: Path) -> None:
    walk, end = culprit(plain)
    walk.next()
    branch = walk.branch
    other = World(tmp_path / "else", plain.commits, plain.affecting)
    other.root.mkdir()
    miniature.git(other.root, "clone", "-q", "-b", branch, "https://mini.invalid/origin.git", "downstream")
    other.root.joinpath("gitconfig").write_text((plain.root / "gitconfig").read_text())
    other.fix("rename scale")
    miniature.git(other.checkout, "push", "-q")
    miniature.git(other.checkout, "switch", "-q", "main")
    (other.checkout / "README").write_text("hello\n")
    miniature.git(other.checkout, "add", "README")
    miniature.git(other.checkout, "commit", "-q", "-m", "Say hello")
    miniature.git(other.checkout, "push", "-q")
    assert sync(walk)
    assert (plain.checkout / "README").exists()
    assert "SCALE scale_by" in (plain.checkout / "app.c").read_text()
    assert not sync(walk)
    assert Walk(plain.open()).run(st.Adaptive()).bad != end.bad


@pytest.mark.parametrize("squash", [True, False])
def test_land_writes_the_pull_request_and_can_be_repeated(world: World, squash: bool) -> None:
    walk, end = culprit(world)
    walk.next()
    world.fix("rename scale")
    pulls = Pulls()
    commit = land(walk, squash=squash, pulls=pulls)
    assert miniature.git(world.root / "origin.git", "rev-parse", walk.branch) == commit
    assert land(Walk(world.open()), squash=squash, pulls=pulls) == commit
    count = int(world.git("rev-list", "--count", "origin/main..HEAD"))
    assert (count == 1) is squash
    assert [kind for kind, _ in pulls.calls] == ["ensure_draft", "mark_ready"] * 2
    assert pulls.calls[:2] == pulls.calls[2:], "landing again writes the same text"
    body = pulls.calls[0][1]["body"]
    assert "we read them" in body
    assert end.bad in body
    assert "Follow upstream: rename scale" in body
    assert pull_request_text(walk.project, walk.branch)[0].startswith("Integrate LLVM at")
    assert world.git("status", "--porcelain") == ""


def test_the_command_line_ends_with_the_documented_codes(pinned: World) -> None:

    def cli(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [os.sys.executable, "-m", "mlir_release", "integrate", "-C", str(pinned.checkout), *arguments]  # type: ignore[attr-defined]
        return subprocess.run(command, capture_output=True, check=False)

    assert cli("run").returncode == 2  # not started
    assert cli("start", "--push").returncode == 0
    assert b"next ->" in cli("status").stdout
    assert cli("probe", pinned.affecting[0]).returncode == 0
    assert cli("probe", pinned.commits["rename scale"]).returncode == 6
    assert cli("probe", pinned.commits["unbuildable"]).returncode == 125
    done = cli("run", "--json", "--push")
    assert done.returncode == 7
    assert pinned.commits["rename scale"].encode() in done.stdout
    assert cli("report").returncode == 0
    assert cli("patches", "list").stdout.strip() == b"nothing is carried"


def test_probes_of_other_machines_count_where_these_have_a_name(
    plain: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pretend: Any
) -> None:
    plain.reconfigure("[smoke]\n", '[smoke]\nenvironment = ["CXX"]\n')
    start(plain.open())
    walk = JointWalk([Walk(plain.open())])
    commit = plan_round(walk, st.Adaptive())["probes"][0]
    records = tmp_path / "records"
    records.mkdir()
    here = platform.machine()

    def probe_there() -> None:
        """On another architecture, with its own compiler."""
        with monkeypatch.context() as there:
            there.setenv("CXX", "clang++-22")
            pretend(machine="riscv64")
            probe(JointWalk([Walk(plain.open())]), commit, records / "record.json")
        pretend(machine=here)

    probe_there()
    refused(lambda: gather(walk, records), "input-invalid", "not what was asked for")
    monkeypatch.setenv("MLIR_RELEASE_PROBES_ON", '["self-hosted", "riscv64"] ')
    probe_there()
    assert gather(JointWalk([Walk(plain.open())]), records) == 1
    monkeypatch.setenv("MLIR_RELEASE_PROBES_ON", '["self-hosted", "arm64"] ')
    refused(lambda: gather(JointWalk([Walk(plain.open())]), records), "input-invalid")
