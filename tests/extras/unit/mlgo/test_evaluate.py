"""The verdict, and what is shown."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from mlir_release.extras.mlgo.compiling import Compiled
from mlir_release.extras.mlgo.evaluate import Change, Evaluation, Row, change, judge
from mlir_release.extras.mlgo.instructions import Counted
from mlir_release.extras.mlgo.problems import EVICTION, INLINING, PolicyProblem

LESS, SAME, MORE = (-0.03, -0.01), (-0.01, 0.01), (0.01, 0.03)


def compiled(cost: float, text: int, digest: str) -> Compiled:
    return Compiled(cost=cost, decisions=1234, text=text, sha256=digest)


def changed(default: float, policy: float, interval: tuple[float, float]) -> Change:
    low, high = interval
    return Change(default=default, policy=policy, low=low, high=high, relative=policy / default - 1)


def evaluation(
    cost: tuple[float, float],
    text: tuple[float, float],
    instructions: tuple[float, float] | None = None,
    problem: PolicyProblem = EVICTION,
) -> Evaluation:
    rows = (
        Row(module="a.o", default=compiled(1000, 50, "x"), policy=compiled(980, 49, "y")),
        Row(module="b.o", default=compiled(0, 10, "z"), policy=compiled(0, 10, "z")),
    )
    cheaper, smaller = changed(1000.0, 980.0, cost), changed(60.0, 59.0, text)
    faster = instructions and changed(4000.0, 3900.0, instructions)
    better, verdict = judge(problem, cheaper, smaller, faster)
    return Evaluation(
        policy="1" * 64,
        corpus="2" * 64,
        modules=rows,
        cost=cheaper,
        text=smaller,
        runs=(Counted(program="llc", run="a", default=4000, policy=3900),) if instructions else (),
        instructions=faster,
        better=better,
        verdict=verdict,
    )


TOO_FEW = "cheaper, but programs do not execute 0.1% fewer instructions: the default stays"


@pytest.mark.parametrize(
    ("cost", "text", "instructions", "verdict"),
    [
        (LESS, SAME, LESS, "better than the default beyond the noise"),
        (LESS, LESS, LESS, "better than the default beyond the noise"),
        (LESS, SAME, None, "cheaper, but no instructions were counted (--programs): the default stays"),
        (LESS, SAME, SAME, TOO_FEW),
        (LESS, SAME, (-0.03, -0.0005), TOO_FEW),
        (LESS, SAME, MORE, TOO_FEW),
        (LESS, MORE, LESS, "cheaper, but its code is larger beyond the noise: the default stays"),
        (SAME, LESS, LESS, "not better than the default beyond the noise: the default stays"),
        (MORE, LESS, LESS, "worse than the default beyond the noise: the default stays"),
    ],
)
def test_only_what_is_better_beyond_the_noise_replaces_the_default(
    cost: tuple[float, float], text: tuple[float, float], instructions: tuple[float, float] | None, verdict: str
) -> None:
    found = evaluation(cost, text, instructions)
    assert found.verdict == verdict
    assert found.better == ("the default stays" not in verdict)


@pytest.mark.parametrize(
    ("size", "instructions", "verdict"),
    [
        (LESS, None, "better than the default beyond the noise"),
        (LESS, SAME, "better than the default beyond the noise"),
        (LESS, MORE, "smaller, but programs execute 0.1% more instructions: the default stays"),
        (SAME, LESS, "not better than the default beyond the noise: the default stays"),
        (MORE, LESS, "worse than the default beyond the noise: the default stays"),
    ],
)
def test_inlining_is_judged_by_size_and_must_not_slow_programs_down(
    size: tuple[float, float], instructions: tuple[float, float] | None, verdict: str
) -> None:
    found = evaluation(size, size, instructions, INLINING)
    assert found.verdict == verdict
    assert found.better == ("the default stays" not in verdict)


def test_what_is_measured_twice_is_shown_once() -> None:
    found = evaluation(LESS, LESS, problem=INLINING)
    columns, rows = found.table(INLINING.measures)
    assert columns == ["module", ">.text", ">policy", ">change", ">decisions"]
    assert rows[0] == ["a.o", "50", "49", "-2.00%", "1,234"]
    assert [line.split()[0] for line in found.summary(INLINING.measures).splitlines()] == [".text", "1", "verdict:"]


def test_the_table_ends_with_totals() -> None:
    columns, rows = evaluation(LESS, SAME).table(EVICTION.measures)
    assert rows == [
        ["a.o", "1,000", "980", "-2.00%", "50", "49", "-2.00%", "1,234"],
        ["b.o", "0", "0", "", "10", "10", "+0.00%", "1,234"],
        ["total", "1,000", "980", "-2.00%", "60", "59", "-1.67%", "2,468"],
    ]
    assert {len(row) for row in rows} == {len(columns)}


def test_the_summary_has_the_intervals() -> None:
    found = evaluation(LESS, SAME, LESS)
    assert found.summary(EVICTION.measures).splitlines() == [
        "cost          -2.00%, 95 % confidence interval -3.00% to -1.00%",
        ".text         -1.67%, 95 % confidence interval -1.00% to +1.00%",
        "instructions  -2.50%, 95 % confidence interval -3.00% to -1.00%",
        "1 of 2 objects are the default's",
        "verdict: better than the default beyond the noise",
    ]
    assert found.runs_table()[1] == [["llc", "a", "4,000", "3,900", "-2.50%"]]
    assert "instructions  " not in evaluation(LESS, SAME).summary(EVICTION.measures)


def test_the_folder_of_all_modules_is_not_shown() -> None:
    found = evaluation(SAME, SAME)
    rows = tuple(
        replace(row, module=f"lib/x/{folder}/{row.module}") for row, folder in zip(found.modules, "yz", strict=True)
    )
    _, shown = replace(found, modules=rows).table(EVICTION.measures)
    assert [row[0] for row in shown] == ["y/a.o", "z/b.o", "total"]


# -- when a difference is more than chance -----------------------------------------------------------------------------


def noisy(shift: float, spread: float, count: int = 40) -> tuple[list[float], list[float]]:
    random = np.random.default_rng(11)
    default = random.uniform(50, 500, count)
    return default.tolist(), (default * (1 + shift + random.normal(0, spread, count))).tolist()


def test_the_totals_are_compared() -> None:
    found = change([100, 300], [90, 290], seed=1)
    assert (found.default, found.policy) == (400, 380)
    assert found.relative == pytest.approx(-0.05)


def test_a_shift_larger_than_the_noise_is_seen() -> None:
    assert change(*noisy(-0.05, 0.02), seed=1).better
    assert change(*noisy(+0.05, 0.02), seed=1).worse


def test_a_shift_within_the_noise_is_not() -> None:
    found = change(*noisy(-0.005, 0.1), seed=1)
    assert not found.better
    assert not found.worse
    assert found.low < found.relative < found.high


def test_pairs_stay_together() -> None:
    """Modules differ a hundredfold, and each is 1 % better: without pairs that would be noise."""
    default = [float(10 ** (index % 3)) for index in range(30)]
    found = change(default, [0.99 * value for value in default], seed=1)
    assert found.low == pytest.approx(found.high) == pytest.approx(-0.01)


def test_equal_ones_are_neither() -> None:
    found = change([5, 0, 7], [5, 0, 7], seed=1)
    assert (found.low, found.high, found.better, found.worse) == (0, 0, False, False)


def test_the_seed_decides_the_interval() -> None:
    given = noisy(0, 0.1)
    assert change(*given, seed=1) == change(*given, seed=1)
    assert change(*given, seed=1) != change(*given, seed=2)


def test_modules_without_cost_are_no_division_by_zero() -> None:
    assert change([0, 0], [0, 0], seed=1).relative == 0
