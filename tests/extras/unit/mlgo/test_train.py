"""Training on a compiler whose costs are known: resuming, settings, rewards."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import pytest

from mlir_release.extras.mlgo.candidates import Candidates
from mlir_release.extras.mlgo.compiling import Compiled
from mlir_release.extras.mlgo.documents import Corpus, Default, LearnedPolicy, Module, Settings, Trace, Training
from mlir_release.extras.mlgo.policies import Heuristic, Scorer, observed, scores, weight_count
from mlir_release.extras.mlgo.training.trace import Recorder, load_decisions, save_decisions, scales
from mlir_release.extras.mlgo.training.train import (
    Effort,
    _gradient,
    advanced,
    agreement,
    batch,
    begin,
    candidates,
    examples,
    imitate,
    plain_order,
    reward,
    train,
)
from tests.extras.unit.mlgo.policy_factory import FEATURES, decision, policy, training
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.compiling import Compiler
    from mlir_release.extras.mlgo.documents import Kind, Start
    from mlir_release.extras.mlgo.features import Decision

SETTINGS = Settings(seed=3, kind="linear", hidden=0, pairs=2, sigma=0.1, rate=0.05)
MODULES = tuple(
    Module(name=name, bitcode=f"{name}.bc", sha256="1" * 64, flags=(), held_out=name == "held")
    for name in ("a", "b", "held")
)
CORPUS = Corpus(llvm="22.1.8", share=0.3, modules=MODULES)


class KnownCosts:
    """A module costs more the further its policy's weights are from where it is cheapest."""

    corpus = CORPUS

    def __init__(self, *, die_after: int = 10**9) -> None:
        self.left = die_after

    def compile(self, module: Module, maker: Any, *, emit: bool = False) -> Compiled:
        assert not module.held_out
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        weights = np.array(cast("Scorer", maker.__self__)._policy.weights)
        return Compiled(cost=10 + float(((weights - (module.name == "a")) ** 2).sum()), decisions=1)


def compiler(**given: int) -> Compiler:
    return cast("Compiler", KnownCosts(**given))


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    recorded = [(decision([1, 0, 0, 0.1 * index, 0], [0, 0, 0, 0.3, 1]), 0) for index in range(1, 6)]
    save_decisions(tmp_path, recorded)
    return Trace(
        llvm="22.1.8", corpus=CORPUS.digest, features=FEATURES, mean=(0.5,) * 5, deviation=(0.5,) * 5, decisions=5,
        identical=1, defaults=tuple(Default(name=name, cost=12.0, text=100) for name in "ab"),
    )  # fmt: skip


def run(trace: Trace, corpus: Path, folder: Path, generations: int, **given: int) -> Training:
    begun = begin(folder, corpus, trace, SETTINGS)
    return train(begun, compiler(**given), trace, folder, Effort(generations=generations, jobs=1))


def test_a_training_that_was_killed_ends_as_one_that_was_not(trace: Trace, tmp_path: Path) -> None:
    whole = run(trace, tmp_path, tmp_path / "whole", 5)
    for calls in (0, 1, 13, 25):  # 5 policies on 2 modules a generation
        with pytest.raises(KeyboardInterrupt):
            run(trace, tmp_path, tmp_path / "cut", 5, die_after=calls)
    assert run(trace, tmp_path, tmp_path / "cut", 5) == whole
    for name in (Training.FILE, LearnedPolicy.FILE):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_it_gets_better_and_the_policy_is_the_best(trace: Trace, tmp_path: Path) -> None:
    done = run(trace, tmp_path, tmp_path / "run", 12)
    assert max(done.rewards) > done.rewards[0]
    policy = LearnedPolicy.from_text((tmp_path / "run" / LearnedPolicy.FILE).read_bytes(), where="")
    assert policy == done.policy()
    assert policy.weights == done.best


def test_pairs_are_tried_on_a_batch_and_the_centre_on_all(trace: Trace, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, batch=1)
    known = KnownCosts()
    begun = begin(tmp_path, tmp_path, trace, settings)
    done = train(begun, cast("Compiler", known), trace, tmp_path, Effort(generations=6, jobs=1))
    assert 10**9 - known.left == 6 * (2 + 2 * settings.pairs)
    drawn = [batch(msgspec.structs.replace(done, rewards=done.rewards[:index]), 2) for index in range(6)]
    assert {index for (index,) in drawn} == {0, 1}
    whole = run(trace, tmp_path, tmp_path / "whole", 1)
    assert done.rewards[0] == whole.rewards[0]


class Together(Candidates):
    """The same costs, of all policies at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def costs(self, module: Module, policies: Sequence[LearnedPolicy]) -> list[float]:
        self.asked.append((module.name, len(policies)))
        return [compiler().compile(module, Scorer(policy).answering).cost for policy in policies]


@pytest.mark.parametrize("drawn", [0, 1])
def test_policies_that_are_compiled_together_train_alike(drawn: int, trace: Trace, tmp_path: Path) -> None:
    settings, together = msgspec.structs.replace(SETTINGS, batch=drawn), Together()
    for name, given in (("alone", None), ("together", together)):
        begun = begin(tmp_path / name, tmp_path, trace, settings)
        train(begun, compiler(), trace, tmp_path / name, Effort(generations=3, jobs=1), together=given)
    alone, others = ((tmp_path / name / Training.FILE).read_bytes() for name in ("alone", "together"))
    assert alone == others
    assert [name for name, _ in together.asked] == ["a", "b"] * 3
    counts = [{count for _, count in together.asked[start : start + 2]} for start in (0, 2, 4)]
    assert counts == [{1, 5} if drawn else {5}] * 3


def test_no_generation_begins_when_the_time_is_over(trace: Trace, tmp_path: Path) -> None:
    begun = begin(tmp_path, tmp_path, trace, SETTINGS)
    done = train(begun, compiler(), trace, tmp_path, Effort(generations=5, minutes=0, jobs=1))
    assert done == begun


@pytest.mark.parametrize("start", ["order", "heuristic"])
def test_a_training_begins_as_it_was_asked(start: Start, trace: Trace, tmp_path: Path) -> None:
    weights = begin(tmp_path, tmp_path, trace, msgspec.structs.replace(SETTINGS, start=start)).weights
    assert (weights[1] == weights[2] == 0) == (start == "order")
    assert np.linalg.norm(weights) == pytest.approx(math.sqrt(5))


def test_the_plain_order_is_free_then_lightest_then_nothing(trace: Trace) -> None:
    given = policy(plain_order(trace).tolist(), mean=trace.mean, deviation=trace.deviation)
    free, light, heavy, nothing = [1, 0, 0, 0.9, 0], [0, 0, 0, 0.2, 0], [0, 0, 0, 0.9, 0], [0, 0, 0, 0.5, 1]
    assert Scorer(given)(decision(heavy, light, free, nothing)) == 2
    assert Scorer(given)(decision(heavy, light, nothing)) == 1
    assert Scorer(given)(decision(heavy, nothing)) == 1


def test_the_plain_order_of_inlining_is_cheaper_than_the_threshold(trace: Trace) -> None:
    features = ("threshold", "cost_estimate", "keeps_call")
    scaled = {"features": features, "mean": (20.0, 90.0, 0.5), "deviation": (10.0, 40.0, 0.5)}
    weights = plain_order(msgspec.structs.replace(trace, problem="inlining", **scaled))
    given = Scorer(policy(weights.tolist(), **scaled))
    kept = [0, 0, 1]
    assert [given(decision(kept, [45, cost, 0])) for cost in (-15000, 44, 45, 46)] == [1, 1, 0, 0]


def test_the_observed_default_is_what_the_compiler_says() -> None:
    assert [observed(decision([0], [1])._replace(default=told)) for told in (0, 1)] == [0, 1]


@pytest.mark.parametrize(
    "changed",
    [{"seed": 4}, {"pairs": 3}, {"kind": "mlp", "hidden": 4}, {"sigma": 0.2}, {"start": "heuristic"}, {"batch": 1}],
)
def test_other_settings_do_not_resume(changed: dict[str, Any], trace: Trace, tmp_path: Path) -> None:
    begin(tmp_path / "run", tmp_path, trace, SETTINGS)
    other = msgspec.structs.replace(SETTINGS, **changed)
    refused(lambda: begin(tmp_path / "run", tmp_path, trace, other), "checkout-dirty")


def test_another_corpus_does_not_resume(trace: Trace, tmp_path: Path) -> None:
    begin(tmp_path / "run", tmp_path, trace, SETTINGS)
    other = msgspec.structs.replace(trace, corpus="2" * 64)
    refused(lambda: begin(tmp_path / "run", tmp_path, other, SETTINGS), "checkout-dirty")


def test_an_mlp_begins_with_units_that_differ(trace: Trace, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, kind="mlp", hidden=3)
    outer = begin(tmp_path / "run", tmp_path, trace, settings).weights[-3:]
    assert len(set(outer)) == 3


def test_the_reward_is_the_mean_saving() -> None:
    assert reward([10, 0], [10, 0]) == 0
    assert reward([99], [109]) == pytest.approx(math.log(1.1))
    assert reward([5, 20], [5, 10]) < 0


def test_the_recorder_keeps_an_even_sample_and_all_sums() -> None:
    recorder = Recorder(Heuristic, kept=8)
    recorder.sums, recorder.squares = np.zeros(5), np.zeros(5)
    for index in range(100):
        recorder.add(decision([index, 0, 0, 0, 0], [index, 0, 0, 0, 1]), 0)
    kept = [given.rows[0, 0] for given, _ in recorder.sample]
    assert 4 <= len(kept) <= 8
    assert len({after - before for before, after in itertools.pairwise(kept)}) == 1
    assert kept[-1] >= 75
    mean, deviation = scales([recorder, recorder])
    assert mean.tolist() == [49.5, 0, 0, 0, 0.5]
    assert deviation == pytest.approx([np.std(range(100)), 1, 1, 1, 0.5])


def test_decisions_are_read_as_they_were_written(tmp_path: Path, trace: Trace) -> None:
    recorded = [(decision([1, 0, 0, 0.5, 0]), 0), (decision([0, 0, 0, 0.25, 0], [0, 0, 0, 0.5, 1]), 1)]
    save_decisions(tmp_path, recorded)
    found = load_decisions(tmp_path, trace)
    assert [(given.rows.tolist(), chosen) for given, chosen in found] == [
        (given.rows.tolist(), chosen) for given, chosen in recorded
    ]


# -- imitation: a policy learns the choices of another ------------------------------------------------------------


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


# -- the evolution, on a landscape whose top is known -------------------------------------------------------------


#: The best weights.
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


def test_rewards_count_by_rank() -> None:
    state = training()
    values = rewards(state)
    assert (
        advanced(state, values).weights == advanced(state, [values[0], *(1000 * value for value in values[1:])]).weights
    )
