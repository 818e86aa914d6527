"""When a difference is more than chance."""

from __future__ import annotations

import numpy as np
import pytest

from mlir_release.extras.mlgo.evaluate import change


def noisy(shift: float, spread: float, count: int = 40) -> tuple[list[float], list[float]]:
    random = np.random.default_rng(11)
    default = random.uniform(50, 500, count)
    return default.tolist(), (default * (1 + shift + random.normal(0, spread, count))).tolist()


def test_the_totals_are_compared() -> None:
    found = change([100, 300], [90, 290], seed=1)
    assert (found.default, found.policy) == (400, 380)
    assert found.relative == pytest.approx(-0.05)


def test_a_shift_larger_than_the_noise_is_seen() -> None:
    assert change(*noisy(-0.05, 0.02), seed=1).better
    assert change(*noisy(+0.05, 0.02), seed=1).worse


def test_a_shift_within_the_noise_is_not() -> None:
    found = change(*noisy(-0.005, 0.1), seed=1)
    assert not found.better
    assert not found.worse
    assert found.low < found.relative < found.high


def test_pairs_stay_together() -> None:
    """Modules differ a hundredfold, and each is 1 % better: without pairs that would be noise."""
    default = [float(10 ** (index % 3)) for index in range(30)]
    found = change(default, [0.99 * value for value in default], seed=1)
    assert found.low == pytest.approx(found.high) == pytest.approx(-0.01)


def test_equal_ones_are_neither() -> None:
    found = change([5, 0, 7], [5, 0, 7], seed=1)
    assert (found.low, found.high, found.better, found.worse) == (0, 0, False, False)


def test_the_seed_decides_the_interval() -> None:
    given = noisy(0, 0.1)
    assert change(*given, seed=1) == change(*given, seed=1)
    assert change(*given, seed=1) != change(*given, seed=2)


def test_modules_without_cost_are_no_division_by_zero() -> None:
    assert change([0, 0], [0, 0], seed=1).relative == 0
