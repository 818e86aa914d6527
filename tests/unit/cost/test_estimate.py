"""What a week would take follows from the matrix; and the guide shows what the command says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.console import console
from mlir_release.cost.estimate import OTHERS, SUITE_WORK, comparison, estimate
from mlir_release.model.matrix import Matrix
from mlir_release.model.matrix_jobs import job_rows
from mlir_release.model.suites import SUITES
from mlir_release.model.targets import TARGETS_FILE
from tests.targets_factory import make_row, make_targets

ROOT = Path(__file__).parents[3]
MATRIX = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))


def test_every_job_of_a_week_is_counted() -> None:
    always = [wheel for wheel in MATRIX.wheels if wheel.configuration.cadence == "always"]
    weekly = len(MATRIX.wheels) - len(always)
    cost = estimate(MATRIX, per_day=3, public=False)
    assert cost.stages["wheels"].jobs == 3 * (7 * len(always) + weekly)  # weekly: on Mondays
    assert cost.stages["sdk"].jobs == 3 * 7 * (2 * len(job_rows(MATRIX, "sdk")) + 2)  # each with its compiler cache
    assert "other" not in cost.stages
    assert "other" not in cost.systems
    assert cost.unpriced == {}
    known = {(workflow, name) for workflow, name, _ in OTHERS}
    assert len(known) == len(OTHERS)


def test_every_suite_has_its_work() -> None:
    assert SUITE_WORK.keys() == SUITES.keys()


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
    assert having.stages["tests"].jobs == without.stages["tests"].jobs + 7


@pytest.mark.parametrize("group", ["stages", "systems"])
def test_the_guide_shows_what_comes_out_today(group: Literal["stages", "systems"]) -> None:
    private, public = estimate(MATRIX, public=False), estimate(MATRIX, public=True)
    rows = comparison(private, public, group)
    table = "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)
    guide = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    assert table in guide, f"prices, targets or assumptions changed; docs/operating.md must have these rows:\n{table}"


def test_the_command_says_what_it_assumes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "json_mode", False)
    command = ["cost", "--estimate", "--per-day", "1", "-C", str(ROOT)]
    shown = CliRunner().invoke(app, command, standalone_mode=False).stdout
    assert "snapshots of new revisions a day: 1" in shown
    assert "(assumed)" in shown
    assert "read on 20" in shown
    found = json.loads(CliRunner().invoke(app, [*command, "--json"], standalone_mode=False).stdout)
    assert found["private"]["total"]["dollars"] > 0
    assert found["public"]["total"]["dollars"] > 0  # what the same would cost if it were private
    assert found["public"]["total"]["dollars_in_public"] == 0
    assert found["assumptions"]
