"""Compare a policy with the default on modules that it was not trained on, and say whether it is better."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from mlir_release.extras.mlgo.compiling import Compiled, Compiler, in_parallel
from mlir_release.extras.mlgo.documents import Corpus, LearnedPolicy, Module
from mlir_release.extras.mlgo.instructions import Counted, Counter
from mlir_release.extras.mlgo.policies import maker
from mlir_release.extras.mlgo.problems import PolicyProblem, check_problem, problem_of
from mlir_release.ground.errors import UsageError
from mlir_release.ground.storage.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.training.saved_model import SavedModel

#: The share of instructions that counts, with the whole interval: one of a few instructions is not worth another
#: allocator, nor a reason against another inliner. callgrind counts exactly, but a program that hashes addresses
#: executes up to 0.3 % more or fewer where the same code lies elsewhere (docs/mlgo.md, "Programs to count").
LEAST = 0.001

_RESAMPLES = 10_000


class Change(Struct, frozen=True, kw_only=True):
    """A total under the default and under a policy. Below 0 is less than the default; -0.01 is 1 % less."""

    default: float
    policy: float
    low: float  #: of the 95 % confidence interval of ``relative``
    high: float
    relative: float

    @property
    def better(self) -> bool:
        """Less than the default, beyond the noise."""
        return self.high < 0

    @property
    def worse(self) -> bool:
        """More than the default, beyond the noise."""
        return self.low > 0

    def __str__(self) -> str:
        return f"{self.relative:+.2%}, 95 % confidence interval {self.low:+.2%} to {self.high:+.2%}"


def change(default: Sequence[float], policy: Sequence[float], *, seed: int) -> Change:
    """Compare totals, paired by module. The interval is a bootstrap's: modules are drawn anew, with their pairs.

    :param seed: of the draws
    """
    ours, theirs = np.array(policy, float), np.array(default, float)
    drawn = np.random.default_rng(seed).integers(0, len(ours), (_RESAMPLES, len(ours)))
    totals = theirs[drawn].sum(axis=1)
    changes = np.divide(ours[drawn].sum(axis=1), totals, out=np.ones(_RESAMPLES), where=totals > 0) - 1
    low, high = np.quantile(changes, (0.025, 0.975)).tolist()
    before, after = float(theirs.sum()), float(ours.sum())
    relative = after / before - 1 if before else 0.0
    return Change(default=before, policy=after, low=low, high=high, relative=relative)


class Row(Struct, frozen=True, kw_only=True):
    """A module under both."""

    module: str
    default: Compiled
    policy: Compiled


class Evaluation(Struct, frozen=True, kw_only=True):
    """All modules under both, the totals and the verdict; ``evaluate --json`` prints it."""

    policy: str  #: digest
    corpus: str  #: digest
    modules: tuple[Row, ...]
    cost: Change
    text: Change
    runs: tuple[Counted, ...] = ()
    instructions: Change | None = None  #: of all ``runs``; None if programs were not counted
    better: bool
    verdict: str  #: one sentence

    def table(self, measures: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
        """Columns, and a row for each module and for the totals. The folder of all modules is left out.

        :param measures: the measures to show, with their labels (:attr:`.PolicyProblem.measures`)
        """
        columns = chain.from_iterable((f">{label}", ">policy", ">change") for label in measures.values())
        shared = os.path.commonpath([os.path.dirname(row.module) for row in self.modules])  # noqa: PTH120
        rows = []
        for row in self.modules:
            pairs = [_pair(getattr(row.default, name), getattr(row.policy, name)) for name in measures]
            name = os.path.relpath(row.module, shared or ".")
            rows.append([name, *chain.from_iterable(pairs), f"{row.policy.decisions:,}"])
        totals = [_pair(total.default, total.policy) for total in (getattr(self, name) for name in measures)]
        decisions = sum(row.policy.decisions for row in self.modules)
        rows.append(["total", *chain.from_iterable(totals), f"{decisions:,}"])
        return ["module", *columns, ">decisions"], rows

    def runs_table(self) -> tuple[list[str], list[list[str]]]:
        """Columns, and a row for each run of a program."""
        columns = ["program", "run", ">instructions", ">policy", ">change"]
        return columns, [[run.program, run.run, *_pair(run.default, run.policy)] for run in self.runs]

    def summary(self, measures: Mapping[str, str]) -> str:
        """The totals with their confidence intervals, and the verdict."""
        identical = sum(row.default.sha256 == row.policy.sha256 for row in self.modules)
        lines = [
            *(f"{label:<13} {getattr(self, name)}" for name, label in measures.items()),
            *([f"instructions  {self.instructions}"] if self.instructions else []),
            f"{identical} of {len(self.modules)} objects are the default's",
            f"verdict: {self.verdict}",
        ]
        return "\n".join(lines)


def _pair(default: float, policy: float) -> list[str]:
    return [f"{default:,.0f}", f"{policy:,.0f}", f"{policy / default - 1:+.2%}" if default else ""]


def judge(problem: PolicyProblem, cost: Change, text: Change, instructions: Change | None) -> tuple[bool, str]:
    """Whether a policy is better than the default, and the verdict in words.

    It is better if it costs less beyond the noise, and if neither the code's size nor programs speak against it.
    """
    if text.worse:
        objection = "its code is larger beyond the noise"
    elif not problem.speeds_up:
        slower = instructions is not None and instructions.low > LEAST
        objection = f"programs execute {LEAST:.1%} more instructions" if slower else ""
    elif instructions is None:
        objection = "no instructions were counted (--programs)"
    else:
        faster = instructions.high < -LEAST
        objection = "" if faster else f"programs do not execute {LEAST:.1%} fewer instructions"
    if not cost.better:
        relation = "worse" if cost.worse else "not better"
        return False, f"{relation} than the default beyond the noise: the default stays"
    if objection:
        return False, f"{problem.cheaper}, but {objection}: the default stays"
    return True, "better than the default beyond the noise"


def unseen(corpus: Corpus, trained_on: Corpus, policy: LearnedPolicy | SavedModel) -> tuple[Module, ...]:
    """The modules of a corpus that a policy was not trained on: held out there, or of another code base.

    :param trained_on: the corpus that it was trained on
    :raises UsageError: ``input-invalid``
    """
    if policy.corpus != trained_on.digest:
        raise UsageError(
            "input-invalid",
            f"the policy was not trained on the corpus {trained_on.digest[:12]}",
            why=f"it was trained on {policy.corpus[:12]}",
            remedy="name that corpus with --trained-on",
        )
    seen = {module.sha256 for module in trained_on.training}
    found = tuple(module for module in corpus.modules if module.sha256 not in seen)
    if not found:
        raise UsageError(
            "input-invalid",
            f"the policy was trained on all {len(corpus.modules)} modules of this corpus",
            remedy="make a corpus of other code, or evaluate without --trained-on, on what is held out",
        )
    return found


def evaluate(
    policy: LearnedPolicy | SavedModel,
    modules: Sequence[Module],
    compiler: Compiler,
    *,
    seed: int,
    counter: Counter | None = None,
    jobs: int | None = None,
) -> Evaluation:
    """Compile each module by the default and by the policy.

    :param modules: of the compiler's corpus
    :param seed: of the bootstrap
    :param counter: counts the instructions of programs, linked with the default's objects and with the policy's
    :raises UsageError: ``input-invalid``
    """
    corpus = compiler.corpus
    check_problem(policy, corpus)
    problem, answering = problem_of(corpus.problem), maker(policy)
    with scratch_folder("mlgo") as folder:
        defaults, policies = ([folder / f"{way}{i}.o" for i in range(len(modules))] for way in ("default", "policy"))

        def compare(task: tuple[Module, Path, Path]) -> Row:
            module, default, learned = task
            return Row(
                module=module.name,
                default=compiler.compile(module, emit=True, keep=default),
                policy=compiler.compile(module, answering, emit=True, keep=learned),
            )

        rows = in_parallel(compare, list(zip(modules, defaults, policies, strict=True)), jobs)
        runs = counter.count(defaults, policies, folder) if counter else ()

    cost = change([row.default.cost for row in rows], [row.policy.cost for row in rows], seed=seed)
    text = change([row.default.text for row in rows], [row.policy.text for row in rows], seed=seed)
    instructions = change([run.default for run in runs], [run.policy for run in runs], seed=seed) if runs else None
    better, verdict = judge(problem, cost, text, instructions)
    return Evaluation(
        policy=policy.digest,
        corpus=corpus.digest,
        modules=tuple(rows),
        cost=cost,
        text=text,
        runs=runs,
        instructions=instructions,
        better=better,
        verdict=verdict,
    )


def load_policy(path: Path) -> LearnedPolicy:
    """A policy from its file. :raises UsageError: ``input-missing``, ``input-invalid``"""
    remedy = "mlir-release mlgo train CORPUS -o FOLDER writes FOLDER/policy.json"
    return LearnedPolicy.load(path, missing="there is no policy to evaluate", remedy=remedy)
