"""Compare a policy with the default on modules that it was not trained on, and say whether it is better."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from mlir_release.errors import UsageError
from mlir_release.extras.mlgo.compiling import in_parallel
from mlir_release.extras.mlgo.documents import Policy, read_document
from mlir_release.extras.mlgo.policies import maker
from mlir_release.extras.mlgo.problems import check_problem, problem_of
from mlir_release.host.files import read_document as read_file
from mlir_release.host.tempdirs import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.compiling import Compiled, Compiler
    from mlir_release.extras.mlgo.documents import Corpus, Module
    from mlir_release.extras.mlgo.instructions import Counted
    from mlir_release.extras.mlgo.policies import Answering
    from mlir_release.extras.mlgo.problems import Problem

    Counter = Callable[[Sequence[Path], Sequence[Path], Path], tuple[Counted, ...]]


#: The share of instructions that counts, with the whole interval: callgrind counts exactly, so any difference is beyond
#: its noise, and one of a few instructions is not worth another allocator, nor a reason against another inliner.
LEAST = 0.001


_RESAMPLES = 10_000


@dataclass(frozen=True, kw_only=True)
class Change:
    """A total of all modules under the default and under a policy.

    :param low: end of the 95 % confidence interval of :attr:`relative`, over modules
    """

    default: float
    policy: float
    low: float
    high: float

    @property
    def relative(self) -> float:
        """-0.01: 1 % less than the default."""
        return self.policy / self.default - 1 if self.default else 0.0

    def to_json(self) -> dict[str, float]:
        """For ``--json``."""
        return asdict(self) | {"relative": self.relative}

    @property
    def better(self) -> bool:
        """Less than the default, beyond the noise."""
        return self.high < 0

    @property
    def worse(self) -> bool:
        """More than the default, beyond the noise."""
        return self.low > 0


def change(default: Sequence[float], policy: Sequence[float], *, seed: int) -> Change:
    """Compare totals, paired by module. The interval is a bootstrap's: modules are drawn anew, with their pairs.

    :param seed: of the draws
    """
    ours, theirs = np.array(policy, float), np.array(default, float)
    drawn = np.random.default_rng(seed).integers(0, len(ours), (_RESAMPLES, len(ours)))
    totals = theirs[drawn].sum(axis=1)
    relative = np.divide(ours[drawn].sum(axis=1), totals, out=np.ones(_RESAMPLES), where=totals > 0) - 1
    low, high = np.quantile(relative, (0.025, 0.975))
    return Change(default=float(theirs.sum()), policy=float(ours.sum()), low=float(low), high=float(high))


@dataclass(frozen=True, kw_only=True)
class Row:
    """A module under both."""

    module: str
    default: Compiled
    policy: Compiled


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """All modules under both, and the totals."""

    policy: str  #: digest
    corpus: str  #: digest
    problem: Problem
    rows: tuple[Row, ...]
    cost: Change
    text: Change
    runs: tuple[Counted, ...] = ()
    instructions: Change | None = None  #: of all :attr:`runs`; None: there were none

    RUN_COLUMNS = ("program", "run", ">instructions", ">policy", ">change")

    @property
    def columns(self) -> list[str]:
        """Of :meth:`table`."""
        measured = [[f">{label}", ">policy", ">change"] for label in self.problem.measures.values()]
        return ["module", *chain.from_iterable(measured), ">decisions"]

    @property
    def better(self) -> bool:
        """Less cost beyond the noise, and nothing else speaks against it."""
        return self.cost.better and not self._objection

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.better:
            return "better than the default beyond the noise"
        if self.cost.better:
            return f"{self.problem.cheaper}, but {self._objection}: the default stays"
        relation = "worse" if self.cost.worse else "not better"
        return f"{relation} than the default beyond the noise: the default stays"

    @property
    def _objection(self) -> str:
        """Why the default stays although the policy costs less; empty: nothing speaks against it."""
        if self.text.worse:
            return "its code is larger beyond the noise"
        if not self.problem.speeds_up:
            slower = self.instructions is not None and self.instructions.low > LEAST
            return f"programs execute {LEAST:.1%} more instructions" if slower else ""
        if self.instructions is None:
            return "no instructions were counted (--programs)"
        return "" if self.instructions.high < -LEAST else f"programs do not execute {LEAST:.1%} fewer instructions"

    def table(self) -> list[list[str]]:
        """Cells by :attr:`columns`; the last row is of the totals. The folder of all modules is left out."""
        shared = os.path.commonpath([os.path.dirname(row.module) for row in self.rows])  # noqa: PTH120
        cells = [
            [
                os.path.relpath(row.module, shared or "."),
                *self._measured(row.default, row.policy),
                f"{row.policy.decisions:,}",
            ]
            for row in self.rows
        ]
        decisions = sum(row.policy.decisions for row in self.rows)
        totals = [_pair(change.default, change.policy) for change in self._changes().values()]
        return [*cells, ["total", *chain.from_iterable(totals), f"{decisions:,}"]]

    def summary(self) -> str:
        """The totals with their confidence intervals, and the verdict."""
        identical = sum(row.default.sha256 == row.policy.sha256 for row in self.rows)
        lines = [
            *(f"{label:<13} {_interval(change)}" for label, change in self._changes().items()),
            *([f"instructions  {_interval(self.instructions)}"] if self.instructions else []),
            f"{identical} of {len(self.rows)} objects are the default's",
            f"verdict: {self.verdict}",
        ]
        return "\n".join(lines)

    def _changes(self) -> dict[str, Change]:
        """The totals of what the problem measures, by their labels."""
        return {label: getattr(self, name) for name, label in self.problem.measures.items()}

    def _measured(self, default: Compiled, policy: Compiled) -> list[str]:
        pairs = [_pair(getattr(default, name), getattr(policy, name)) for name in self.problem.measures]
        return list(chain.from_iterable(pairs))

    def runs_table(self) -> list[list[str]]:
        """Cells by :attr:`RUN_COLUMNS`."""
        return [[run.program, run.run, *_pair(run.default, run.policy)] for run in self.runs]

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "policy": self.policy,
            "corpus": self.corpus,
            "modules": [asdict(row) for row in self.rows],
            "cost": self.cost.to_json(),
            "text": self.text.to_json(),
            "runs": [asdict(run) for run in self.runs],
            "instructions": self.instructions and self.instructions.to_json(),
            "better": self.better,
            "verdict": self.verdict,
        }


def unseen(corpus: Corpus, trained_on: Corpus, policy: Policy | Answering) -> tuple[Module, ...]:
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
    policy: Policy | Answering,
    modules: Sequence[Module],
    compiler: Compiler,
    corpus: Corpus,
    *,
    seed: int,
    count: Counter | None = None,
    jobs: int | None = None,
) -> Evaluation:
    """Compile each module by the default and by the policy.

    :param corpus: that the modules are of
    :param seed: of the bootstrap
    :param count: counts the instructions of programs with these modules, from objects of the default and of the policy
    :raises UsageError: ``input-invalid``
    """
    check_problem(policy, corpus)
    answering = maker(policy)
    with scratch_folder("mlgo") as folder:
        objects = {way: [folder / f"{way}{index}.o" for index in range(len(modules))] for way in ("default", "policy")}

        def compare(task: tuple[Module, Path, Path]) -> Row:
            module, default, learned = task
            return Row(
                module=module.name,
                default=compiler.compile(module, emit=True, keep=default),
                policy=compiler.compile(module, answering, emit=True, keep=learned),
            )

        rows = in_parallel(compare, list(zip(modules, objects["default"], objects["policy"], strict=True)), jobs)
        runs = count(objects["default"], objects["policy"], folder) if count else ()

    def changed(pairs: Sequence[tuple[float, float]]) -> Change:
        return change([before for before, _ in pairs], [after for _, after in pairs], seed=seed)

    return Evaluation(
        policy=policy.digest,
        corpus=corpus.digest,
        problem=problem_of(corpus.problem),
        rows=tuple(rows),
        cost=changed([(row.default.cost, row.policy.cost) for row in rows]),
        text=changed([(row.default.text, row.policy.text) for row in rows]),
        runs=runs,
        instructions=changed([(run.default, run.policy) for run in runs]) if runs else None,
    )


def load_policy(path: Path) -> Policy:
    """A policy from its file. :raises UsageError: ``input-missing``, ``input-invalid``"""
    try:
        content = read_file(path)
    except OSError as error:
        raise UsageError(
            "input-missing",
            "there is no policy to evaluate",
            where=str(path),
            why=str(error.strerror),
            remedy="mlir-release mlgo train CORPUS -o FOLDER writes FOLDER/policy.json",
        ) from None
    return read_document(content, Policy, where=str(path))


def _pair(default: float, policy: float) -> list[str]:
    return [f"{default:,.0f}", f"{policy:,.0f}", f"{policy / default - 1:+.2%}" if default else ""]


def _interval(found: Change) -> str:
    return f"{found.relative:+.2%}, 95 % confidence interval {found.low:+.2%} to {found.high:+.2%}"
