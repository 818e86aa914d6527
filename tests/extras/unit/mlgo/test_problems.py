"""What differs between the problems."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_release.extras.mlgo.problems import EVICTION, INLINING, PolicyProblem, cost_of


@pytest.mark.parametrize(("problem", "cost"), [(EVICTION, 2.5), (INLINING, 120.0)])
def test_the_cost_is_of_spills_or_of_size(problem: PolicyProblem, cost: float) -> None:
    said = "remark: a.c:1:0: 1 spills 2.5 total spills cost generated in function\n"
    assert problem.cost(said, 120) == cost


#: LLVM's remarks, as llc 22.1.8 prints them.
PRINTED = """\
remark: a.cpp:3:1: 2 virtual registers copies 9.900000e+01 total copies cost generated in loop
remark: <unknown>:0:0: 1 spills 6.250000e-01 total spills cost 1 reloads 1.999985e+01 total reloads cost \
12 virtual registers copies 1.369990e+02 total copies cost generated in function
remark: a.cpp:7:1: 2 folded spills 2.000000e+00 total folded spills cost 3 folded reloads 4.500000e+00 \
total folded reloads cost 1 zero cost folded reloads generated in function
warning: 5 spills 1.000000e+03 total spills cost
"""


def test_costs_of_functions_are_added_up_and_those_of_loops_are_parts_of_them() -> None:
    assert cost_of(PRINTED) == 0.625 + 19.99985 + 136.999 + 2.0 + 4.5
    assert cost_of("") == 0


def test_clang_is_given_the_options_of_llvm_by_its_own() -> None:
    channel = Path("channel")
    llc, clang = (EVICTION.asking(channel, program) for program in ("llc", "clang"))
    assert llc == ["-regalloc-enable-advisor=release", "-regalloc-evict-interactive-channel-base=channel"]
    assert clang == ["-mllvm", llc[0], "-mllvm", llc[1]]
