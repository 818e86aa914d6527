"""The bytes that a year of releases adds."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import tomli_w

from benchmarks.week.storage import a_year
from mlir_release.extras.cost.estimate import runs_a_day
from mlir_release.ground.llvm.projects import find_project
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE
from tests.made_up_project import made_up_targets, registered
from tests.targets_factory import make_row, make_targets

ROOT = Path(__file__).parents[4]
SHIPPED = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))
PROFILES = find_project("mlir").profiles
PER_DAY = runs_a_day((ROOT / ".github" / "workflows" / "snapshot.yml").read_text(encoding="utf-8"))


def test_every_profile_has_a_size() -> None:
    assert all(profile.size for ours in ("mlir", "clang") for profile in find_project(ours).profiles.values())


def test_a_weekly_configuration_is_kept_52_times_a_year() -> None:
    data = tomllib.loads(make_targets(make_row(), make_row("mlir-sdk", suites=["sdk"])))
    data["llvm"]["mlir-sdk"]["cadence"] = "weekly"
    year = a_year(Matrix.parse(tomli_w.dumps(data)), per_day=1)
    daily, weekly = year.rows
    assert (daily.files, daily.size, daily.releases) == (2, 2 * PROFILES["host"].size, 364)
    assert (weekly.files, weekly.size, weekly.releases) == (1, PROFILES["sdk"].size, 52)
    assert year.table()[-1][-1] == f"{(daily.a_year + weekly.a_year) / 1e9:,.1f}"


def test_one_wheel_for_several_cpythons_is_kept_once() -> None:
    whole, shared = (a_year(matrix, per_day=1) for matrix in (SHIPPED, SHIPPED.merge_abi3(lambda _: True)))
    assert sum(row.a_year for row in shared.rows) < 0.7 * sum(row.a_year for row in whole.rows)


def test_a_size_that_nobody_has_measured_is_told() -> None:
    with registered("plain"):
        year = a_year(Matrix.parse(made_up_targets(mlir=True)), per_day=1)
    assert [row.size > 0 for row in year.rows] == [True, False]
    assert "not measured, and not in the sums: plain" in year.text()


@pytest.mark.parametrize("abi3", [False, True])
def test_the_guide_shows_what_comes_out_today(abi3: bool) -> None:
    matrix = SHIPPED.merge_abi3(lambda _: True) if abi3 else SHIPPED
    table = "\n".join("| " + " | ".join(row) + " |" for row in a_year(matrix, per_day=PER_DAY).table())
    guide = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
    if abi3:  # of that table the guide has only the sum
        table = f"{table.splitlines()[-1].split('|')[-2].strip()} GB"
    assert table in guide, f"sizes, targets or the schedule changed; docs/cost.md must have:\n{table}"
