"""An evolution strategy: which weights to try next, from the rewards of those tried. Pure: compiling is the caller's.

In a generation, pairs of policies are tried that differ from the centre by the same random change, once added and once
subtracted. The differences of their rewards estimate the gradient, which Adam follows. Source: Salimans et al.,
"Evolution Strategies as a Scalable Alternative to Reinforcement Learning", 2017; rewards count by rank, as there.
The random numbers of a generation come from the seed and its number alone, so a training that was killed goes on as if
it had not been.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.extras.mlgo.documents import Training
    from mlir_release.extras.mlgo.policies import Floats

#: Sets the random numbers that choose modules apart from those that change weights.
_MODULES = 1

_DECAY, _SQUARES_DECAY, _TINY = 0.9, 0.999, 1e-8


class Adam(NamedTuple):
    """Running means of gradients and of their squares; the number of steps that were taken."""

    first: Floats
    second: Floats
    steps: int

    @classmethod
    def fresh(cls, count: int) -> Adam:
        """Before the first step."""
        return cls(np.zeros(count), np.zeros(count), 0)

    def step(self, gradient: Floats, rate: float) -> tuple[Floats, Adam]:
        """The change that follows the gradient upward, and the state after it."""
        steps = self.steps + 1
        first = _DECAY * self.first + (1 - _DECAY) * gradient
        second = _SQUARES_DECAY * self.second + (1 - _SQUARES_DECAY) * gradient**2
        mean, square = first / (1 - _DECAY**steps), second / (1 - _SQUARES_DECAY**steps)
        return rate * mean / (np.sqrt(square) + _TINY), Adam(first, second, steps)


def candidates(training: Training) -> list[Floats]:
    """The weights to try in the next generation: the centre first, then the pairs."""
    centre = np.array(training.weights)
    changes = _changes(training)
    return [centre, *(centre + sign * change for change in changes for sign in (1, -1))]


def batch(training: Training, count: int) -> list[int]:
    """Which of so many modules the pairs of the next generation are tried on, ascending."""
    settings = training.settings
    if not 0 < settings.batch < count:
        return list(range(count))
    random = np.random.default_rng([settings.seed, training.generation, _MODULES])
    return sorted(random.choice(count, settings.batch, replace=False).tolist())


def advanced(training: Training, rewards: Sequence[float]) -> Training:
    """The state after a generation.

    :param rewards: of :func:`candidates`, in their order; higher is better
    """
    centre, tried = rewards[0], np.array(rewards[1:])
    ranks = tried.argsort(kind="stable").argsort(kind="stable") / (len(tried) - 1) - 0.5
    halves = ranks[0::2] - ranks[1::2]
    settings = training.settings
    gradient = halves @ _changes(training) / (2 * settings.pairs * settings.sigma)
    adam = Adam(np.array(training.first), np.array(training.second), training.generation)
    change, adam = adam.step(gradient, settings.rate)
    better = not training.rewards or centre > max(training.rewards)
    return msgspec.structs.replace(
        training,
        weights=tuple((np.array(training.weights) + change).tolist()),
        first=tuple(adam.first.tolist()),
        second=tuple(adam.second.tolist()),
        best=training.weights if better else training.best,
        rewards=(*training.rewards, centre),
    )


def _changes(training: Training) -> Floats:
    """(pairs, weights)."""
    settings = training.settings
    random = np.random.default_rng([settings.seed, training.generation])
    return random.normal(0, settings.sigma, (settings.pairs, len(training.weights)))
