"""Train a policy: a start that imitates, then an evolution strategy on the corpus' training modules.

The imitation is behavioural cloning: weights that choose as the recorded decisions did.

In a generation of the evolution, pairs of policies are tried that differ from the centre by the same random change,
once added and once subtracted. The differences of their rewards estimate the gradient, which Adam follows. Source:
Salimans et al., "Evolution Strategies as a Scalable Alternative to Reinforcement Learning", 2017; rewards count by
rank, as there. The random numbers of a generation come from the seed and its number alone, so a training that was
killed goes on as if it had not been.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from mlir_release.extras.mlgo.compiling import Compiler, in_parallel
from mlir_release.extras.mlgo.documents import Kind, LearnedPolicy, Settings, Trace, Training
from mlir_release.extras.mlgo.policies import Scorer, activation, scores, split, weight_count
from mlir_release.extras.mlgo.problems import problem_of
from mlir_release.extras.mlgo.training.trace import load_decisions
from mlir_release.ground.console import console
from mlir_release.ground.errors import ConflictError
from mlir_release.ground.storage.disk import room
from mlir_release.ground.storage.files import read_if_there, write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from mlir_release.extras.mlgo.candidates import Candidates
    from mlir_release.extras.mlgo.features import Decision
    from mlir_release.extras.mlgo.policies import Floats

#: Of the imitation, in full batches.
_STEPS, _RATE = 400, 0.05

#: Of Adam.
_DECAY, _SQUARES_DECAY, _TINY = 0.9, 0.999, 1e-8

#: Sets the random numbers that choose modules apart from those that change weights.
_MODULES = 1


# -- the state --------------------------------------------------------------------------------------------------------


def begin(folder: Path, corpus: Path, trace: Trace, settings: Settings) -> Training:
    """The state that an earlier training left in ``folder``, else that of a new one.

    :param corpus: the folder of the corpus
    :raises ConflictError: ``checkout-dirty``
    """
    path = folder / Training.FILE
    content = read_if_there(path)
    if content is None:
        training = start(trace, corpus, settings)
    else:
        training = Training.from_text(content, where=str(path))
        if training.settings != settings or (training.corpus, training.features) != (trace.corpus, trace.features):
            raise ConflictError(
                "checkout-dirty",
                "this folder holds a training with other settings, or on another corpus",
                where=str(path),
                why=f"it has {training.settings}",
                remedy="give the same settings to continue it, or another folder (-o) to start a new one",
            )
    save(training, folder)
    return training


def save(training: Training, folder: Path) -> None:
    """Write the state, then the policy that follows from it. :raises MachineError: ``disk-full``"""
    with room(folder, purpose="for the training", remedy="free some space; the same command goes on where it was"):
        write_atomically(folder / Training.FILE, training.to_text(), durable=True)
        write_atomically(folder / LearnedPolicy.FILE, training.policy().to_text())


def start(trace: Trace, folder: Path, settings: Settings) -> Training:
    """The state before the first generation: a policy that imitates.

    :param folder: of the corpus
    """
    given = examples(load_decisions(folder, trace), np.array(trace.mean), np.array(trace.deviation))
    teacher = problem_of(trace.problem).default
    if settings.start == "order":
        teacher = "the plain order"
        order = plain_order(trace)
        given = given._replace(chosen=choices("linear", 0, order, given))
    if settings.start == "order" and settings.kind == "linear":
        weights = order
    else:
        weights = imitate(settings.kind, settings.hidden, given, seed=settings.seed)
    share = agreement(settings.kind, settings.hidden, weights, given)
    console.say(f"    warm start: chooses as {teacher} in {share:.1%} of the decisions")
    if settings.kind == "linear":  # only the direction counts; sigma is relative to weights of about 1
        weights = weights * math.sqrt(len(weights)) / np.linalg.norm(weights)
    nothing = (0.0,) * len(weights)
    return Training(
        problem=trace.problem,
        llvm=trace.llvm,
        corpus=trace.corpus,
        features=trace.features,
        mean=trace.mean,
        deviation=trace.deviation,
        settings=settings,
        weights=tuple(weights.tolist()),
        first=nothing,
        second=nothing,
        best=tuple(weights.tolist()),
        rewards=(),
    )


def plain_order(trace: Trace) -> Floats:
    """The weights of the problem's plain order, for a linear policy."""
    order = problem_of(trace.problem).order
    return np.array([order.get(name, 0.0) for name in trace.features]) * trace.deviation


# -- imitation --------------------------------------------------------------------------------------------------------


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
    """Bring decisions, and their choices, into one shape."""
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
    weights = np.zeros(count) if kind == "linear" else np.random.default_rng(seed).normal(0, 0.1, count)
    adam = Adam(np.zeros(count), np.zeros(count), 0)
    for _ in range(_STEPS):
        change, adam = adam.step(_gradient(kind, hidden, weights, given), _RATE)
        weights = weights + change
    return weights


def choices(kind: Kind, hidden: int, weights: Floats, given: Examples) -> NDArray[np.int64]:
    """The choice of a policy for each decision: an index of a position."""
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


class Adam(NamedTuple):
    """Running means of gradients and of their squares, and how many steps were taken."""

    first: Floats
    second: Floats
    steps: int

    def step(self, gradient: Floats, rate: float) -> tuple[Floats, Adam]:
        """The change that follows the gradient upward, and the state after it."""
        steps = self.steps + 1
        first = _DECAY * self.first + (1 - _DECAY) * gradient
        second = _SQUARES_DECAY * self.second + (1 - _SQUARES_DECAY) * gradient**2
        mean, square = first / (1 - _DECAY**steps), second / (1 - _SQUARES_DECAY**steps)
        return rate * mean / (np.sqrt(square) + _TINY), Adam(first, second, steps)


# -- evolution --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long to train, and with how many cores."""

    generations: int  #: in all, with those that are done
    minutes: float | None = None  #: begin no generation after so many
    jobs: int | None = None  #: None: all cores


def train(
    training: Training,
    compiler: Compiler,
    trace: Trace,
    folder: Path,
    effort: Effort,
    *,
    together: Candidates | None = None,
) -> Training:
    """Go on until so many generations are done; ``training.json`` and ``policy.json`` are written after each.

    :param together: compiles a generation's policies at once, instead of ``compiler``; the rewards are the same
    """
    modules, costs_of = compiler.corpus.training, {default.name: default.cost for default in trace.defaults}
    default = [costs_of[module.name] for module in modules]
    end = math.inf if effort.minutes is None else time.monotonic() + 60 * effort.minutes
    while training.generation < effort.generations and time.monotonic() < end:
        tried = [training.policy(tuple(weights.tolist())) for weights in candidates(training)]
        drawn = batch(training, len(modules))
        # The centre's reward is that on all modules, so that generations compare.
        wanted = [(module, tried if index in drawn else tried[:1]) for index, module in enumerate(modules)]
        if together is not None:
            found = in_parallel(lambda task: together.costs(*task), wanted, effort.jobs)
        else:
            scorers = [Scorer(policy) for policy in tried]
            tasks = [(module, scorer) for module, policies in wanted for scorer in scorers[: len(policies)]]
            costs = iter(
                in_parallel(lambda task: compiler.compile(task[0], task[1].answering).cost, tasks, effort.jobs)
            )
            found = [[next(costs) for _ in policies] for _, policies in wanted]
        rewards = [
            reward([found[at][which] for at in chosen], [default[at] for at in chosen])
            for which, chosen in enumerate([list(range(len(modules))), *(drawn for _ in tried[1:])])
        ]
        training = advanced(training, rewards)
        save(training, folder)
        console.say(
            f"    generation {training.generation}/{effort.generations}: reward {rewards[0]:+.5f}, best of those tried "
            f"{max(rewards[1:]):+.5f}, best centre {max(training.rewards):+.5f}"
        )
    return training


def reward(costs: Sequence[float], defaults: Sequence[float]) -> float:
    """The saving of a policy: minus the mean, over modules, of the logarithm of its cost over the default's.

    0: as the default; 0.01: 1 % cheaper in the (geometric) mean. A module without any cost counts as one of 1.
    """
    ratios = [math.log((cost + 1) / (default + 1)) for cost, default in zip(costs, defaults, strict=True)]
    return -sum(ratios) / len(ratios)


def candidates(training: Training) -> list[Floats]:
    """The weights to try in the next generation: the centre first, then the pairs."""
    centre = np.array(training.weights)
    return [centre, *(centre + sign * change for change in _changes(training) for sign in (1, -1))]


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
    return replace(
        training,
        weights=tuple((np.array(training.weights) + change).tolist()),
        first=tuple(adam.first.tolist()),
        second=tuple(adam.second.tolist()),
        best=training.weights if better else training.best,
        rewards=(*training.rewards, centre),
    )


def _changes(training: Training) -> Floats:
    """The random changes of the next generation: (pairs, weights)."""
    settings = training.settings
    random = np.random.default_rng([settings.seed, training.generation])
    return random.normal(0, settings.sigma, (settings.pairs, len(training.weights)))
