"""The two problems that policies are trained for: the compiler's question, its options, and the cost.

Everything else, from the conversation to the report, is the same for both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.builder.model.regalloc_model import ADVISOR, MODEL
from mlir_release.extras.mlgo.corpora.cc1 import (
    clang_flags,
    generating,
    llc_flags,
    optimizing,
    refused_by_clang,
    refused_by_llc,
)
from mlir_release.extras.mlgo.features import NOTHING, WEIGHT, EvictionLayout, InliningLayout, Layout
from mlir_release.extras.mlgo.policies import Heuristic, observed
from mlir_release.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mlir_release.extras.mlgo.documents import Corpus, LearnedPolicy, ProblemName
    from mlir_release.extras.mlgo.features import Chooser
    from mlir_release.extras.mlgo.training.saved_model import SavedModel


#: Of a whole function, in LLVM's own remarks; those on loops repeat a part of it.
#: Source: RAGreedy::reportStats in RegAllocGreedy.cpp.
_FUNCTION = re.compile(r"^remark: .* generated in function$", re.MULTILINE)
_COST = re.compile(r"(?<!\S)(?P<cost>\S+) total (?:folded )?(?:spills|reloads|copies) cost")

#: LLVM's options that turn policies on.
_EVICTING, _INLINING = "-regalloc-enable-advisor=release", "-enable-ml-inliner=release"

#: Makes llc write them.
_REMARKS = "-pass-remarks-missed=regalloc"


def cost_of(errors: str) -> float:
    """The sum over all functions of spills, reloads and copies, each weighted by its block's frequency.

    Frequencies are relative to the function's entry.

    :param errors: llc's error output
    """
    return sum(float(match["cost"]) for line in _FUNCTION.findall(errors) for match in _COST.finditer(line))


#: Makes clang write an object of bitcode.
_OBJECT = ("-emit-obj", "-x", "ir")


@dataclass(frozen=True, kw_only=True)
class Model:
    """How LLVM takes a policy inside, as it takes what TensorFlow compiled."""

    name: str  #: of the class, and of its files
    advisor: str  #: the source of LLVM's that includes it, in llvm-project's layout
    option: str  #: LLVM's: makes a program that has a policy use it
    decider: str  #: who uses it, in words
    feature: str  #: in C++: that of position ``P``, by the compiler's ``{value}``
    nothing: str  #: in C++: whether position ``P`` stands for changing nothing
    example: str  #: LLVM IR with a decision, so that the compiler tells its features
    options: tuple[str, ...]  #: the program's for the example


@dataclass(frozen=True, kw_only=True)
class PolicyProblem:
    """A decision of the compiler that a policy can take over."""

    name: ProblemName
    title: str  #: of a policy
    program: str  #: compiles a module of the corpus
    #: The programs that decide this, each with its options to write a module, by the module's flags.
    programs: Mapping[str, Callable[[Sequence[str]], list[str]]]
    elsewhere: Mapping[str, str]  #: the other programs, with the reason
    model: Model
    until: tuple[str, ...]  #: ends ``clang -cc1`` where the corpus' bitcode is taken
    flags: Callable[[Sequence[str]], tuple[str, ...]]  #: the program's options, from a command of ``clang -cc1``
    refused: Callable[[Sequence[str]], str | None]  #: the first of these options that the program does not get
    emitting: tuple[str, ...]  #: the program's options to write an object …
    measuring: tuple[str, ...] | None  #: … or to tell a module's cost without one; None: its cost needs an object
    interactive: tuple[str, ...]  #: LLVM's options that make it ask a policy; ``{channel}`` begins the pipes' names
    cost: Callable[[str, int], float]  #: of a module: by the program's error output, and the bytes of machine code
    layout: type[Layout]
    teacher: Callable[[Sequence[str]], Chooser]  #: chooses as the default, as far as it is known; takes the features
    default: str  #: the teacher, in words
    order: Mapping[str, float]  #: weights of features: the plain order that a training begins with
    measures: Mapping[str, str]  #: the labels of an evaluation's measures; the first is the cost
    cheaper: str  #: than the default, in words
    speeds_up: bool  #: whether programs must be faster; else they must not be slower

    def asking(self, channel: Path, program: str) -> list[str]:
        """The options of interactive mode."""
        return options_of(program, [word.format(channel=channel) for word in self.interactive])


def options_of(program: str, options: Sequence[str]) -> list[str]:
    """LLVM's options, as a program takes them."""
    return [word for option in options for word in (("-mllvm", option) if program == "clang" else (option,))]


#: Which live range the greedy register allocator evicts. A module is optimized; llc allocates.
EVICTION = PolicyProblem(
    name="regalloc",
    title="an eviction policy",
    program="llc",
    programs={
        "llc": lambda flags: [*flags, "-filetype=obj"],
        "clang": lambda flags: [*generating(flags), "-x", "ir"],
    },
    elsewhere={"opt": "it allocates no registers"},
    model=Model(
        name=MODEL,
        advisor=ADVISOR,
        option=_EVICTING,
        decider="the register allocator",
        feature="{value}",
        nothing="P == Positions - 1",
        example="define i64 @f(i64 %a, i64 %b) {\n  %c = mul i64 %a, %b\n  ret i64 %c\n}\n",
        options=("-O2",),
    ),
    until=("-emit-llvm-bc",),
    flags=llc_flags,
    refused=refused_by_llc,
    emitting=(_REMARKS, "-filetype=obj"),
    measuring=(_REMARKS, "-filetype=null"),
    # Source: llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp.
    interactive=(_EVICTING, "-regalloc-evict-interactive-channel-base={channel}"),
    cost=lambda errors, text: cost_of(errors),
    layout=EvictionLayout,
    teacher=Heuristic,  # an imitation: a stock compiler does not tell its default's choice
    default="the imitated heuristic",
    # The heuristic's order without its rules about hints: a free register, else the lightest range. The asking one
    # counts, too, and wins among equals: evictions that gain little cost more than they save. This order is cheaper
    # than a clone of all of the heuristic's (docs/mlgo.md, "Measured").
    order={"is_free": 2.0, WEIGHT: -1.0, NOTHING: 0.01},
    measures={"cost": "cost", "text": ".text"},
    cheaper="cheaper",
    speeds_up=True,
)

#: Whether a call is inlined. A module is the output of clang's front end; clang optimizes it for size.
INLINING = PolicyProblem(
    name="inlining",
    title="an inlining policy",
    program="clang",
    programs={"clang": lambda flags: [*flags, *_OBJECT], "opt": optimizing},
    elsewhere={"llc": "it inlines nothing"},
    model=Model(
        name="InlinerSizeModel",
        advisor="llvm/lib/Analysis/MLInlineAdvisor.cpp",
        option=_INLINING,
        decider="the inliner",
        feature="P ? {value} : 0.",
        nothing="P == 0",
        example="define internal i32 @g(i32 %a) {\n  ret i32 %a\n}\n"
        "define i32 @f(i32 %a) {\n  %c = call i32 @g(i32 %a)\n  ret i32 %c\n}\n",
        options=("-cc1", "-O2"),
    ),
    until=("-disable-llvm-passes", "-emit-llvm-bc"),
    flags=clang_flags,
    refused=refused_by_clang,
    emitting=_OBJECT,
    measuring=None,
    # The compiler tells the default's choice, too. Source: llvm/lib/Analysis/MLInlineAdvisor.cpp.
    interactive=(
        _INLINING, "-inliner-interactive-channel-base={channel}", "-inliner-interactive-include-default",
    ),
    cost=lambda errors, text: float(text),  # upstream's reward for inlining
    layout=InliningLayout,
    teacher=lambda features: observed,
    default="the observed default",
    order={"threshold": 1.0, "cost_estimate": -1.0},  # a call that costs less than the heuristic's threshold is inlined
    measures={"text": ".text"},
    cheaper="smaller",
    speeds_up=False,
)  # fmt: skip


def problem_of(name: ProblemName) -> PolicyProblem:
    """The problem that a document names."""
    return {problem.name: problem for problem in (EVICTION, INLINING)}[name]


def check_problem(policy: LearnedPolicy | SavedModel, corpus: Corpus) -> None:
    """Refuse a policy for another problem than a corpus is for. :raises UsageError: ``input-invalid``"""
    if policy.problem != corpus.problem:
        ours, theirs = problem_of(policy.problem), problem_of(corpus.problem)
        raise UsageError(
            "input-invalid",
            f"this is {ours.title}, and the corpus is for {theirs.title}",
            why=f"they decide on other features: --problem was {ours.name} for one, and {theirs.name} for the other",
            remedy="give the corpus that the policy was trained on, or one made with the same --problem",
        )
