from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.simulate import load_walks, summarize
from tests.refusals import refused

RECORDED = Path(__file__).parents[3] / "benchmarks" / "data" / "iree-walks.json"


def test_the_figures_on_recorded_walks_hold_even_if_every_fix_is_tested_by_itself() -> None:
    worlds = load_walks(RECORDED)
    summary = summarize(worlds, "adaptive", retries=0, retest=True)
    assert summary.missed == summary.false_culprits == 0
    assert summary.tests <= 0.42 * summary.linear
    assert summary.tests <= 1.25 * summary.floor
    assert summarize(worlds, "parallel", width=8, retries=0, retest=True).rounds <= summary.linear / 5


def test_eight_probes_a_round_cost_half_of_linears_minutes_because_useless_ones_are_cancelled() -> None:
    summary = summarize(load_walks(RECORDED), "parallel", width=8, retries=0)
    assert summary.missed == summary.false_culprits == 0
    assert summary.tests <= 0.42 * summary.linear
    assert summary.minutes <= 0.5 * summary.linear_minutes
    assert summary.tests + summary.cancelled <= 0.74 * summary.linear
    assert summary.rounds <= 0.165 * summary.linear


def test_linear_costs_one_test_a_commit_and_one_a_fix() -> None:
    worlds = load_walks(RECORDED)
    summary = summarize(worlds, "linear", retries=0, retest=True)
    first_commit_breaks = sum(1 in world.breaks for world in worlds)  # there the base is tested, too
    assert summary.tests == summary.linear + first_commit_breaks


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"walks": []}',
        '{"walks": [{"date": "a", "advances": "9", "fix_after_advance": []}]}',
        '{"walks": [{"date": "a", "advances": 9, "fix_after_advance": [1e999]}]}',
        '{"walks": [{"date": "a", "advances": 99999999999, "fix_after_advance": []}]}',
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "walks.json"
    path.write_text(text)
    refused(lambda: load_walks(path), "input-invalid")
