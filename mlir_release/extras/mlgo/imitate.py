"""Behavioural cloning: weights of a policy that chooses as another did, from decisions that were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mlir_release.extras.mlgo.evolve import Adam
from mlir_release.extras.mlgo.policies import activation, scores, split, weight_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from mlir_release.extras.mlgo.documents import Kind
    from mlir_release.extras.mlgo.features import Decision
    from mlir_release.extras.mlgo.policies import Floats

_STEPS = 400
_RATE = 0.05


class Examples(NamedTuple):
    """Decisions, padded to the same number of rows.

    :param rows: (decisions, positions, features), standardized
    :param real: (decisions, positions): whether there is such a position
    :param chosen: (decisions): an index of a position
    """

    rows: Floats
    real: NDArray[np.bool_]
    chosen: NDArray[np.int64]


def examples(recorded: Sequence[tuple[Decision, int]], mean: Floats, deviation: Floats) -> Examples:
    """Bring decisions, and what was chosen, into one shape."""
    widest = max(len(decision.rows) for decision, _ in recorded)
    rows = np.zeros((len(recorded), widest, len(mean)))
    real = np.zeros((len(recorded), widest), bool)
    for index, (decision, _) in enumerate(recorded):
        rows[index, : len(decision.rows)] = (decision.rows - mean) / deviation
        real[index, : len(decision.rows)] = True
    return Examples(rows, real, np.array([chosen for _, chosen in recorded]))


def imitate(kind: Kind, hidden: int, given: Examples, *, seed: int) -> Floats:
    """The weights that make the choices most likely, by softmax over the scores and full-batch Adam."""
    features = given.rows.shape[-1]
    count = weight_count(kind, features, hidden)
    # A linear policy starts from nothing; units that begin equal would stay equal.
    start = np.zeros(count) if kind == "linear" else np.random.default_rng(seed).normal(0, 0.1, count)
    weights, adam = start, Adam.fresh(count)
    for _ in range(_STEPS):
        change, adam = adam.step(_gradient(kind, hidden, weights, given), _RATE)
        weights = weights + change
    return weights


def choices(kind: Kind, hidden: int, weights: Floats, given: Examples) -> NDArray[np.int64]:
    """What a policy chooses: an index of a position, for each decision."""
    found: NDArray[np.int64] = np.where(given.real, scores(kind, hidden, weights, given.rows), -np.inf).argmax(axis=1)
    return found


def agreement(kind: Kind, hidden: int, weights: Floats, given: Examples) -> float:
    """The share of the decisions in which a policy chooses the same."""
    return float((choices(kind, hidden, weights, given) == given.chosen).mean())


def _gradient(kind: Kind, hidden: int, weights: Floats, given: Examples) -> Floats:
    """Of the mean log-likelihood of the choices."""
    rows, real, chosen = given
    values = np.where(real, scores(kind, hidden, weights, rows), -np.inf)
    likely = np.exp(values - values.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    surplus = -likely
    surplus[np.arange(len(chosen)), chosen] += 1
    surplus /= len(chosen)
    if kind == "linear":
        linear: Floats = np.einsum("dp,dpf->f", surplus, rows)
        return linear
    inner, bias, outer = split(hidden, weights)
    active = activation(rows @ inner + bias)
    back = surplus[:, :, None] * outer * (1 - np.abs(active)) ** 2
    return np.concatenate(
        [np.einsum("dpf,dph->fh", rows, back).ravel(), back.sum(axis=(0, 1)), np.einsum("dp,dph->h", surplus, active)]
    )
