"""A policy learns what another chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from mlir_release.extras.mlgo.imitate import _gradient, agreement, examples, imitate
from mlir_release.extras.mlgo.policies import scores, weight_count
from tests.unit.extras.mlgo.policy_factory import decision

if TYPE_CHECKING:
    from mlir_release.extras.mlgo.documents import Kind
    from mlir_release.extras.mlgo.features import Decision


def recorded(count: int = 80) -> list[tuple[Decision, int]]:
    """Decisions among two to five rows; the smallest of the fourth feature is chosen."""
    random = np.random.default_rng(3)
    found = []
    for _ in range(count):
        rows = random.normal(size=(random.integers(2, 6), 5))
        found.append((decision(*rows), int(rows[:, 3].argmin())))
    return found


@pytest.mark.parametrize(("kind", "hidden", "at_least"), [("linear", 0, 0.97), ("mlp", 4, 0.95)])
def test_the_choices_are_learnt(kind: Kind, hidden: int, at_least: float) -> None:
    given = examples(recorded(), np.zeros(5), np.ones(5))
    weights = imitate(kind, hidden, given, seed=1)
    assert agreement(kind, hidden, weights, given) >= at_least
    assert np.array_equal(weights, imitate(kind, hidden, given, seed=1))


@pytest.mark.parametrize(("kind", "hidden"), [("linear", 0), ("mlp", 3)])
def test_the_gradient_is_that_of_the_likelihood(kind: Kind, hidden: int) -> None:
    given = examples(recorded(12), np.zeros(5), np.ones(5))
    weights = np.random.default_rng(5).normal(0, 0.3, weight_count(kind, 5, hidden))

    def likelihood(at: np.ndarray) -> float:
        values = np.where(given.real, scores(kind, hidden, at, given.rows), -np.inf)
        chosen = values[np.arange(len(given.chosen)), given.chosen.astype(int)]
        return float((chosen - np.log(np.exp(values).sum(axis=1))).mean())

    step = 1e-6
    measured = [
        (likelihood(weights + step * unit) - likelihood(weights - step * unit)) / (2 * step)
        for unit in np.eye(len(weights))
    ]
    assert _gradient(kind, hidden, weights, given) == pytest.approx(measured, abs=1e-6)


def test_rows_that_pad_a_decision_are_never_chosen() -> None:
    given = examples(
        [(decision([-5, 0, 0, 0, 0]), 0), (decision([-5, 0, 0, 0, 0], [-6, 0, 0, 0, 0]), 0)], np.zeros(5), np.ones(5)
    )
    assert agreement("linear", 0, np.array([1.0, 0, 0, 0, 0]), given) == 1
