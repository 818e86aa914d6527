"""How sure it is that a commit which failed is broken, where smoke tests also fail for no reason: pure functions.

A commit that breaks the downstream fails every attempt, a good one fails each with a probability q. What q may be is
seen in the tests that passed: how often each had failed before. So the chance that a commit is good although it has
failed m times is, by Bayes' rule, q to the power m against the prior chance that it is broken.

A break that fails only sometimes looks like a good commit; no number of attempts at a failure can show it.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from mlir_release.ground.strategy import BaseBroken, Culprit, Decision, Knowledge, Range, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: A walk names a commit once the chance that it is good is below this.
LIMIT = 0.01

#: Failures after which a commit is named in any case: a test that needs more says little.
MOST_ATTEMPTS = 20

#: Values of q and how likely each is before any test: four of five smoke tests never fail for no reason, and the others
#: do so rarely. Chosen by simulation: on walks without such failures one confirmation is enough in 99 of 100 cases.
_RATES = [1e-4, *((step + 0.5) / 100 for step in range(100))]
_PRIOR = [4 * sum((1 - rate) ** 6 for rate in _RATES[1:]), *((1 - rate) ** 6 for rate in _RATES[1:])]


def blamed(known: Knowledge, decision: Decision) -> int | None:
    """The position whose failure ``decision`` rests on; None: it blames nothing."""
    match decision:
        case Culprit(bad) | Range(_, bad):
            return bad
        case BaseBroken(bad):
            return 0 if known.verdicts.get(0) is Verdict.BAD else bad
        case _:
            return None


def attempts_wanted(
    known: Knowledge,
    decision: Decision,
    failures: Mapping[int, int],
    passed: Sequence[int],
    *,
    attempts: int,
    confirmations: int = MOST_ATTEMPTS,
) -> int:
    """How often the commit that ``decision`` blames must have failed before it is named; 0: it blames none.

    At least once more than other commits, and so often that the chance of a false culprit is below :data:`LIMIT`. As
    long as no test of the walk has passed only on a retry, it is twice more at most.

    :param failures: how often each position that tested bad has failed, at least once
    :param passed: how often each test that passed had failed before, in the whole walk
    :param attempts: how many failures make a commit bad
    :param confirmations: no more than so many beyond these
    """
    bad = blamed(known, decision)
    if bad is None:
        return 0
    most = max(MOST_ATTEMPTS, attempts + 1) if any(passed) else attempts + 2
    most = min(most, attempts + confirmations)
    for wanted in range(attempts + 1, most):
        if false_chance(known, decision, {**failures, bad: wanted}, passed, attempts) < LIMIT:
            return wanted
    return most


def false_chance(
    known: Knowledge, decision: Decision, failures: Mapping[int, int], passed: Sequence[int], attempts: int
) -> float:
    """The chance that the commit which ``decision`` blames is good. The parameters: see :func:`attempts_wanted`."""
    bad = blamed(known, decision)
    if bad is None:
        return 0.0
    good = decision.good if isinstance(decision, Range) else -1 if isinstance(decision, BaseBroken) else bad - 1
    # With that commit good, each later failure is one for no reason, too, or a break between the two explains it.
    ends = [bad, *sorted(position for position in failures if position > bad)]
    spans = zip([good, *ends], ends, strict=False)  # the prior chance that a commit in each breaks the downstream
    broken = [-math.expm1(sum(math.log1p(-known.risk(at)) for at in range(low + 1, high + 1))) for low, high in spans]
    counted = Counter(passed)
    beliefs = []
    for rate, prior in zip(_RATES, _PRIOR, strict=True):
        belief = math.log(prior)
        for before, times in counted.items():
            seen = max(attempts, before + 1)  # with as many failures it had not been seen to pass
            belief += times * (before * math.log(rate) + math.log1p(-rate) - math.log1p(-(rate**seen)))
        beliefs.append(belief)
    most = max(beliefs)
    weights = [math.exp(belief - most) for belief in beliefs]
    whole, false = sum(weights), 0.0
    for rate, weight in zip(_RATES, weights, strict=True):
        later = 1.0
        for end, chance in zip(reversed(ends[1:]), reversed(broken[1:]), strict=True):
            later = chance + (1 - chance) * rate ** failures[end] * later
        false += weight / whole * (1 - broken[0]) * rate ** failures[bad] * later
    return false / (false + broken[0])
