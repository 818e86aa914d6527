"""What is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from mlir_release.extras.mlgo.policies import Heuristic, Scorer, scores, split, weight_count
from tests.extras.unit.mlgo.policy_factory import FEATURES, decision, policy
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mlir_release.extras.mlgo.documents import Kind
    from mlir_release.extras.mlgo.policies import Floats


def test_a_linear_policy_takes_the_highest_score_and_of_equal_ones_the_first() -> None:
    scorer = Scorer(policy([0, 0, 0, -1, 0]))
    assert scorer(decision([0, 0, 0, 0.5, 0], [0, 0, 0, 0.25, 0], [0, 0, 0, 0.25, 1])) == 1


def test_features_are_standardized() -> None:
    given = policy([1, 1, 0, 0, 0], mean=(0.0, 10.0, 0.0, 0.0, 0.0), deviation=(1.0, 100.0, 1.0, 1.0, 1.0))
    assert Scorer(given)(decision([0, 60, 0, 0, 0], [1, 10, 0, 0, 0])) == 1


def test_an_mlp_scores_by_its_hidden_layer() -> None:
    inner, bias, outer = [[1.0, 0.0], [0.0, 1.0]], [0.0, 0.5], [2.0, -1.0]
    weights = np.array([*inner[0], *inner[1], *bias, *outer])
    found = scores("mlp", 2, weights, np.array([[0.3, 0.7]]))
    assert found == pytest.approx([2 * 0.3 / 1.3 - 1.2 / 2.2])
    assert weight_count("mlp", 2, 2) == len(weights)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_scores_are_summed_from_the_first_term_to_the_last(kind: Kind) -> None:
    """To the last bit, of one decision as of many: an embedded policy computes them so."""
    random = np.random.default_rng(1)
    rows, weights = random.normal(size=(40, 21)), random.normal(size=weight_count(kind, 21, 5))
    inner, bias, outer = split(5, weights) if kind == "mlp" else (np.zeros((21, 0)), np.zeros(0), weights)

    def summed(terms: Iterable[float]) -> float:
        total = 0.0
        for term in terms:
            total += term
        return total

    def score(row: Floats) -> float:
        sums = [summed(row * unit) + offset for unit, offset in zip(inner.T, bias, strict=True)]
        values = row if kind == "linear" else np.array([value / (1 + abs(value)) for value in sums])
        return summed(values * outer)

    wanted = [score(row) for row in rows]
    assert scores(kind, 5, weights, rows).tolist() == wanted
    assert scores(kind, 5, weights, rows.reshape(8, 5, 21)).ravel().tolist() == wanted


@pytest.mark.parametrize(
    "changed", [{"features": FEATURES[1:]}, {"mean": (0.0,)}, {"deviation": ()}, {"kind": "mlp", "hidden": 3}]
)
def test_a_policy_whose_numbers_do_not_fit_is_refused(changed: dict[str, object]) -> None:
    refused(lambda: Scorer(policy([0] * 5, **changed)), "model-unsuitable")


#: Columns of the heuristic: free, hint, urgent, broken hints, local, weight, nothing.
SEEN = (
    "is_free", "is_hint", "nr_urgent", "nr_broken_hints", "is_local", "use_def_density", "evicts_nothing",
)  # fmt: skip
NOTHING = [0, 0, 0, 0, 0, 0.5, 1]


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        pytest.param([[0, 0, 0, 0, 0, 0.2, 0], [1, 0, 0, 0, 0, 0, 0], NOTHING], 1, id="a free register"),
        pytest.param([[0, 0, 0, 0, 0, 0.4, 0], [0, 0, 0, 0, 0, 0.2, 0], NOTHING], 1, id="the lightest"),
        pytest.param([[0, 0, 0, 0, 0, 0.2, 0], [0, 0, 0, 0, 0, 0.2, 0], NOTHING], 0, id="of equals the first"),
        pytest.param([[0, 0, 0, 0, 0, 0.4, 0], [0, 0, 0, 1, 0, 0.2, 0], NOTHING], 0, id="hints stay whole first"),
        pytest.param([[0, 0, 0, 0, 0, 0.6, 0], [0, 0, 0, 0, 0, 0.7, 0], NOTHING], 2, id="nothing heavier"),
        pytest.param([[0, 0, 0, 0, 0, 0.5, 0], NOTHING], 1, id="nothing as heavy"),
        pytest.param([[0, 1, 0, 0, 0, 0.7, 0], NOTHING], 1, id="a hint is no reason to evict a heavier one"),
        pytest.param([[0, 1, 0, 0, 0, 0.4, 0], [0, 0, 0, 0, 0, 0.2, 0], NOTHING], 0, id="a hint ends the search"),
        pytest.param([[0, 0, 0, 0, 0, 0.4, 0], [0, 0, 0, 0, 2, 0.2, 0], NOTHING], 0, id="no local one after another"),
        pytest.param([[0, 0, 0, 0, 2, 0.4, 0], NOTHING], 0, id="a local one if it is the first"),
        pytest.param([[0, 0, 0, 1, 0, 0.6, 0], [0, 0, 0, 0, 1, 0.7, 0]], 1, id="one must go"),
        pytest.param([[0, 0, 1, 0, 0, 0.1, 0], [0, 0, 0, 1, 0, 0.7, 0]], 1, id="urgent evictions are the last resort"),
        pytest.param([[0, 0, 0, 0, 0, 1.0, 0], [0, 0, 0, 0, 0, 1.0, 0]], 0, id="of those that must, the first"),
    ],
)
def test_the_imitated_heuristic(rows: list[list[float]], chosen: int) -> None:
    assert Heuristic(SEEN)(decision(*rows)) == chosen
