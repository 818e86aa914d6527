"""Costs from a GitHub's own answers: re-runs count, skipped and running jobs do not."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.console import console
from tests.github_server import GitHubServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPOSITORY = "llvm/mlir-wheels"
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github", clock=lambda: NOW) as server:
        server.add_repository(REPOSITORY, {"README": b"x\n"})
        yield server


def add(github: GitHubServer, age: timedelta, *jobs: tuple[str, str, int, str], workflow: str = "release.yml") -> None:
    """A finished run with jobs: name, label, seconds, conclusion."""
    run = github.add_run(REPOSITORY, workflow, created=NOW - age)
    start = NOW - age
    for name, label, seconds, conclusion in jobs:
        end = start + timedelta(seconds=seconds)
        github.add_job(run, name, labels=[label], started=start, completed=end, conclusion=conclusion)
    github.finish_run(run, "success")


def measure(github: GitHubServer, monkeypatch: pytest.MonkeyPatch, *options: str) -> Any:
    for key, value in github.environment(REPOSITORY, github.token()).items():
        monkeypatch.setenv(key, value)
    console.json_mode = False
    done = CliRunner().invoke(app, ["cost", "--forge", f"github:{REPOSITORY}", *options], standalone_mode=False)
    assert done.exception is None, done.output
    return done.stdout


def test_a_weeks_cost(github: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    add(
        github,
        timedelta(days=1),
        ("linux-x86_64 / sdk: linux-x86_64", "ubuntu-24.04", 6000, "success"),
        ("macos-arm64 / wheels: mlir-macos-arm64-cp312", "macos-15", 61, "failure"),
        ("macos-arm64 / wheels: mlir-macos-arm64-cp312", "macos-15", 60, "success"),
        ("tests: smoke-mlir-macos-arm64-cp312", "macos-15", 30, "skipped"),
    )
    add(github, timedelta(days=9), ("publish: deploy pages", "ubuntu-24.04", 60, "success"), workflow="pages.yml")
    add(github, timedelta(days=10), ("tests: bindings-mlir-linux-x86_64-cp312", "ubuntu-24.04", 120, "success"))
    add(github, timedelta(days=15), ("linux-x86_64 / sdk: linux-x86_64", "ubuntu-24.04", 6000, "success"))
    running = github.add_run(REPOSITORY, "release.yml", created=NOW)
    github.add_job(running, "linux-x86_64 / sdk: linux-x86_64", labels=["ubuntu-24.04"], started=NOW, completed=None)
    found = json.loads(measure(github, monkeypatch, "--weeks", "2", "--json"))
    assert found["runs"] == 3
    assert {key: entry["billed_minutes"] for key, entry in found["systems"].items()} == {"linux": 51.5, "macos": 1.5}
    assert {key: entry["dollars"] for key, entry in found["stages"].items()} == {
        "publish": 0.0,
        "sdk": 0.3,
        "tests": 0.01,
        "wheels": 0.09,
    }
    assert found["prices"]["not_priced"]
    shown = measure(github, monkeypatch, "--weeks", "2")
    assert "3 runs in 2 weeks" in shown
    assert "actions-runner-pricing, read on 20" in shown
    assert "self-hosted runners" in shown
