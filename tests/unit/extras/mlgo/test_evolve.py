"""The evolution strategy, on a landscape whose top is known."""

from __future__ import annotations

import numpy as np
import pytest

from mlir_release.extras.mlgo.documents import Training
from mlir_release.extras.mlgo.evolve import advanced, candidates
from tests.unit.extras.mlgo.policy_factory import training

TOP = np.array([0.5, -0.3, 0.0, 0.2, -0.1])


def rewards(state: Training) -> list[float]:
    return [-float(((weights - TOP) ** 2).sum()) for weights in candidates(state)]


def evolved(state: Training, generations: int) -> Training:
    for _ in range(generations):
        state = advanced(state, rewards(state))
    return state


def test_it_climbs() -> None:
    done = evolved(training(), 60)
    assert done.rewards[0] == pytest.approx(-float((TOP**2).sum()))
    assert max(done.rewards) > -0.02
    assert -float(((np.array(done.best) - TOP) ** 2).sum()) == max(done.rewards)


def test_the_centre_comes_first_and_pairs_are_antithetic() -> None:
    centre, *pairs = candidates(training(weights=(1.0, 2.0, 3.0, 4.0, 5.0)))
    assert centre.tolist() == [1, 2, 3, 4, 5]
    assert len(pairs) == 6
    assert np.allclose((pairs[0] + pairs[1]) / 2, centre)
    assert not np.allclose(pairs[0], pairs[2])


def test_generations_try_different_changes() -> None:
    state = training()
    assert not np.allclose(candidates(state)[1], candidates(evolved(state, 1))[1] - evolved(state, 1).weights)


def test_a_state_that_was_written_and_read_goes_on_as_if_it_had_not_been() -> None:
    state = evolved(training(), 3)
    read = Training.from_text(state.to_text(), where="here")
    assert read == state
    assert evolved(read, 4).to_text() == evolved(training(), 7).to_text()


def test_rewards_count_by_rank() -> None:
    state = training()
    values = rewards(state)
    assert (
        advanced(state, values).weights == advanced(state, [values[0], *(1000 * value for value in values[1:])]).weights
    )


def test_one_pair_is_enough() -> None:
    import msgspec

    state = training()
    state = msgspec.structs.replace(state, settings=msgspec.structs.replace(state.settings, pairs=1))
    assert np.isfinite(advanced(state, rewards(state)).weights).all()
