"""The scheduled workflow: each run also sweeps what is pending, whatever became of the bump."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parents[2] / ".github" / "workflows" / "snapshot.yml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))


def test_every_scheduled_run_sweeps_also_if_the_bump_fails() -> None:
    assert WORKFLOW[True]["schedule"]  # YAML 1.1 reads the key "on" as a boolean
    job = WORKFLOW["jobs"]["sweep"]
    assert (job["needs"], job["if"]) == ("snapshot", "${{ !cancelled() }}")
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == ["mlir-release release sweep"]


def test_the_sweep_runs_no_foreign_code_with_its_rights() -> None:
    job = WORKFLOW["jobs"]["sweep"]
    assert WORKFLOW["permissions"] == {}
    assert job["permissions"] == {"contents": "write", "actions": "write"}
    used = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
    assert used == ["actions/checkout", "./actions/setup"]
    assert job["steps"][0]["with"] == {"persist-credentials": False}
