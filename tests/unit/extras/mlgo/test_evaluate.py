"""The verdict, and what is shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mlir_release.extras.mlgo.compiling import Compiled
from mlir_release.extras.mlgo.evaluate import Change, Evaluation, Row
from mlir_release.extras.mlgo.instructions import Counted
from mlir_release.extras.mlgo.problems import EVICTION, INLINING, Problem

LESS, SAME, MORE = (-0.03, -0.01), (-0.01, 0.01), (0.01, 0.03)


def compiled(cost: float, text: int, digest: str) -> Compiled:
    return Compiled(cost=cost, decisions=1234, text=text, sha256=digest)


def evaluation(
    cost: tuple[float, float],
    text: tuple[float, float],
    instructions: tuple[float, float] | None = None,
    problem: Problem = EVICTION,
) -> Evaluation:
    rows = (
        Row(module="a.o", default=compiled(1000, 50, "x"), policy=compiled(980, 49, "y")),
        Row(module="b.o", default=compiled(0, 10, "z"), policy=compiled(0, 10, "z")),
    )
    return Evaluation(
        policy="1" * 64,
        corpus="2" * 64,
        problem=problem,
        rows=rows,
        cost=Change(default=1000, policy=980, low=cost[0], high=cost[1]),
        text=Change(default=60, policy=59, low=text[0], high=text[1]),
        runs=(Counted(program="llc", run="a", default=4000, policy=3900),) if instructions else (),
        instructions=instructions and Change(default=4000, policy=3900, low=instructions[0], high=instructions[1]),
    )


TOO_FEW = "cheaper, but programs do not execute 0.1% fewer instructions: the default stays"


@pytest.mark.parametrize(
    ("cost", "text", "instructions", "verdict"),
    [
        (LESS, SAME, LESS, "better than the default beyond the noise"),
        (LESS, LESS, LESS, "better than the default beyond the noise"),
        (LESS, SAME, None, "cheaper, but no instructions were counted (--programs): the default stays"),
        (LESS, SAME, SAME, TOO_FEW),
        (
            LESS,
            SAME,
            (-0.03, -0.0005),
            "cheaper, but programs do not execute 0.1% fewer instructions: the default stays",
        ),
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
    assert found.columns == ["module", ">.text", ">policy", ">change", ">decisions"]
    assert found.table()[0] == ["a.o", "50", "49", "-2.00%", "1,234"]
    assert [line.split()[0] for line in found.summary().splitlines()] == [".text", "1", "verdict:"]


def test_the_table_ends_with_totals() -> None:
    found = evaluation(LESS, SAME)
    assert found.table() == [
        ["a.o", "1,000", "980", "-2.00%", "50", "49", "-2.00%", "1,234"],
        ["b.o", "0", "0", "", "10", "10", "+0.00%", "1,234"],
        ["total", "1,000", "980", "-2.00%", "60", "59", "-1.67%", "2,468"],
    ]
    assert {len(row) for row in found.table()} == {len(found.columns)}


def test_the_summary_has_the_intervals() -> None:
    found = evaluation(LESS, SAME, LESS)
    assert found.summary().splitlines() == [
        "cost          -2.00%, 95 % confidence interval -3.00% to -1.00%",
        ".text         -1.67%, 95 % confidence interval -1.00% to +1.00%",
        "instructions  -2.50%, 95 % confidence interval -3.00% to -1.00%",
        "1 of 2 objects are the default's",
        "verdict: better than the default beyond the noise",
    ]
    assert found.runs_table() == [["llc", "a", "4,000", "3,900", "-2.50%"]]
    assert not any(line.startswith("instructions") for line in evaluation(LESS, SAME).summary().splitlines())


def test_the_folder_of_all_modules_is_not_shown() -> None:
    found = evaluation(SAME, SAME)
    rows = tuple(
        replace(row, module=f"lib/x/{folder}/{row.module}") for row, folder in zip(found.rows, "yz", strict=True)
    )
    assert [row[0] for row in replace(found, rows=rows).table()] == ["y/a.o", "z/b.o", "total"]


def test_the_json_has_everything() -> None:
    found = json.loads(json.dumps(evaluation(SAME, SAME, LESS).to_json()))
    assert found["runs"] == [{"program": "llc", "run": "a", "default": 4000, "policy": 3900}]
    assert found["instructions"]["relative"] == pytest.approx(-0.025)
    assert found["cost"]["relative"] == pytest.approx(-0.02)
    assert [row["module"] for row in found["modules"]] == ["a.o", "b.o"]
    assert found["better"] is False
