"""What a week would take follows from the matrix; and the guide shows what the command says."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.extras.cost.estimate import OTHERS, assumptions, comparison, estimate, sdk_minutes
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.matrix_jobs import core_minutes, job_rows
from mlir_release.release.model.release_settings import TARGETS_FILE
from mlir_release.release.model.release_tags import SnapshotTag
from tests.made_up_project import made_up_targets, registered
from tests.targets_factory import make_row, make_targets

ROOT = Path(__file__).parents[4]
MATRIX = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))


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
    guide = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
    assert table in guide, f"prices, targets or assumptions changed; docs/cost.md must have these rows:\n{table}"


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
