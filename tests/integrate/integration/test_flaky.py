"""Smoke tests that fail for no reason, or are asked for twice: what a walk says, and how many tests that takes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import json as as_json
from msgspec import structs

from mlir_release.ground import strategy as st
from mlir_release.ground.errors import UsageError
from mlir_release.integrate.deliver.branch import start, sync
from mlir_release.integrate.deliver.page import picture
from mlir_release.integrate.report import WalkEnd, report_known
from mlir_release.integrate.status import collect_stats
from mlir_release.integrate.walk.rounds import gather, plan_round, probe
from mlir_release.integrate.walk.together import JointWalk
from mlir_release.integrate.walk.walk import Allowed, Walk
from tests.integrate.integration.in_process import integrate, invoke
from tests.integrate.integration.miniature import FIXES, World
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Bad where upstream renamed what the downstream still names as before. It fails, too, for each ``fail`` that a file
#: beside the world lists, one after the other; ``fail COMMIT``: only at that commit; ``kill``: something ends it.
SMOKE = """#!/bin/sh
echo "$MLIR_RELEASE_UPSTREAM_COMMIT" >> {root}/ran
sleep {seconds}
luck="$(head -n 1 {root}/luck)"
case "$luck" in
  fail|pass|kill|"fail $MLIR_RELEASE_UPSTREAM_COMMIT") sed -i 1d {root}/luck;;
  *) luck=pass;;
esac
[ "$luck" = kill ] && kill -9 $$
[ "$luck" = pass ] || {{ echo "FAIL: mini :: flaky.test (1 of 1)"; exit 1; }}
for renamed in scale_by first newest; do
  grep -q "$renamed" "$MLIR_RELEASE_UPSTREAM_SOURCE/mlir/api.h" && ! grep -q "$renamed" app.c && exit 1
done
exit 0
"""


def having(made: World, luck: Sequence[str] = (), *, seconds: float = 0) -> World:
    """A world with that smoke test, in which an integrate was started."""
    (made.root / "luck").write_text("".join(f"{word}\n" for word in luck))
    (made.root / "ran").touch()
    (made.checkout / "smoke.sh").write_text(SMOKE.format(root=made.root, seconds=seconds))
    made.publish("Rename only")
    start(made.open(), publish=True)
    return made


def ran(world: World) -> Counter[str]:
    return Counter((world.root / "ran").read_text().split())


def walk_on(world: World, *, width: int = 1, until: str | None = None) -> tuple[Walk, WalkEnd]:
    walk = Walk(world.open())
    return walk, walk.run(st.Adaptive(width=width), width=width, until=until)


def test_a_culprit_that_passes_when_it_is_tested_again_is_not_named_and_the_walk_goes_on(pinned: World) -> None:
    flaked, broken = pinned.affecting[0], pinned.commits["rename scale"]
    world = having(pinned, [f"fail {flaked}"] * 2)
    walk = Walk(world.open())
    seen = walk.observer.look()
    assert [walk.probe(seen, commit).verdict for commit in (flaked, seen.base)] == ["bad", "good"]
    assert report_known(walk.observer).advice.startswith("It is not confirmed")
    end = walk.run(st.Adaptive())
    assert (end.outcome, end.bad) == ("culprit", broken)
    records = {record.upstream: record for record in walk.store.load().values()}
    assert (records[flaked].verdict, records[flaked].exits, records[flaked].confirmations) == ("good", (1, 1, 0), 1)
    confirmed = records[broken]
    assert confirmed.exits == (1,) * len(confirmed.exits)
    assert confirmed.attempts == 2
    assert confirmed.confirmations > 1, "one test has failed for no reason, so one confirmation is not enough"
    assert end.confirmations == confirmed.confirmations + 1
    assert end.smoke_tests + end.confirmations == sum(len(record.exits) for record in records.values())
    assert (end.retried, end.tested) == (1, len(records))


def test_the_share_of_retries_is_told_everywhere(pinned: World) -> None:
    world = having(pinned, [f"fail {pinned.affecting[0]}"])
    walk, end = walk_on(world)
    told = f"1 of {end.tested} smoke tests needed a retry to pass."
    stopped = invoke(world, "run")
    assert str(stopped.exception).startswith("the walk stopped: culprit")
    assert told in stopped.output
    assert f"tested bad in {len(end.record.exits if end.record else ())} attempts" in stopped.output
    for command in ("report", "page", "stats"):
        if command == "stats":
            walk.next()
        assert told in invoke(world, command).output
    data = integrate(world, "page")
    assert data["retried"] == 1
    assert sum(test["confirmations"] for test in data["tests"]) == end.confirmations
    assert collect_stats(world.open()).confirmations == end.confirmations
    world.fix("rename scale")
    at_head = invoke(world, "run", "--until", walk.observer.look().base)
    assert at_head.output.strip().endswith(f"1 of {end.tested + 1} smoke tests needed a retry to pass.")


def test_rounds_of_several_machines_confirm_a_culprit_before_it_is_named(make_world: Any, tmp_path: Path) -> None:
    world = having(make_world("pin-file"))
    walk = Walk(world.open(), publish=True)
    broken = world.commits["rename scale"]
    for number in range(9):
        end = walk.run(st.Adaptive(width=3), allowed=Allowed(probes=False))
        if end.outcome != "untested":
            break
        planned = plan_round(JointWalk([walk]), st.Adaptive(width=3))
        seen = walk.observer.look()
        known = walk.observer.knowledge(seen, walk.observer.verdicts(seen))
        for commit in planned["probes"]:
            wanted = planned["attempts"]
            assert wanted == 2 or planned["probes"] == [broken]
            record = probe(
                JointWalk([Walk(world.elsewhere(tmp_path / f"{number}-{commit[:9]}"))]), commit, tmp_path / "new.json"
            )
            assert record.verdict == "good" or len(record.exits) == wanted, "it found out by itself"
            (tmp_path / f"records-{number}").mkdir(exist_ok=True)
            (tmp_path / "new.json").rename(tmp_path / f"records-{number}" / f"{commit}.json")
        gather(JointWalk([walk]), tmp_path / f"records-{number}")
    assert (end.outcome, end.bad) == ("culprit", broken)
    assert end.record is not None
    assert end.record.confirmations > 0
    assert seen.upstream_at(1) == broken
    assert (known.verdicts[0], known.verdicts[1]) == ("good", "bad"), "the last round was only about what was known"
    assert walk.tests == walk.confirmations == 0
    before = walk.store.load()
    assert gather(JointWalk([walk]), tmp_path / f"records-{number - 1}") == 1  # that job was run again
    assert walk.store.load() == before


def before_the_break(world: World) -> Walk:
    """The branch is at the last good commit, and the next one has failed as often as is configured."""
    broken = world.commits["rename scale"]
    walk = Walk(world.open(), publish=True)
    walk.run(st.Adaptive(), until=world.affecting[world.affecting.index(broken) - 1])
    seen = walk.observer.look()
    assert seen.upstream_at(1) == broken
    assert [walk.probe(seen, commit).verdict for commit in (seen.base, broken)] == ["good", "bad"]
    return walk


def test_a_confirmation_that_something_killed_is_no_verdict_and_is_repeated(make_world: Any) -> None:
    world = having(make_world("pin-file"))
    walk = before_the_break(world)
    before = walk.store.load()
    (world.root / "luck").write_text("kill\n")
    refused(lambda: walk.run(st.Adaptive()), "interrupted")
    assert walk.store.load() == before
    assert walk.run(st.Adaptive()).outcome == "culprit"


def test_a_machine_that_cannot_read_verdicts_is_told_how_often_to_test(make_world: Any, tmp_path: Path) -> None:
    world = having(make_world("pin-file"))
    walk, broken = before_the_break(world), world.commits["rename scale"]
    planned = plan_round(JointWalk([walk]), st.Adaptive())
    assert planned["probes"] == [broken]
    other = Walk(world.elsewhere(tmp_path / "private"))
    other.store.pull = lambda _: None  # type: ignore[method-assign, assignment] # no credentials
    (tmp_path / "records").mkdir()
    record = probe(JointWalk([other]), broken)
    assert record.exits == (1, 1)
    (tmp_path / "records/one.json").write_bytes(as_json.encode(structs.replace(record, seconds=9.0)))
    refused(lambda: gather(JointWalk([walk]), tmp_path / "records"), "smoke-failed")
    record = probe(JointWalk([other]), broken, attempts=planned["attempts"])
    assert len(record.exits) == planned["attempts"]
    (tmp_path / "records/one.json").write_bytes(as_json.encode(record))
    gather(JointWalk([walk]), tmp_path / "records")
    assert walk.run(st.Adaptive(), allowed=Allowed(probes=False)).outcome == "culprit"


def test_a_machine_without_a_record_counts_attempts_beyond_the_usual_as_confirmations(make_world: Any) -> None:
    world = having(make_world("pin-file"))
    walk = Walk(world.open())
    record = probe(JointWalk([walk]), world.commits["rename scale"], attempts=5)
    assert (len(record.exits), record.confirmations) == (5, 3)
    assert (walk.tests, walk.confirmations) == (2, 3)
    assert probe(JointWalk([walk]), world.commits["rename scale"], attempts=5) == record


def test_two_runs_at_once_test_each_commit_once_and_both_name_the_culprit(make_world: Any) -> None:
    world = having(make_world("pin-file"), seconds=0.5)
    command = [sys.executable, "-m", "mlir_release", "integrate", "-C", str(world.checkout), "run", "--json"]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)) for _ in "12"
    ]
    ends = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [7, 7], ends
    for output, _ in ends:
        assert world.commits["rename scale"] in output.decode()
    assert any(b"which is being tested already" in said for _, said in ends)
    records = {record.upstream: record for record in Walk(world.open()).store.load().values()}
    assert ran(world) == {commit: len(record.exits) for commit, record in records.items()}


def test_after_a_merge_of_main_the_known_culprit_is_tested_first(make_world: Any, tmp_path: Path) -> None:
    world = having(make_world("pin-file"))
    walk, end = walk_on(world)
    walk.push_branch()
    world.push_to_main(tmp_path / "else", "README", "hello\n")
    assert sync(walk)
    (world.root / "ran").write_text("")
    _, again = walk_on(world)
    assert (again.outcome, again.bad) == (end.outcome, end.bad)
    assert set(ran(world)) == {end.bad, end.good}
    assert again.smoke_tests == 3, "the culprit with its retry, and the commit before it"


def test_a_break_that_main_has_fixed_costs_one_test(make_world: Any) -> None:
    world = having(make_world("pin-file"))
    _, end = walk_on(world)
    world.fix("rename scale")  # on the branch, at the last good commit, as a merge of main would
    (world.root / "ran").write_text("")
    _, again = walk_on(world, until=end.bad)
    assert again.outcome == "head"
    assert ran(world) == {end.bad: 1}


def test_verdicts_under_another_environment_are_named_where_none_counts(
    pinned: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned.reconfigure("timeout-minutes = 2\n", 'timeout-minutes = 2\nenvironment = ["CC", "CXX"]\n')
    having(pinned)
    monkeypatch.setenv("CC", "gcc-12")
    _, end = walk_on(pinned)
    monkeypatch.setenv("CC", "clang-19")
    told = "verdicts of this branch that were made with another smoke command, other values of CC, CXX"
    assert f"{end.tested} {told}" in report_known(Walk(pinned.open()).observer).advice
    done = invoke(pinned, "fix")
    assert isinstance(done.exception, UsageError)
    assert "no smoke test ahead of this branch is known to have failed" in str(done.exception)
    assert f"{end.tested} {told}" in done.exception.why
    monkeypatch.setenv("CC", "gcc-12")
    assert told not in report_known(Walk(pinned.open()).observer).advice


@pytest.mark.parametrize("attempts", [1, 2])
def test_the_page_says_how_many_tests_a_linear_walk_takes(pinned: World, attempts: int) -> None:
    pinned.reconfigure("timeout-minutes = 2\n", f"timeout-minutes = 2\nattempts = {attempts}\n")
    world = having(pinned)
    names = {sha: name for name, sha in world.commits.items() if name in FIXES}
    taken = 0
    mended = world.affecting[world.affecting.index(world.commits["flaky"]) + 1]  # as before it: one test for both
    while True:
        walk = Walk(world.open())
        end = walk.run(st.Linear())
        taken += end.smoke_tests
        again = world.affecting.index(mended) < world.affecting.index(end.base)
        assert picture(walk.project, walk.branch).linear_tests == taken + again
        if end.outcome == "head":
            break
        walk.next()
        world.fix(names[end.bad])
    assert taken == len(world.affecting) - 1 + len(FIXES) * (attempts - 1)


def walked(world: World) -> tuple[list[str], int, int]:
    """Walk to head, fixing what is really broken: the culprits that are none, and the tests and confirmations."""
    names = {sha: name for name, sha in world.commits.items() if name in FIXES}
    false: list[str] = []
    tests = confirmations = 0
    while True:
        walk, end = walk_on(world)
        tests, confirmations = tests + end.smoke_tests, confirmations + end.confirmations
        if end.outcome == "head":
            return false, tests, confirmations
        at_fault = end.outcome == "culprit" and names.pop(end.bad, "")
        if at_fault:
            walk.next()
            world.fix(at_fault)
        else:
            false.append(end.bad)
            if end.outcome == "culprit":
                walk.next()
            (world.checkout / "note").write_text(f"{len(false)}\n")  # whatever people do
            world.git("add", "note")
            world.git("commit", "-qm", "Mend what was not broken")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_smoke_test_that_passes_four_times_in_five_names_no_false_culprit(make_world: Any, seed: int) -> None:
    draw = random.Random(f"luck {seed}")
    world = having(make_world("pin-file"), ["fail" if draw.random() < 0.2 else "pass" for _ in range(500)])
    false, tests, confirmations = walked(world)
    print(f"seed {seed}: {tests} smoke tests, {confirmations} confirmations, false culprits: {len(false)}")
    assert false == []
