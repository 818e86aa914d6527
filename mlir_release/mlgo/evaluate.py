"""Compare a policy with the default on modules that it was not trained on, and say whether it is better."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from mlir_release.errors import UsageError
from mlir_release.mlgo.compare import Change, change
from mlir_release.mlgo.compiling import in_parallel
from mlir_release.mlgo.policies import Scorer
from mlir_release.model.mlgo import Policy, read_document

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.mlgo.compiling import Compiled, Compiler
    from mlir_release.model.mlgo import Module


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
    rows: tuple[Row, ...]
    cost: Change
    text: Change

    COLUMNS = ("module", ">cost", ">policy", ">change", ">.text", ">policy", ">change", ">decisions")

    @property
    def better(self) -> bool:
        """Cheaper than the default beyond the noise, with code that is not larger beyond the noise."""
        return self.cost.better and not self.text.worse

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.better:
            return "better than the default beyond the noise"
        if self.cost.better:
            return "cheaper, but its code is larger beyond the noise: the default stays"
        relation = "worse" if self.cost.worse else "not better"
        return f"{relation} than the default beyond the noise: the default stays"

    def table(self) -> list[list[str]]:
        """Cells by :attr:`COLUMNS`; the last row is of the totals. The folder of all modules is left out."""
        shared = os.path.commonpath([os.path.dirname(row.module) for row in self.rows])  # noqa: PTH120
        cells = [
            [
                os.path.relpath(row.module, shared or "."),
                *_pair(row.default.cost, row.policy.cost),
                *_pair(row.default.text, row.policy.text),
                f"{row.policy.decisions:,}",
            ]
            for row in self.rows
        ]
        decisions = sum(row.policy.decisions for row in self.rows)
        totals = (self.cost.default, self.cost.policy), (self.text.default, self.text.policy)
        return [*cells, ["total", *_pair(*totals[0]), *_pair(*totals[1]), f"{decisions:,}"]]

    def summary(self) -> str:
        """The totals with their confidence intervals, and the verdict."""
        identical = sum(row.default.sha256 == row.policy.sha256 for row in self.rows)
        return (
            f"cost   {_interval(self.cost)}\n"
            f".text  {_interval(self.text)}\n"
            f"{identical} of {len(self.rows)} objects are the default's\n"
            f"verdict: {self.verdict}"
        )

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "policy": self.policy,
            "corpus": self.corpus,
            "modules": [asdict(row) for row in self.rows],
            "cost": asdict(self.cost) | {"relative": self.cost.relative},
            "text": asdict(self.text) | {"relative": self.text.relative},
            "better": self.better,
            "verdict": self.verdict,
        }


def evaluate(
    policy: Policy, modules: Sequence[Module], compiler: Compiler, corpus: str, *, seed: int, jobs: int | None = None
) -> Evaluation:
    """Compile each module by the default and by the policy.

    :param corpus: digest of the corpus that the modules are of
    :param seed: of the bootstrap
    """
    scorer = Scorer(policy)

    def compare(module: Module) -> Row:
        default = compiler.compile(module, emit=True)
        return Row(module=module.name, default=default, policy=compiler.compile(module, scorer.answering, emit=True))

    rows = in_parallel(compare, modules, jobs)
    return Evaluation(
        policy=policy.digest,
        corpus=corpus,
        rows=tuple(rows),
        cost=change([row.default.cost for row in rows], [row.policy.cost for row in rows], seed=seed),
        text=change([row.default.text for row in rows], [row.policy.text for row in rows], seed=seed),
    )


def load_policy(path: Path) -> Policy:
    """A policy from its file. :raises UsageError: ``mlgo-policy-missing``, ``mlgo-document-invalid``"""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            "mlgo-policy-missing",
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
