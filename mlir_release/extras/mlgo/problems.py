"""The problems that policies are trained for: what a compiler asks, how it is run, and what counts as cost.

All else, from the conversation to the report, is the same for both.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from mlir_release.errors import UsageError
from mlir_release.extras.mlgo.cc1 import clang_flags, llc_flags, refused_by_clang, refused_by_llc
from mlir_release.extras.mlgo.features import NOTHING, WEIGHT, EvictionLayout, InliningLayout, Layout
from mlir_release.extras.mlgo.policies import Heuristic, Observed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.documents import Corpus, Policy, ProblemName
    from mlir_release.extras.mlgo.policies import Answering, Chooser


#: Of a whole function, in LLVM's own remarks; those on loops repeat a part of it.
#: Source: RAGreedy::reportStats in RegAllocGreedy.cpp.
_FUNCTION = re.compile(r"^remark: .* generated in function$", re.MULTILINE)
_COST = re.compile(r"(?P<cost>\S+) total (?:folded )?(?:spills|reloads|copies) cost")

#: Options of llc that make it write them.
REMARKS = ("-pass-remarks-missed=regalloc",)


def cost_of(errors: str) -> float:
    """The sum over all functions of spills, reloads and copies, each weighted by its block's frequency.

    Frequencies are relative to the function's entry.

    :param errors: llc's error output
    """
    return sum(float(match["cost"]) for line in _FUNCTION.findall(errors) for match in _COST.finditer(line))


class Problem(ABC):
    """A decision of the compiler's that a policy can take over."""

    name: ClassVar[ProblemName]
    title: ClassVar[str]  #: of a policy
    program: ClassVar[str]  #: compiles a module of the corpus
    until: ClassVar[tuple[str, ...]]  #: what ends ``clang -cc1`` where the corpus' bitcode is taken
    emits: ClassVar[bool]  #: whether the cost needs an object
    layout: ClassVar[type[Layout]]
    default: ClassVar[str]  #: what :meth:`teacher` is, in words
    order: ClassVar[Mapping[str, float]]  #: weights of features: the plain order that a training begins with
    measures: ClassVar[Mapping[str, str]]  #: what an evaluation shows, and how it is called; the first is the cost
    cheaper: ClassVar[str]  #: than the default, in words
    speeds_up: ClassVar[bool]  #: whether programs must be faster; else they must not be slower

    @abstractmethod
    def flags(self, recorded: Sequence[str]) -> tuple[str, ...]:
        """The program's options for a module, from its recorded command of ``clang -cc1``."""

    @abstractmethod
    def refused(self, flags: Sequence[str]) -> str | None:
        """The first of a module's options that the program is not given; None if it gets all."""

    @abstractmethod
    def command(self, flags: Sequence[str], *, emit: bool) -> list[str]:
        """The program's options, with those of a module, up to the bitcode."""

    @abstractmethod
    def asking(self, channel: Path) -> list[str]:
        """Options that make the program ask a policy: its interactive mode. ``channel`` begins the pipes' names."""

    @abstractmethod
    def cost(self, errors: str, text: int) -> float:
        """Of a module. ``errors`` is what the program printed there; ``text`` is in bytes."""

    @abstractmethod
    def teacher(self, features: Sequence[str]) -> Chooser:
        """What chooses as the compiler's own heuristic, as far as it is known."""


class Eviction(Problem):
    """Which live range the greedy register allocator evicts. A module is optimized; llc allocates."""

    name = "regalloc"
    title = "an eviction policy"
    program = "llc"
    until = ("-emit-llvm-bc",)
    emits = False
    layout = EvictionLayout
    default = "the imitated heuristic"
    #: What is left of the heuristic's order without its rules about hints: a free register, else the lightest range,
    #: the asking one included, and that by preference: evictions that gain little cost more than they save. Cheaper
    #: than what imitates all of the order (docs/mlgo.md, "Measured").
    order: ClassVar[Mapping[str, float]] = {"is_free": 2.0, WEIGHT: -1.0, NOTHING: 0.01}
    measures: ClassVar[Mapping[str, str]] = {"cost": "cost", "text": ".text"}
    cheaper = "cheaper"
    speeds_up = True

    def flags(self, recorded: Sequence[str]) -> tuple[str, ...]:
        """See :meth:`Problem.flags`."""
        return llc_flags(recorded)

    def refused(self, flags: Sequence[str]) -> str | None:
        """See :meth:`Problem.refused`."""
        return refused_by_llc(flags)

    def command(self, flags: Sequence[str], *, emit: bool) -> list[str]:
        """See :meth:`Problem.command`."""
        return [*flags, *REMARKS, f"-filetype={'obj' if emit else 'null'}"]

    def asking(self, channel: Path) -> list[str]:
        """See :meth:`Problem.asking`. Source: llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp."""
        return ["-regalloc-enable-advisor=release", f"-regalloc-evict-interactive-channel-base={channel}"]

    def cost(self, errors: str, text: int) -> float:
        """Spills, reloads and copies, weighted by frequency."""
        return cost_of(errors)

    def teacher(self, features: Sequence[str]) -> Chooser:
        """An imitation: what the default would choose is not said."""
        return Heuristic(features)


class Inlining(Problem):
    """Whether a call is inlined. A module is what clang's front end made; clang optimizes it for size."""

    name = "inlining"
    title = "an inlining policy"
    program = "clang"
    until = ("-disable-llvm-passes", "-emit-llvm-bc")
    emits = True
    layout = InliningLayout
    default = "the observed default"
    #: What costs less than the heuristic's threshold is inlined.
    order: ClassVar[Mapping[str, float]] = {"threshold": 1.0, "cost_estimate": -1.0}
    measures: ClassVar[Mapping[str, str]] = {"text": ".text"}
    cheaper = "smaller"
    speeds_up = False

    def flags(self, recorded: Sequence[str]) -> tuple[str, ...]:
        """See :meth:`Problem.flags`."""
        return clang_flags(recorded)

    def refused(self, flags: Sequence[str]) -> str | None:
        """See :meth:`Problem.refused`."""
        return refused_by_clang(flags)

    def command(self, flags: Sequence[str], *, emit: bool) -> list[str]:
        """See :meth:`Problem.command`."""
        return [*flags, "-emit-obj", "-x", "ir"]

    def asking(self, channel: Path) -> list[str]:
        """With what the default would choose. Source: llvm/lib/Analysis/MLInlineAdvisor.cpp."""
        options = (
            "-enable-ml-inliner=release",
            f"-inliner-interactive-channel-base={channel}",
            "-inliner-interactive-include-default",
        )
        return [word for option in options for word in ("-mllvm", option)]

    def cost(self, errors: str, text: int) -> float:
        """Bytes of machine code, as upstream's reward for inlining."""
        return float(text)

    def teacher(self, features: Sequence[str]) -> Chooser:
        """The default itself."""
        return Observed()


EVICTION = Eviction()
INLINING = Inlining()

_PROBLEMS: dict[ProblemName, Problem] = {problem.name: problem for problem in (EVICTION, INLINING)}


def problem_of(name: ProblemName) -> Problem:
    """The problem that a document names."""
    return _PROBLEMS[name]


def check_problem(policy: Policy | Answering, corpus: Corpus) -> None:
    """Refuse a policy for another problem than a corpus is for. :raises UsageError: ``input-invalid``"""
    if policy.problem != corpus.problem:
        ours, theirs = problem_of(policy.problem), problem_of(corpus.problem)
        raise UsageError(
            "input-invalid",
            f"this is {ours.title}, and the corpus is for {theirs.title}",
            why=f"they decide on other features: --problem was {ours.name} for one, and {theirs.name} for the other",
            remedy="give the corpus that the policy was trained on, or one made with the same --problem",
        )
