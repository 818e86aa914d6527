"""What differs between the problems."""

from __future__ import annotations

import msgspec
import pytest

from mlir_release.errors import UsageError
from mlir_release.extras.mlgo.documents import Corpus
from mlir_release.extras.mlgo.problems import EVICTION, INLINING, Problem, check_problem, problem_of
from tests.unit.extras.mlgo.policy_factory import policy

CORPUS = Corpus(llvm="22.1.8", share=0.5, modules=())


@pytest.mark.parametrize("problem", [EVICTION, INLINING])
def test_a_problem_is_found_by_its_name(problem: Problem) -> None:
    assert problem_of(problem.name) is problem


@pytest.mark.parametrize(("problem", "cost"), [(EVICTION, 2.5), (INLINING, 120.0)])
def test_the_cost_is_of_spills_or_of_size(problem: Problem, cost: float) -> None:
    said = "remark: a.c:1:0: 1 spills 2.5 total spills cost generated in function\n"
    assert problem.cost(said, 120) == cost


def test_only_eviction_does_without_an_object() -> None:
    assert EVICTION.command(["-O2"], emit=False)[-1] == "-filetype=null"
    assert EVICTION.command(["-O2"], emit=True)[-1] == "-filetype=obj"
    assert INLINING.emits
    assert INLINING.command(["-cc1", "-Oz"], emit=True) == ["-cc1", "-Oz", "-emit-obj", "-x", "ir"]


def test_a_policy_for_another_problem_is_refused() -> None:
    for_inlining = policy((), problem="inlining")
    check_problem(for_inlining, msgspec.structs.replace(CORPUS, problem="inlining"))
    with pytest.raises(UsageError, match="this is an inlining policy, and the corpus is for an eviction") as caught:
        check_problem(for_inlining, CORPUS)
    assert caught.value.id == "input-invalid"
