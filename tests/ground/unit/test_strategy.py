"""What every strategy must hold for any pattern of breaks."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as gen

from benchmarks.simulate import Scenario, replay
from mlir_release.ground import strategy as st
from tests.refusals import refused

ALL = [st.Linear(), st.Adaptive(head_first=True), st.Adaptive(), st.Adaptive(width=3), st.Adaptive(width=8)]


@gen.composite
def worlds(draw: gen.DrawFn) -> Scenario:
    n = draw(gen.integers(0, 60))
    starts = draw(gen.sets(gen.integers(1, max(n, 1)), max_size=min(n, 12))) if n else set()
    breaks: dict[int, int | None] = {}
    for start in sorted(starts):
        healed = draw(gen.one_of(gen.none(), gen.integers(start + 1, n + 1)))
        breaks[start] = None if healed is None or healed > n else healed
    untestable = (
        frozenset(draw(gen.sets(gen.integers(1, n), max_size=n))) if n and draw(gen.booleans()) else frozenset()
    )
    return Scenario(n=n, breaks=breaks, untestable=untestable)


@dataclass
class Checked:
    """A strategy that checks each of its decisions against what it was told."""

    inner: st.Strategy
    calls: int = 0

    def decide(self, known: st.Knowledge) -> st.Decision:
        self.calls += 1
        assert self.calls < 5000, "does not end"
        decision = self.inner.decide(known)
        good, bad = st.Verdict.GOOD, st.Verdict.BAD
        match decision:
            case st.Probe(positions):
                assert positions
                assert list(positions) == sorted(set(positions))
                assert not set(positions) & set(known.verdicts), "probes what is known"
                assert all(0 <= position <= known.n for position in positions)
            case st.Culprit(position):
                assert known.verdicts[position] is bad
                assert known.verdicts[position - 1] is good
            case st.Range(low, high):
                assert known.verdicts[low] is good
                assert known.verdicts[high] is bad
                assert high > low + 1
                inside = [known.verdicts.get(p) for p in range(low + 1, high)]
                assert {inside[0], inside[-1]} == {st.Verdict.UNTESTABLE}
                assert set(inside) <= {st.Verdict.UNTESTABLE, None}
                assert None not in inside or len(inside) - inside.count(None) >= st.give_up_after(len(inside))
            case st.Done(position):
                assert position == known.n
                assert known.verdicts[position] is good
            case st.BaseBroken(position):
                assert known.verdicts[0] is not good
                assert known.verdicts[position] is bad
            case st.Stuck(position):
                assert known.verdicts.get(position, good) is not bad
                assert known.verdicts[known.n] is st.Verdict.UNTESTABLE
        reached = self.reached(known)
        assert reached == 0 or known.verdicts[reached] is good
        return decision

    def reached(self, known: st.Knowledge) -> int:
        return self.inner.reached(known)


@pytest.mark.parametrize("strategy", ALL, ids=repr)
@given(world=worlds())
def test_ends_names_every_break_that_persists_and_claims_no_more(strategy: st.Strategy, world: Scenario) -> None:
    outcome = replay(world, Checked(strategy))
    assert set(outcome.culprits) <= set(world.breaks)
    assert len(outcome.culprits) == len(set(outcome.culprits))
    if not outcome.finished:
        return  # untestable to the end: nothing is claimed of what lies there
    for start, healed in world.breaks.items():
        if healed is None:
            assert start in outcome.culprits or any(low < start <= high for low, high in outcome.ranges)


@given(world=worlds())
def test_linear_names_the_breaks_that_heal_by_themselves_too(world: Scenario) -> None:
    world = Scenario(n=world.n, breaks=world.breaks)  # all testable
    visible = {
        start
        for start in world.breaks
        if not any(s < start and (h is None or h > start) and s not in world.breaks for s, h in world.breaks.items())
    }
    assert set(replay(world, st.Linear()).culprits) == visible


@pytest.mark.parametrize("strategy", ALL, ids=repr)
def test_one_retry_keeps_flaky_tests_from_naming_culprits(strategy: st.Strategy) -> None:
    false = {0: 0, 2: 0}
    for retries in false:
        for seed in range(40):
            world = Scenario(n=60, breaks={20: None}, flaky=0.05)
            outcome = replay(world, strategy, retries=retries, confirm=False, generator=random.Random(seed))
            false[retries] += outcome.false_culprits
    assert false[2] < false[0]


def test_position_zero_is_tested_only_when_an_answer_rests_on_it() -> None:
    bad_at_one = st.Knowledge(5, {1: st.Verdict.BAD})
    assert st.Adaptive().decide(bad_at_one) == st.Probe((0,))
    assert st.Linear().decide(bad_at_one) == st.Probe((0,))
    both = st.Knowledge(5, {0: st.Verdict.GOOD, 1: st.Verdict.BAD})
    assert st.Adaptive().decide(both) == st.Culprit(1)
    assert 0 not in [p for d in [st.Adaptive().decide(st.Knowledge(5))] if isinstance(d, st.Probe) for p in d.positions]


@pytest.mark.parametrize("width", [1, 8])
def test_a_long_stretch_that_cannot_be_tested_is_not_tried_to_its_end(width: int) -> None:
    n = 465
    outcome = replay(Scenario(n=n, breaks={300: None}, untestable=frozenset(range(20, 440))), st.Adaptive(width=width))
    assert outcome.ranges == [(19, 440)]
    assert outcome.rounds < 60


def test_likely_commits_draw_the_probe() -> None:
    risks = [0.01] + [0.001] * 9 + [0.5] + [0.001] * 10
    known = st.Knowledge(20, {0: st.Verdict.GOOD, 20: st.Verdict.BAD}, risks)
    decision = st.Adaptive().decide(known)
    assert isinstance(decision, st.Probe)
    assert decision.positions[0] in (9, 10)


def test_unknown_strategy_is_refused() -> None:
    refused(lambda: st.make_strategy("fastest"), "option-invalid")


def test_rates_are_learned() -> None:
    rate = st.BreakRate()
    assert rate.after(commits=100, breaks=10).mean() > rate.mean()
    assert rate.after(commits=100, breaks=0).mean() < rate.mean()
    assert rate.after(commits=100, breaks=10) == st.BreakRate(rate.breaks + 10, rate.passes + 90)
    assert st.estimate_tests(st.Knowledge(100), st.Adaptive()) < st.estimate_tests(st.Knowledge(100), st.Linear()) / 2


def test_a_probe_above_a_failure_or_below_a_success_tells_nothing() -> None:
    good, bad = st.Verdict.GOOD, st.Verdict.BAD
    telling = {
        (0, 4, 9): [5, 6, 7, 8],
        (0, 4): list(range(5, 13)),
        (9,): list(range(9)),  # the base, too, as long as nothing good is known
        (): list(range(13)),
    }
    for known, positions in telling.items():
        verdicts = {position: bad if position == 9 else good for position in known}
        assert [p for p in range(13) if st.tells(st.Knowledge(12, verdicts), p)] == positions
    assert not [p for p in range(13) if st.tells(st.Knowledge(12, {0: bad}), p)]


def test_a_round_has_fewer_probes_where_they_tell_little() -> None:
    good = {0: st.Verdict.GOOD}
    many = st.Adaptive(width=8).decide(st.Knowledge(200, good, [0.05] * 201))
    few = st.Adaptive(width=8).decide(st.Knowledge(12, good, [0.001] * 13))
    assert isinstance(many, st.Probe)
    assert isinstance(few, st.Probe)
    assert len(many.positions) == 8
    assert few.positions[-1] == 12
    assert len(few.positions) < 8
