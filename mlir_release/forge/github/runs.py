"""Workflow runs on GitHub with their jobs and how long they took."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mlir_release.forge.base import Run, RunJob, RunStep
from mlir_release.forge.github.client import PER_PAGE
from mlir_release.model.manifest import format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.forge.github.client import GitHubClient

#: GitHub shows at most a thousand runs for one search (docs.github.com, "List workflow runs").
_RUNS_OF_A_SEARCH = 1000


class GitHubRuns:
    """Adapter of :class:`~mlir_release.forge.base.Timings` and :class:`~mlir_release.forge.base.JobLogs`."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def workflow_runs(self, since: datetime) -> Sequence[Run]:
        """See :class:`~mlir_release.forge.base.Timings`. A search that is full is followed by one of what is older."""
        found: dict[str, Run] = {}
        until = ""
        while True:
            before = len(found)
            created = f"{format_time(since)}..{until}" if until else f">={format_time(since)}"
            pages = self._client.pages("/actions/runs", "workflow_runs", created=created)
            rows = list(itertools.chain.from_iterable(itertools.islice(pages, _RUNS_OF_A_SEARCH // PER_PAGE)))
            found |= {run.id: run for run in map(run_record, rows)}
            # Where a thousand runs were created in one second, no search can part them.
            if len(rows) < _RUNS_OF_A_SEARCH or len(found) == before:
                return sorted(found.values(), key=lambda run: (run.created_at, run.id), reverse=True)
            until = format_time(min(run.created_at for run in found.values()))

    def jobs(self, run: Run) -> Sequence[RunJob]:
        """See :class:`~mlir_release.forge.base.Timings`."""
        pages = self._client.pages(f"/actions/runs/{run.id}/jobs", "jobs", filter="all")
        rows = itertools.chain.from_iterable(pages)
        return [_job(row) for row in rows if row["started_at"] and row["conclusion"] != "skipped"]

    def log(self, job: RunJob, destination: Path) -> None:
        """See :class:`~mlir_release.forge.base.JobLogs`. GitHub keeps logs for 90 days, unless it is told otherwise."""
        client = self._client
        url = f"{client.api}/repos/{client.name}/actions/jobs/{job.id}/logs"
        client.read(lambda: client.fetch(url, destination, accept="application/vnd.github+json"), about=job.name)


def run_record(row: dict[str, Any]) -> Run:
    """A run as REST gives it, as ours. GitHub does not tell the inputs of a run."""
    return Run(
        id=str(row["id"]),
        workflow=row["path"].partition("@")[0].rpartition("/")[2],
        ref=row["head_branch"] or "",
        status=_status(row["status"]),
        conclusion=row["conclusion"],
        created_at=datetime.fromisoformat(row["created_at"]),
        url=row["html_url"],
        commit=row["head_sha"],
    )


def _job(row: dict[str, Any]) -> RunJob:
    return RunJob(
        id=str(row["id"]),
        name=row["name"],
        run_id=str(row["run_id"]),
        labels=tuple(row["labels"]),
        status=_status(row["status"]),
        conclusion=row["conclusion"],
        started_at=datetime.fromisoformat(row["started_at"]),
        completed_at=_when(row["completed_at"]),
        steps=tuple(
            RunStep(
                name=step["name"],
                conclusion=step["conclusion"],
                started_at=_when(step.get("started_at")),
                completed_at=_when(step.get("completed_at")),
            )
            for step in row.get("steps") or []
        ),
        url=row["html_url"] or "",
    )


def _status(status: str) -> str:
    """GitHub knows more ways of waiting (requested, waiting, pending …)."""
    return status if status in ("in_progress", "completed") else "queued"


def _when(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
