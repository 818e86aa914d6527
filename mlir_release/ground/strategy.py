"""Which commits to test next, given what is known: pure functions, no git, no clock.

Positions: 0 is the branch as it is now (its present pin and its present sources), 1..n are the affecting upstream
commits after it, oldest first. Position 0 is *assumed* good until an answer would rest on it; then it is tested like
any other. That one rule covers the start of a walk and the commit that a person has just fixed.

Breaks are searched for as in group testing (Sobel and Groll, 1959): a test at position i tells whether any commit in
(last good, i] breaks. With independent breaks of probability p_i, a test carries most information where the odds that
everything up to it is good are even; after a failure, where it halves the probability of the first break.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import accumulate, pairwise, takewhile
from typing import Protocol

import msgspec

from mlir_release.ground.errors import UsageError

#: What a round costs beside its smoke tests, in smoke tests: people wait for it, and it sets machines up. On recorded
#: walks, this comes close to the fewest rounds that eight probes can do with (0.15 of linear's smoke tests, by dynamic
#: programming); what is probed in vain is cancelled (see :func:`tells`).
ROUND_COST = 16.0
#: Break probability of a commit when nothing is known yet: in recorded integrates of real projects it is 2 to 7 %.
DEFAULT_BREAK_RATE = 0.04
#: Probability that position 0 is bad: right after a start (main is tested), and after a person's fix.
BASE_RISK_START = 0.01
BASE_RISK_FIXED = 0.08


class Verdict(StrEnum):
    """The result of a smoke test, after retries. Untestable: exit code 125, or the carried patches do not apply."""

    GOOD = "good"
    BAD = "bad"
    UNTESTABLE = "untestable"


class Knowledge(msgspec.Struct, frozen=True):
    """What is known of positions 0..n.

    :param n: number of affecting commits ahead
    :param verdicts: by position; a position that is not in it is untested
    :param risks: break probability by position, ``n + 1`` of them, each in (0, 1); empty: the defaults
    """

    n: int
    verdicts: Mapping[int, Verdict] = msgspec.field(default_factory=dict)
    risks: Sequence[float] = ()

    def risk(self, position: int) -> float:
        """The break probability of one position."""
        if self.risks:
            return self.risks[position]
        return DEFAULT_BREAK_RATE if position else BASE_RISK_START


class Probe(msgspec.Struct, frozen=True):
    """Test these positions, side by side if there is room; ascending, never empty, never one that has a verdict."""

    positions: tuple[int, ...]


class Culprit(msgspec.Struct, frozen=True):
    """A verified edge: ``position`` tested bad, ``position - 1`` tested good."""

    position: int


class Range(msgspec.Struct, frozen=True):
    """``good`` tested good and ``bad`` tested bad; in between, nothing that was tried could be tested: neither edge,
    nor as many as :func:`give_up_after` says.
    """

    good: int
    bad: int


class BaseBroken(msgspec.Struct, frozen=True):
    """Position 0 itself tests bad, or can't be tested while ``bad`` fails: no upstream commit ahead is to blame."""

    bad: int


class Stuck(msgspec.Struct, frozen=True):
    """``good`` is the last good position and nothing tested after it could be tested, the head included."""

    good: int


class Done(msgspec.Struct, frozen=True):
    """The head tested good."""

    position: int


Decision = Probe | Culprit | Range | BaseBroken | Stuck | Done


class Strategy(Protocol):
    """Decides from knowledge alone, so that any machine that knows the same decides the same."""

    def decide(self, known: Knowledge) -> Decision:
        """The next probes, or the end of this stretch of the walk."""

    def reached(self, known: Knowledge) -> int:
        """The position that the branch may advance to: the strategy allows it, and it tested good (or is 0)."""


# -- the parts that strategies share -----------------------------------------------------------------------------------


class Bracket(msgspec.Struct, frozen=True):
    """The search interval: ``low`` is the last good (or assumed good) position, ``high`` the first bad after it."""

    low: int
    high: int | None


def bracket(known: Knowledge) -> Bracket:
    """The bracket for strategies that may skip breaks that upstream fixed: above the newest good position."""
    low = max((position for position, verdict in known.verdicts.items() if verdict is Verdict.GOOD), default=0)
    bad = [p for p, verdict in known.verdicts.items() if verdict is Verdict.BAD and (p > low or p == low == 0)]
    return Bracket(low, min(bad, default=None))


def tells(known: Knowledge, position: int) -> bool:
    """Whether a verdict at ``position`` could still matter: it lies where the search goes on."""
    here = bracket(known)
    if position == here.low == 0:
        return 0 not in known.verdicts
    return here.low < position and (here.high is None or position < here.high)


def verified_end(known: Knowledge, low: int, high: int) -> Decision:
    """The answer once nothing testable is left between ``low`` and ``high``, resting on tested positions only."""
    if high == 0:
        return BaseBroken(0)
    base = known.verdicts.get(low)
    if base is None:
        return Probe((low,))
    if base is not Verdict.GOOD:
        return BaseBroken(high)
    return Culprit(high) if high == low + 1 else Range(low, high)


def _gave_up(known: Knowledge, low: int, top: int) -> bool:
    """Whether neither ``low + 1``, nor ``top``, nor enough between can be tested (see :func:`give_up_after`).

    A long stretch that can't be tested is not tried commit by commit to its end.
    """
    tried = [p for p in range(low + 1, top + 1) if known.verdicts.get(p) is Verdict.UNTESTABLE]
    if not tried or tried[0] != low + 1 or tried[-1] != top:
        return False
    return len(tried) >= min(top - low, give_up_after(top - low))


def give_up_after(commits: int) -> int:
    """How many of ``commits`` in a row are tried before they are taken to be untestable."""
    return 2 + 2 * math.ceil(math.log2(commits + 1))


# -- the strategies ----------------------------------------------------------------------------------------------------


class Linear(msgspec.Struct, frozen=True):
    """One commit after the other: names every break, even one that upstream fixes later."""

    def decide(self, known: Knowledge) -> Decision:
        """The first position without a verdict, unless a bad one comes before it."""
        low = 0
        for position in range(known.n + 1):
            verdict = known.verdicts.get(position)
            if verdict is Verdict.BAD:
                return verified_end(known, low, position)
            if verdict is Verdict.GOOD:
                low = position
            elif verdict is None and (position > 0 or known.n == 0):
                return Probe((position,))
        return Done(low) if low == known.n and known.verdicts.get(low) is Verdict.GOOD else Stuck(low)

    def reached(self, known: Knowledge) -> int:
        """The last good position with nothing bad or untested before it."""
        passed = (Verdict.GOOD, Verdict.UNTESTABLE)
        settled = takewhile(lambda position: known.verdicts.get(position) in passed, range(1, known.n + 1))
        return max((position for position in settled if known.verdicts[position] is Verdict.GOOD), default=0)


class Adaptive(msgspec.Struct, frozen=True):
    """Up to ``width`` probes a round, placed where their answers carry most information under the risks.

    ``head_first`` makes it the classic: test the head; if that fails, bisect.
    """

    width: int = 1
    head_first: bool = False

    def decide(self, known: Knowledge) -> Decision:
        """See :class:`Strategy`."""
        here = bracket(known)
        low, high = here.low, here.high
        top = known.n if high is None else high - 1
        base_open = low == 0 and 0 not in known.verdicts
        ahead = [position for position in range(low + 1, top + 1) if position not in known.verdicts]
        if high is not None:
            if not ahead or _gave_up(known, low, top):
                return verified_end(known, low, high)
        elif low == known.n:
            return Done(low) if known.verdicts.get(low) is Verdict.GOOD else Probe((0,)) if base_open else Stuck(low)
        elif not ahead or _gave_up(known, low, top):
            return Stuck(low)
        elif self.head_first and known.n in ahead:
            return Probe((known.n,))
        if base_open and high is not None:
            ahead = [0, *ahead]
        return Probe(choose(known, here, ahead, self.width))

    def reached(self, known: Knowledge) -> int:
        """The newest good position: a break before it that upstream has fixed is no obstacle."""
        return bracket(known).low


def choose(known: Knowledge, here: Bracket, candidates: Sequence[int], width: int) -> tuple[int, ...]:
    """Up to ``width`` of ``candidates`` (ascending, not empty) that cut the distribution of the first break evenly.

    As many as tell most for what they cost, which is themselves and the round (see :data:`ROUND_COST`).
    """
    start = here.low if here.low in known.verdicts else here.low - 1
    last = known.n if here.high is None else here.high
    # The chance that every commit up to a position is good, as logarithm; expm1 keeps small risks exact.
    survival = [0.0, *accumulate(math.log1p(-known.risk(position)) for position in range(start + 1, last + 1))]
    broken = [-math.expm1(value) for value in survival]

    def worth(chosen: tuple[int, ...]) -> float:
        edges = [0.0, *(broken[position - start] for position in chosen), broken[-1]]
        shares = [after - before for before, after in pairwise(edges)]
        if here.high is None:  # what the last probe does not reach, and no break at all, look alike
            shares[-1] = 1.0 - edges[-2]
        whole = sum(shares)
        bits = -sum(share / whole * math.log2(share / whole) for share in shares if share > 0)
        return bits / (ROUND_COST + len(chosen))

    counts = range(1, min(width, len(candidates)) + 1)
    return max((_evenly(known, here, candidates, count, broken[1:], start) for count in counts), key=worth)


def _evenly(
    known: Knowledge, here: Bracket, candidates: Sequence[int], count: int, broken: Sequence[float], start: int
) -> tuple[int, ...]:
    """``count`` of ``candidates`` at even steps of ``broken``: the chance that a break lies up to each position."""
    if len(candidates) <= count:
        return tuple(candidates)
    reach = broken[-1] if here.high is not None else min(broken[-1], count / (count + 1))
    parts = count + 1 if here.high is not None else count
    chosen: set[int] = set()
    for part in range(1, count + 1):
        target = reach * part / parts
        index = bisect_left(broken, target * (1 - 1e-12))
        if index > 0 and target - broken[index - 1] < broken[index] - target:
            index -= 1
        chosen.add(_nearest(known, here, [c for c in candidates if c not in chosen], start + 1 + index))
    return tuple(sorted(chosen))


def _nearest(known: Knowledge, here: Bracket, candidates: Sequence[int], ideal: int) -> int:
    """The candidate to test for ``ideal``: itself, or a neighbour; away from commits that can't be tested.

    Where the ideal is untestable its neighbours probably are, too: step away by doubling distances, first down (an
    advance is an advance), once the next commit is known to be untestable up.
    """
    index = bisect_left(candidates, ideal)
    if index < len(candidates) and candidates[index] == ideal:
        return ideal
    if known.verdicts.get(ideal) is not Verdict.UNTESTABLE:
        around = candidates[max(0, index - 1) : index + 1]
        return min(around, key=lambda candidate: abs(candidate - ideal))
    top = known.n + 1 if here.high is None else here.high
    failed = sum(1 for p, v in known.verdicts.items() if v is Verdict.UNTESTABLE and here.low < p < top)
    step = 1 << min(failed - 1, 30)
    if known.verdicts.get(here.low + 1) is Verdict.UNTESTABLE:
        return candidates[min(bisect_left(candidates, ideal + step), len(candidates) - 1)]
    return candidates[max(bisect_left(candidates, ideal - step + 1) - 1, 0)]


def make_strategy(name: str, width: int = 1) -> Strategy:
    """``linear``, ``head``, ``adaptive`` (default) or ``parallel`` (adaptive, 8 wide by default)."""
    if name not in STRATEGIES:
        raise UsageError(
            "option-invalid",
            f"there is no strategy called {name!r}",
            remedy=f"use one of: {', '.join(STRATEGIES)}",
        )
    if name == "linear":
        return Linear()
    if name == "parallel" and width == 1:
        width = 8
    return Adaptive(width=width, head_first=name == "head")


STRATEGIES = ("linear", "head", "adaptive", "parallel")


class BreakRate(msgspec.Struct, frozen=True):
    """The break probability, estimated from earlier walks of the same downstream: a Beta distribution's two counts."""

    breaks: float = 1.0
    passes: float = 25.0

    def mean(self) -> float:
        """The expected break probability of the next commit."""
        return self.breaks / (self.breaks + self.passes)

    def after(self, *, commits: int, breaks: int) -> BreakRate:
        """The same, having seen ``commits`` affecting commits more, ``breaks`` of which broke the downstream."""
        return BreakRate(self.breaks + breaks, self.passes + max(0, commits - breaks))


def risks(rate: BreakRate, factors: Sequence[float], *, fixed: bool) -> list[float]:
    """Break probability by position, for ``len(factors)`` commits.

    :param factors: how many times likelier than the average each commit is to break the downstream; 1: nothing known
    :param fixed: whether position 0 is a person's fix
    """
    mean = rate.mean()
    base_risk = BASE_RISK_FIXED if fixed else BASE_RISK_START
    return [base_risk, *(min(0.95, max(1e-6, mean * factor)) for factor in factors)]


def estimate_tests(known: Knowledge, strategy: Strategy) -> float:
    """Expected number of smoke tests to the head: the information in the untested commits, and one re-test a break."""
    low = bracket(known).low
    chances = [known.risk(position) for position in range(low + 1, known.n + 1)]
    if isinstance(strategy, Linear):
        return sum(1 + chance for chance in chances)
    bits = sum(-p * math.log2(p) - (1 - p) * math.log2(1 - p) for p in chances)
    return max(bits + sum(chances), 1.0 if chances else 0.0)
