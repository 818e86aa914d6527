"""LLVM's remarks, as llc 22.1.8 prints them."""

from __future__ import annotations

from mlir_release.extras.mlgo.problems import cost_of

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


def test_no_remark_no_cost() -> None:
    assert cost_of("") == 0
