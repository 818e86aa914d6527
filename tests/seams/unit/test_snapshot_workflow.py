"""The scheduled workflow: each run also sweeps what is pending, whatever became of the bump."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from mlir_release.operate.doctor.settings import SCHEDULE_VARIABLE

FILE = Path(__file__).parents[3] / ".github" / "workflows" / "snapshot.yml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))


def test_every_scheduled_run_sweeps_also_if_the_bump_fails() -> None:
    assert WORKFLOW[True]["schedule"]  # YAML 1.1 reads the key "on" as a boolean
    job = WORKFLOW["jobs"]["sweep"]
    assert (job["needs"], job["if"]) == ("snapshot", "${{ !cancelled() && needs.snapshot.result != 'skipped' }}")
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == ["mlir-release release sweep"]


def test_the_schedule_does_nothing_until_the_variable_is_set() -> None:
    condition = WORKFLOW["jobs"]["snapshot"]["if"]
    assert condition == f"${{{{ github.event_name != 'schedule' || vars.{SCHEDULE_VARIABLE} == 'on' }}}}"


def test_the_sweep_runs_no_foreign_code_with_its_rights() -> None:
    job = WORKFLOW["jobs"]["sweep"]
    assert WORKFLOW["permissions"] == {}
    assert job["permissions"] == {"contents": "write", "actions": "write"}
    used = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
    assert used == ["actions/checkout", "./actions/setup"]
    assert job["steps"][0]["with"] == {"persist-credentials": False}
