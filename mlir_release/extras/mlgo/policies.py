"""Policies: each computes, from its weights, a score for each choice of a decision.

Weights are one flat vector. Linear: one a feature. ``mlp``: of the hidden layer (features × hidden, row by row), its
``hidden`` biases, and the ``hidden`` weights of its units in the score. A bias of the score would change nothing.

A policy that is embedded in a compiler must choose exactly as here. So scores are computed in double precision, by the
four operations that IEEE 754 defines to the last bit, in an order that the C++ of :mod:`.embed` repeats. A hidden unit
is x / (1 + |x|), because tanh differs from library to library. Sums go from the first term to the last, which those of
BLAS do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlir_release.extras.mlgo.documents import Kind, LearnedPolicy
from mlir_release.ground.errors import VerificationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mlir_release.extras.mlgo.features import Chooser, Decision, Layout, Maker
    from mlir_release.extras.mlgo.training.saved_model import SavedModel

    Floats = NDArray[np.float64]


def maker(policy: LearnedPolicy | SavedModel) -> Maker:
    """Makes the chooser for a compiler, which raises VerificationError ``model-unsuitable`` if they do not fit."""
    return (Scorer(policy) if isinstance(policy, LearnedPolicy) else policy).answering


def weight_count(kind: Kind, features: int, hidden: int) -> int:
    """The length of the vector of weights."""
    return features if kind == "linear" else (features + 2) * hidden


def scores(kind: Kind, hidden: int, weights: Floats, rows: Floats) -> Floats:
    """The score of each row.

    :param rows: (…, features), standardized
    :returns: (…)
    """
    if kind == "linear":
        return _weighted(rows, weights)
    inner, bias, outer = split(hidden, weights)
    return _weighted(activation(_weighted(rows, inner) + bias), outer)


def activation(values: Floats) -> Floats:
    """Of hidden units, between -1 and 1."""
    result: Floats = values / (1 + np.abs(values))
    return result


def _weighted(rows: Floats, weights: Floats) -> Floats:
    """Rows (…, terms) times weights (terms) or (terms, units), summed from the first term to the last."""
    total: Floats
    if rows.ndim == 2 and weights.ndim == 1:  # one decision of a compiler that waits: this takes a sixth of the time
        total = np.add.accumulate(rows * weights, axis=1)[:, -1]
        return total
    total = np.multiply.outer(rows[..., 0], weights[0])
    for term in range(1, len(weights)):
        total = total + np.multiply.outer(rows[..., term], weights[term])
    return total


def split(hidden: int, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """The parts of an ``mlp``'s weights: (features, hidden), (hidden), (hidden)."""
    inner = weights[: -2 * hidden].reshape(-1, hidden)
    return inner, weights[-2 * hidden : -hidden], weights[-hidden:]


class Scorer:
    """A policy that answers: the highest score is taken, of equal ones the first."""

    def __init__(self, policy: LearnedPolicy) -> None:
        """Read the policy of a document.

        :raises VerificationError: ``model-unsuitable``
        """
        count = len(policy.features)
        wanted = weight_count(policy.kind, count, policy.hidden)
        if len(policy.weights) != wanted or {len(policy.mean), len(policy.deviation)} != {count}:
            raise VerificationError(
                "model-unsuitable",
                f"the policy has {len(policy.weights)} weights for {count} features, and must have {wanted}",
                remedy="take the policy.json that `mlir-release mlgo train` wrote, unchanged",
            )
        self._policy, self._weights = policy, np.array(policy.weights)
        self._mean, self._deviation = np.array(policy.mean), np.array(policy.deviation)

    def answering(self, layout: Layout) -> Chooser:
        """Itself, for a compiler that has its features. :raises VerificationError: ``model-unsuitable``"""
        layout.expect(self._policy.features)
        return self

    def __call__(self, decision: Decision) -> int:
        """The row that is chosen."""
        rows = (decision.rows - self._mean) / self._deviation
        return int(np.argmax(scores(self._policy.kind, self._policy.hidden, self._weights, rows)))


def observed(decision: Decision) -> int:
    """The default's choice, where the compiler tells it."""
    assert decision.default is not None
    return decision.default


class Heuristic:
    """The order of LLVM's own heuristic, as far as the features show it.

    Positions come in the order of allocation, in which hints are first. One may be taken if all its ranges are lighter
    than the one that asks; an urgent one, that must have a register, takes any. Each that is better than the best so
    far replaces it: it has fewer urgent evictions, then breaks fewer hints, then is lighter. After the first, one that
    has local ranges of the same block isn't taken. A free register is always taken, and a hint ends the search. If none
    may be taken, nothing is evicted. Source: tryFindEvictionCandidate and canEvictInterferenceBasedOnCost in
    llvm/lib/CodeGen/RegAllocEvictionAdvisor.cpp.

    The features hide one thing: if a range that can't be spilled is among the choices, all finite weights are 0.
    """

    _SEEN = ("is_free", "is_hint", "nr_urgent", "nr_broken_hints", "is_local", "use_def_density", "evicts_nothing")

    def __init__(self, features: Sequence[str]) -> None:
        column = {name: column for column, name in enumerate(features)}
        self._columns = [column[name] for name in self._SEEN]

    def __call__(self, decision: Decision) -> int:
        """The row that is chosen."""
        rows = decision.rows[:, self._columns].tolist()
        nothing = next((index for index, row in enumerate(rows) if row[-1]), None)
        own = np.inf if nothing is None else rows[nothing][-2]
        best, lowest = nothing, (np.inf, np.inf, np.inf)
        for index, (free, hint, urgent, broken, local, weight, _) in enumerate(rows):
            if index == nothing:
                continue
            cost = (-1.0, 0.0, 0.0) if free else (urgent, broken, weight)
            allowed = nothing is None or (weight < own and not (local and best != nothing))
            if free or (cost < lowest and allowed):
                best, lowest = index, cost
                if hint:
                    break
        return 0 if best is None else best
