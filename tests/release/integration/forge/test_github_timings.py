"""How long the runs on GitHub took, job by job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from mlir_release.release.forge.github.client import GitHubClient
from mlir_release.release.forge.github.runs import GitHubRuns
from tests.github_server import GitHubServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPOSITORY = "llvm/mlir-wheels"
MONDAY = datetime(2026, 11, 16, 6, 23, tzinfo=UTC)


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository(REPOSITORY, {"README": b"wheels\n"})
        yield server


@pytest.fixture
def timings(github: GitHubServer) -> GitHubRuns:
    return GitHubRuns(GitHubClient(REPOSITORY, token=github.token(), api=github.api_url, server=github.url))


def test_runs_of_more_than_a_page(github: GitHubServer, timings: GitHubRuns) -> None:
    made = [github.add_run(REPOSITORY, "snapshot.yml", created=MONDAY + timedelta(hours=hour)) for hour in range(250)]
    found = timings.since(MONDAY + timedelta(hours=10))
    assert [run.id for run in found] == [str(id) for id in reversed(made[10:])]
    assert {run.workflow for run in found} == {"snapshot.yml"}


def test_runs_of_more_than_a_search(github: GitHubServer, timings: GitHubRuns) -> None:
    for minute in range(1205):
        github.add_run(REPOSITORY, "ci.yml", created=MONDAY + timedelta(minutes=minute))
    assert len(timings.since(MONDAY)) == 1205


def test_jobs_with_their_steps(github: GitHubServer, timings: GitHubRuns) -> None:
    github.repositories[REPOSITORY].git.run("update-ref", "refs/tags/snapshot-20261116.01", "refs/heads/main")
    run = github.add_run(REPOSITORY, "release.yml", ref="snapshot-20261116.01", created=MONDAY)
    end = MONDAY + timedelta(hours=2)
    step = ("Build the SDK", MONDAY, end, "success")
    github.add_job(run, "sdk", labels=["ubuntu-24.04"], started=MONDAY, completed=end, steps=[step])
    github.add_job(run, "pypi", labels=[], started=MONDAY, completed=MONDAY, conclusion="skipped")
    github.add_job(run, "wheels", labels=["macos-15"], started=end, completed=None, conclusion=None)
    (found,) = timings.since(MONDAY)
    assert (found.ref, found.status) == ("snapshot-20261116.01", "in_progress")
    sdk, wheels = timings.jobs(found)
    assert (sdk.name, sdk.labels, sdk.started_at, sdk.completed_at) == ("sdk", ("ubuntu-24.04",), MONDAY, end)
    assert [(s.name, s.started_at, s.completed_at, s.conclusion) for s in sdk.steps] == [step]
    assert (wheels.status, wheels.conclusion, wheels.completed_at) == ("in_progress", None, None)
