"""Permissions in the workflow that walks LLVM forward: jobs that run foreign code can't write and see no secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

FILE = Path(__file__).parents[2] / ".github" / "workflows" / "integrate.yml"
WORKFLOW: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))


def test_only_the_last_job_writes() -> None:
    assert WORKFLOW["permissions"] == {}
    writing = [name for name, job in WORKFLOW["jobs"].items() if "write" in job["permissions"].values()]
    assert writing == ["advance"]


@pytest.mark.parametrize("name", ["plan", "probe"])
def test_the_other_jobs_have_no_secrets(name: str) -> None:
    job = WORKFLOW["jobs"][name]
    assert job["permissions"] == {"contents": "read"}
    assert "secrets" not in job
    assert "secrets." not in yaml.safe_dump(job)
    assert not [step for step in job["steps"] if "token" in step.get("with", {})]


def test_the_checkout_of_a_probe_has_no_credentials() -> None:
    (checkout,) = [s for s in WORKFLOW["jobs"]["probe"]["steps"] if s.get("uses", "").startswith("actions/checkout@")]
    assert checkout["with"]["persist-credentials"] is False
