"""Minutes and dollars, measured and estimated: both add up, and the guide shows them."""

from __future__ import annotations

import json
import math
import re
from datetime import date
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.cli.app import app
from mlir_release.extras.cost.estimate import OTHERS, assumptions, comparison, estimate, sdk_minutes
from mlir_release.extras.cost.measured import Spent, add_up, prices, system_of
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.matrix_jobs import core_minutes, job_rows
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import SnapshotTag
from tests.made_up_project import made_up_targets, registered
from tests.targets_factory import make_row, make_targets

ROOT = Path(__file__).parents[4]
GUIDE = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
MATRIX = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))
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


def test_the_guide_shows_the_same_prices() -> None:
    rows = re.findall(r"^\|[^|]+\| (`[^|]+`) \| ([0-9., ]+) \|$", GUIDE, re.MULTILINE)
    assert len(rows) >= 7
    for labels, shown in rows:
        found = [prices().runner([label]) for label in re.findall("`([^`]+)`", labels)]
        expected = list(dict.fromkeys(f"{runner.dollars:.3f}" for runner in found if runner))
        assert shown.split(", ") == expected, labels


# -- estimates ------------------------------------------------------------------------------------------------------


def jobs_of(matrix: Matrix, kind: str) -> int:
    rows = job_rows(matrix, "platforms")
    return sum(len(json.loads(row[kind])["include"]) for row in rows)


def test_every_job_of_a_week_is_counted() -> None:
    week = [MATRIX.for_tag(SnapshotTag(date(2026, 11, day), 1)) for day in range(23, 30)]
    cost = estimate(MATRIX, per_day=3, public=False)
    for kind, more in (("wheels", 0), ("tests", len(MATRIX.canaries))):
        assert cost.stages[kind].jobs == 3 * sum(jobs_of(matrix, kind) + more for matrix in week)
    # Each SDK has its cache.
    assert cost.stages["sdk"].jobs == 3 * sum(2 * len(job_rows(matrix, "sdk")) + 3 for matrix in week)
    assert "other" not in cost.stages
    assert "other" not in cost.systems
    assert cost.unpriced == {}
    known = {(workflow, name) for workflow, name, _ in OTHERS}
    assert len(known) == len(OTHERS)


def test_twice_the_snapshots_are_twice_the_minutes() -> None:
    one, two = (estimate(MATRIX, per_day=count, public=True) for count in (1, 2))
    assert two.total.billed == 2 * one.total.billed
    assert two.total.dollars == pytest.approx(2 * one.total.dollars)
    assert two.total.dollars_in_public == 0


def test_a_suite_of_an_sdks_wheel_is_no_build_of_the_sdk() -> None:
    row = make_row("mlir-sdk", suites=["sdk"])
    without, having = (
        estimate(Matrix.parse(make_targets(*rows)), per_day=1, public=False)
        for rows in ([make_row()], [make_row(), row])
    )
    assert having.stages["sdk"].billed == without.stages["sdk"].billed
    assert having.stages["tests"].seconds > without.stages["tests"].seconds


@pytest.mark.parametrize("group", ["stages", "systems"])
def test_the_guide_shows_what_comes_out_today(group: Literal["stages", "systems"]) -> None:
    private, public = estimate(MATRIX, public=False), estimate(MATRIX, public=True)
    rows = comparison(private, public, group)
    table = "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)
    assert table in GUIDE, f"prices, targets or assumptions changed; docs/cost.md must have these rows:\n{table}"


@pytest.mark.parametrize(("cron", "runs"), [("17 3,15 * * *", 2), ("5,35 */6 * * *", 8), ("0 4 * * 1", 0)])
def test_the_command_takes_the_schedule_of_the_checkout(cron: str, runs: int, tmp_path: Path) -> None:
    (tmp_path / TARGETS_FILE).write_bytes((ROOT / TARGETS_FILE).read_bytes())
    schedule = tmp_path / ".github" / "workflows" / "snapshot.yml"
    schedule.parent.mkdir(parents=True)
    schedule.write_text(f'on:\n  schedule:\n    - cron: "{cron}"\n', encoding="utf-8")
    shown = CliRunner().invoke(app, ["cost", "--estimate", "-C", str(tmp_path)], standalone_mode=False).stdout
    assert f"snapshots of new revisions a day: {runs or 2};" in shown


def test_the_command_says_what_it_assumes() -> None:
    command = ["cost", "--estimate", "--per-day", "1", "-C", str(ROOT)]
    shown = CliRunner().invoke(app, command, standalone_mode=False).stdout
    assert "snapshots of new revisions a day: 1" in shown
    assert "(assumed)" in shown
    assert "read on 20" in shown
    minutes = re.findall(r"^ *together +\d+ +([\d,]+)", shown, re.MULTILINE)
    assert len(minutes) == 2
    assert f"a week: {minutes[0]} billed minutes" in shown  # the same figure, under the same name
    found = json.loads(CliRunner().invoke(app, [*command, "--json"], standalone_mode=False).stdout)
    assert found["private"]["total"]["dollars"] > 0
    assert found["public"]["total"]["dollars"] > 0  # what the same would cost if it were private
    assert found["public"]["total"]["dollars_in_public"] == 0
    assert found["assumptions"]


def test_each_project_has_minutes_of_its_own() -> None:
    with registered("plain"):
        matrix = Matrix.parse(made_up_targets(mlir=True, suites=("smoke", "bindings")))
        mlir, plain = matrix.runtimes
        assert sdk_minutes(mlir, 4) - sdk_minutes(plain, 4) == (360 - 100) / 4
        minutes = {test.name: core_minutes(test) for test in matrix.tests if test.suite == "bindings"}
        assert set(minutes.values()) == {1.0}
        lines = assumptions(matrix, 2)
        assert any(line.startswith("plain: core minutes of an SDK: 100,") and "(assumed)" in line for line in lines)
