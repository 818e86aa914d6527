"""What a day asks of GitHub's APIs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.extras.cost.requests import Day, a_day, counted, runs_a_day
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE

ROOT = Path(__file__).parents[4]
MATRIX = Matrix.parse((ROOT / TARGETS_FILE).read_text(encoding="utf-8"))
SCHEDULE = (ROOT / ".github" / "workflows" / "snapshot.yml").read_text(encoding="utf-8")


def test_the_guide_shows_what_comes_out_today() -> None:
    rows = a_day(MATRIX, per_day=runs_a_day(SCHEDULE)).table()
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    guide = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    assert table in guide, f"counts, targets or the schedule changed; docs/limits.md must have these rows:\n{table}"


def test_twice_the_snapshots_are_twice_the_requests() -> None:
    one, two = (a_day(MATRIX, per_day=count) for count in (1, 2))
    assert two.total("rest") == 2 * one.total("rest")
    assert two.share("rest") == one.share("rest") == one.total("rest") / counted().limits.rest
    upload = next(row for row in one.rows if row.command == "publish --upload-only")
    wheels, tests = len(MATRIX.wheels), len(MATRIX.tests)
    assert (upload.rest, upload.writes) == (8 * len(MATRIX.runtimes) + 8 * wheels + 4 * tests, 4 * wheels + 2 * tests)


@pytest.mark.parametrize(
    ("cron", "runs"),
    [("17 3,15 * * *", 2), ("0 * * * *", 24), ("5,35 */6 * * *", 8), ("*/30 4 * * *", 2), ("0 4 * * 1", 0)],
)
def test_the_schedule_is_read(cron: str, runs: int) -> None:
    assert runs_a_day(f'on:\n  schedule:\n    - cron: "{cron}"\n') == runs


def test_the_command_takes_the_schedule_of_the_checkout(tmp_path: Path) -> None:

    def ask(*options: str) -> str:
        return CliRunner().invoke(app, ["cost", "--requests", *options], standalone_mode=False).stdout

    shown = ask("-C", str(ROOT))
    assert f"a day of {runs_a_day(SCHEDULE)} snapshots" in shown
    assert all(title.lstrip(">") in shown for title in Day.COLUMNS)
    (tmp_path / TARGETS_FILE).write_bytes((ROOT / TARGETS_FILE).read_bytes())
    assert "a day of 2 snapshots" in ask("-C", str(tmp_path))
    found = json.loads(ask("--json", "--per-day", "3", "-C", str(tmp_path)))
    assert found["snapshots"] == 3
    assert found["limits"]["rest"] == 1000
