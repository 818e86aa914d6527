"""What the labels of a runner tell, and that minutes and dollars add up, whatever they are grouped by."""

from __future__ import annotations

import math
import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.extras.cost.measured import Spent, add_up, prices, system_of

GUIDE = Path(__file__).parents[4] / "docs" / "cost.md"
LABELS = [("ubuntu-24.04",), ("ubuntu-24.04-arm",), ("macos-15",), ("windows-2022",), ("self-hosted", "linux")]
NAMES = [
    "plan: missing targets",
    "linux-x86_64 / sdk: linux-x86_64",
    "wheels: mlir-linux-x86_64-cp312",
    "What is missing",
]

jobs = st.lists(
    st.builds(
        Spent, name=st.sampled_from(NAMES), labels=st.sampled_from(LABELS), seconds=st.integers(1, 20000).map(float)
    ),
    max_size=12,
)


@given(jobs)
def test_every_grouping_has_the_same_total(found: list[Spent]) -> None:
    cost = add_up([("release.yml", found)], weeks=2)
    assert cost.total.billed == sum(math.ceil(job.seconds / 60) for job in found)
    for group in (cost.systems, cost.stages, cost.targets, cost.workflows):
        assert sum(entry.jobs for entry in group.values()) == len(found)
        assert sum(entry.billed for entry in group.values()) == cost.total.billed
        assert sum(entry.dollars for entry in group.values()) == pytest.approx(cost.total.dollars)
        assert sum(entry.unpriced for entry in group.values()) == cost.total.unpriced


def test_what_has_no_price_is_named() -> None:
    jobs = [
        Spent(name=NAMES[1], labels=("ubuntu-24.04-16core",), seconds=120),
        Spent(name=NAMES[1], labels=("macos-15-large",), seconds=60),
    ]
    cost = add_up([("release.yml", jobs)], weeks=1)
    found = cost.to_json()
    assert isinstance(without := found["runners_without_price"], dict)
    assert without["ubuntu-24.04-16core"]["minutes_without_price"] == 2
    assert isinstance(total := found["total"], dict)
    assert total["dollars"] == total["dollars_in_public"] == 0.08
    assert "no price: 2 minutes on ubuntu-24.04-16core" in cost.text()
    for word in ("self-hosted", "larger", "read on"):
        assert word in cost.text()


def test_time_is_grouped_by_the_prefix_of_a_jobs_name() -> None:
    names = (
        "linux-x86_64 / sdk: linux-x86_64",
        "linux-x86_64 / sdk: linux-x86_64 (resumed)",
        f"LLVM / integrate: probe {'a' * 40}",
        "build",
    )
    jobs = [Spent(name=name, labels=("ubuntu-24.04",), seconds=60) for name in names]
    cost = add_up([("release.yml", jobs)], weeks=1)
    assert {name: entry.jobs for name, entry in cost.stages.items()} == {"sdk": 2, "integrate": 1, "other": 1}
    assert set(cost.targets) == {"sdk: linux-x86_64", "integrate: probe", "other"}


def test_figures_are_a_weeks() -> None:
    cost = add_up([("release.yml", [Spent(name=NAMES[1], labels=("macos-15",), seconds=7201)])], weeks=4)
    assert cost.to_json()["total"] == {
        "jobs": 0.25,
        "minutes": 30.0,
        "billed_minutes": 30.2,
        "dollars": 1.88,
        "dollars_in_public": 0.0,
        "minutes_without_price": 0.0,
    }
    assert cost.rows(cost.stages) == [["sdk", "0.2", "30", "30", "1.88", "100 %"]]


@pytest.mark.parametrize(
    ("labels", "system", "price", "free_in_public"),
    [
        (["ubuntu-24.04"], "linux", 0.006, True),
        (["ubuntu-latest"], "linux", 0.006, True),
        (["ubuntu-slim"], "linux", 0.002, True),
        (["ubuntu-24.04-arm"], "linux", 0.005, True),
        (["macos-15"], "macos", 0.062, True),
        (["macos-15-intel"], "macos", 0.062, True),
        (["macos-15-large"], "macos", 0.077, False),
        (["macos-latest-xlarge"], "macos", 0.102, False),
        (["windows-2022"], "windows", 0.010, True),
        (["windows-11-arm"], "windows", 0.008, True),
        (["self-hosted", "Linux", "X64"], "linux", None, False),
        (["self-hosted", "macos-15"], "macos", None, False),
        (["ubuntu-24.04-64core"], "linux", None, False),
        (["buildkite"], "other", None, False),
    ],
)
def test_labels(labels: list[str], system: str, price: float | None, *, free_in_public: bool) -> None:
    assert system_of(labels) == system
    found = prices().runner(labels)
    assert sum(kind.label.fullmatch(labels[0]) is not None for kind in prices().runners) <= 1
    assert (found.dollars if found else None) == price
    assert (found.standard if found else False) == free_in_public


@pytest.mark.parametrize(
    ("label", "private", "public"),
    [
        ("ubuntu-24.04", 2, 4),
        ("windows-2022", 2, 4),
        ("macos-15", 3, 3),
        ("macos-15-intel", 4, 4),
        ("mine", 2, 4),
        ("macos-15-large", 3, 3),
    ],
)
def test_cores(label: str, private: int, public: int) -> None:
    assert (prices().cores([label], public=False), prices().cores([label], public=True)) == (private, public)


def test_the_list_says_where_it_is_from() -> None:
    assert prices().source.startswith("https://docs.github.com/")
    assert prices().read_on >= date(2026, 11, 21)
    assert prices().currency == "USD"


def test_the_guide_shows_the_same_prices() -> None:
    rows = re.findall(r"^\|[^|]+\| (`[^|]+`) \| ([0-9., ]+) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) >= 7
    for labels, shown in rows:
        found = [prices().runner([label]) for label in re.findall("`([^`]+)`", labels)]
        expected = list(dict.fromkeys(f"{runner.dollars:.3f}" for runner in found if runner))
        assert shown.split(", ") == expected, labels
