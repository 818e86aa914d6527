"""How often a failed commit is tested again before it is blamed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks.simulate import Scenario, generate_walks, load_walks, summarize
from mlir_release.ground.strategy import BaseBroken, Culprit, Done, Knowledge, Range, Stuck, Verdict
from mlir_release.integrate.walk.doubt import LIMIT, MOST_ATTEMPTS, attempts_wanted, blamed, false_chance

RECORDED = Path(__file__).parents[3] / "benchmarks" / "data" / "iree-walks.json"

#: 8 tested bad, 7 good.
KNOWN = Knowledge(20, {7: Verdict.GOOD, 8: Verdict.BAD})
BLAMING = Culprit(8)

#: How often each of the tests that passed had failed before.
RELIABLE, FLAKY = (0,) * 20, (0,) * 16 + (1,) * 4


def wanted(passed: tuple[int, ...], *, known: Knowledge = KNOWN, failures: dict[int, int] | None = None) -> int:
    return attempts_wanted(known, BLAMING, failures or {8: 2}, passed, attempts=2)


def test_a_culprit_is_tested_once_more_where_no_test_has_failed_for_no_reason() -> None:
    assert wanted(RELIABLE) == 3


def test_so_often_that_a_false_culprit_is_unlikely_where_some_have() -> None:
    times = wanted(FLAKY)
    assert times > 4
    for failed, unlikely in ((times, True), (times - 1, False)):
        assert (false_chance(KNOWN, BLAMING, {8: failed}, FLAKY, 2) < LIMIT) is unlikely


def test_integrate_toml_can_limit_the_confirmations() -> None:
    def limited(confirmations: int, passed: tuple[int, ...]) -> int:
        return attempts_wanted(KNOWN, BLAMING, {8: 2}, passed, attempts=2, confirmations=confirmations)

    assert [limited(most, FLAKY) for most in (0, 1, 2)] == [2, 3, 4]
    assert limited(20, FLAKY) == wanted(FLAKY)
    assert limited(20, RELIABLE) == wanted(RELIABLE)


@pytest.mark.parametrize("passed", [(), RELIABLE, FLAKY, (0,) * 4 + (1,) * 16])
def test_each_failure_makes_a_false_culprit_less_likely(passed: tuple[int, ...]) -> None:
    chances = [false_chance(KNOWN, BLAMING, {8: failed}, passed, 2) for failed in range(1, 12)]
    assert chances == sorted(chances, reverse=True)
    assert 0 < chances[-1] < chances[0] < 1


def test_more_retries_call_for_more_confirmations() -> None:
    counts = [wanted((0,) * (20 - retried) + (1,) * retried) for retried in (0, 2, 5, 10)]
    assert counts == sorted(set(counts))


def test_what_is_likely_to_break_the_downstream_needs_less_proof_than_what_hardly_can() -> None:
    likely, unlikely = ([risk] * 21 for risk in (0.5, 0.001))
    told = [wanted(FLAKY, known=Knowledge(20, KNOWN.verdicts, risks)) for risks in (likely, unlikely)]
    assert told[0] < wanted(FLAKY) < told[1]


def test_a_later_failure_that_a_break_in_between_may_explain_makes_no_proof_but_one_at_the_next_commit_does() -> None:
    near = Knowledge(20, {**KNOWN.verdicts, 9: Verdict.BAD})
    far = Knowledge(20, {**KNOWN.verdicts, 20: Verdict.BAD})
    chances = [
        false_chance(known, BLAMING, failures, FLAKY, 2)
        for known, failures in ((near, {8: 2, 9: 2}), (far, {8: 2, 20: 2}), (KNOWN, {8: 2}))
    ]
    assert chances == sorted(chances)
    assert chances[0] < 0.5 * chances[2]


def test_a_test_that_fails_nearly_always_is_repeated_no_more_than_a_few_times() -> None:
    assert wanted((9,) * 20) == MOST_ATTEMPTS
    assert wanted((10**6,) * 3, failures={8: 10**6}) == MOST_ATTEMPTS
    assert attempts_wanted(KNOWN, BLAMING, {8: 2}, (9,) * 20, attempts=30) == 31


def test_what_blames_no_commit_is_not_confirmed() -> None:
    for decision in (Done(20), Stuck(7)):
        assert blamed(KNOWN, decision) is None
        assert attempts_wanted(KNOWN, decision, {8: 2}, FLAKY, attempts=2) == 0
        assert false_chance(KNOWN, decision, {8: 2}, FLAKY, 2) == 0


def test_the_bad_end_of_a_range_and_a_broken_base_are_confirmed() -> None:
    assert blamed(KNOWN, Range(3, 8)) == 8
    assert 3 <= attempts_wanted(KNOWN, Range(3, 8), {8: 2}, FLAKY, attempts=2) < wanted(FLAKY)
    broken = Knowledge(20, {0: Verdict.BAD})
    assert blamed(broken, BaseBroken(5)) == 0
    assert attempts_wanted(broken, BaseBroken(0), {0: 2}, FLAKY, attempts=2) > wanted(FLAKY)
    assert blamed(Knowledge(20, {0: Verdict.UNTESTABLE, 5: Verdict.BAD}), BaseBroken(5)) == 5


def test_fifty_walks_with_a_smoke_test_that_passes_four_times_in_five_name_no_false_culprit() -> None:
    worlds = generate_walks(commits=150, break_rate=0.02, flaky=0.2, seeds=50)
    before, now = (summarize(worlds, "adaptive", confirm=confirm) for confirm in (False, True))
    assert before.false_culprits > 10
    assert now.false_culprits <= 1
    assert now.missed == before.missed == 0
    assert now.tests + now.confirmations < 1.4 * before.tests


def test_recorded_walks_cost_one_confirmation_a_culprit() -> None:
    worlds = load_walks(RECORDED)
    breaks = sum(len(world.breaks) for world in worlds)
    assert breaks <= summarize(worlds, "adaptive").confirmations <= 1.1 * breaks
    assert summarize(worlds, "adaptive", confirm=False).confirmations == 0
    assert summarize(worlds, "adaptive", retries=0).tests <= 1.07 * summarize(worlds, "adaptive", retries=0).floor


def test_a_base_that_only_flaked_is_not_reported() -> None:
    flaky = [dataclasses.replace(world, flaky=0.2) for world in [Scenario(n=1, breaks={1: None})] * 40]
    assert summarize(flaky, "adaptive").false_culprits == 0
    assert summarize(flaky, "adaptive", confirm=False).false_culprits > 0
