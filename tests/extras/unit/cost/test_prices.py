"""What the labels of a runner tell: its system, its price and its cores."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from mlir_release.extras.cost.prices import prices, system_of

GUIDE = Path(__file__).parents[4] / "docs" / "cost.md"


@pytest.mark.parametrize(
    ("labels", "system", "price", "free_in_public"),
    [
        (["ubuntu-24.04"], "linux", 0.006, True),
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


def test_a_label_is_one_kind_of_runner_at_most() -> None:
    for label in (
        "ubuntu-latest",
        "ubuntu-24.04-arm",
        "windows-11-arm",
        "macos-15",
        "macos-15-intel",
        "macos-15-large",
    ):
        assert sum(runner.label.fullmatch(label) is not None for runner in prices().runners) == 1


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
