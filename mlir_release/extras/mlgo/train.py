"""Train a policy: a warm start by imitation, then an evolution strategy on the corpus' training modules.

The reward of a policy is what it saves: minus the mean, over modules, of the logarithm of its cost over the default's.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from mlir_release.console import console
from mlir_release.errors import ConflictError
from mlir_release.extras.mlgo.compiling import in_parallel
from mlir_release.extras.mlgo.documents import Policy, Trace, Training
from mlir_release.extras.mlgo.evolve import advanced, batch, candidates
from mlir_release.extras.mlgo.imitate import agreement, choices, examples, imitate
from mlir_release.extras.mlgo.policies import Scorer
from mlir_release.extras.mlgo.problems import problem_of
from mlir_release.extras.mlgo.trace import load_decisions
from mlir_release.host.disk import room
from mlir_release.host.files import read_if_there, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.compiling import Compiler
    from mlir_release.extras.mlgo.documents import Corpus, Module, Settings
    from mlir_release.extras.mlgo.policies import Floats


def begin(folder: Path, corpus: Path, trace: Trace, settings: Settings) -> Training:
    """The state that an earlier training left in ``folder``, else that of a new one.

    :param corpus: the folder of the corpus
    :raises ConflictError: ``checkout-dirty``
    """
    training = resume(folder, trace, settings) or start(trace, corpus, settings)
    save(training, folder)
    return training


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


def resume(folder: Path, trace: Trace, settings: Settings) -> Training | None:
    """The state that an earlier training left, if there is one.

    :param folder: of the training
    :raises ConflictError: ``checkout-dirty``
    """
    path = folder / Training.FILE
    content = read_if_there(path)
    if content is None:
        return None
    training = Training.from_text(content, where=str(path))
    if training.settings != settings or (training.corpus, training.features) != (trace.corpus, trace.features):
        raise ConflictError(
            "checkout-dirty",
            "this folder holds a training with other settings, or on another corpus",
            where=str(path),
            why=f"it has {training.settings}",
            remedy="give the same settings to continue it, or another folder (-o) to start a new one",
        )
    return training


def train(
    training: Training,
    compiler: Compiler,
    corpus: Corpus,
    trace: Trace,
    folder: Path,
    *,
    generations: int,
    minutes: float | None = None,
    jobs: int | None = None,
) -> Training:
    """Go on until so many generations are done; ``training.json`` and ``policy.json`` are written after each.

    :param generations: in all, with those that are done
    :param minutes: begin no generation after so many
    """
    defaults = {default.name: default.cost for default in trace.defaults}
    end = math.inf if minutes is None else time.monotonic() + 60 * minutes
    while training.generation < generations and time.monotonic() < end:
        rewards = _rewards(training, compiler, corpus.training, defaults, jobs)
        training = advanced(training, rewards)
        save(training, folder)
        spread = max(rewards[1:])
        console.say(
            f"    generation {training.generation}/{generations}: reward {rewards[0]:+.5f}, best of those tried "
            f"{spread:+.5f}, best centre {max(training.rewards):+.5f}"
        )
    return training


def save(training: Training, folder: Path) -> None:
    """Write the state, then the policy that follows from it. :raises MachineError: ``disk-full``"""
    with room(folder, purpose="for the training", remedy="free some space; the same command goes on where it was"):
        write_atomically(folder / Training.FILE, training.to_text(), durable=True)
        write_atomically(folder / Policy.FILE, training.policy().to_text())


def _rewards(
    training: Training,
    compiler: Compiler,
    modules: Sequence[Module],
    defaults: Mapping[str, float],
    jobs: int | None,
) -> list[float]:
    """Of :func:`candidates`: the centre's on all modules, so that generations compare, the others' on the batch."""
    tried = [Scorer(training.policy(tuple(weights.tolist()))) for weights in candidates(training)]
    drawn = [modules[index] for index in batch(training, len(modules))]
    sets = [modules, *(drawn for _ in tried[1:])]

    def cost(task: tuple[Scorer, Module]) -> float:
        scorer, module = task
        return compiler.compile(module, scorer.answering).cost

    tasks = [(scorer, module) for scorer, chosen in zip(tried, sets, strict=True) for module in chosen]
    costs = iter(in_parallel(cost, tasks, jobs))
    return [reward([next(costs) for _ in chosen], [defaults[module.name] for module in chosen]) for chosen in sets]


def reward(costs: Sequence[float], defaults: Sequence[float]) -> float:
    """0: as the default; 0.01: 1 % cheaper in the (geometric) mean. A module without any cost counts as one of 1."""
    ratios = [math.log((cost + 1) / (default + 1)) for cost, default in zip(costs, defaults, strict=True)]
    return -sum(ratios) / len(ratios)
