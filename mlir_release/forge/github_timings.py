"""Workflow runs on GitHub with the times of their jobs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from mlir_release.cost import Job, RunTimes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.forge.github_client import GitHubClient

#: GitHub shows this many results of one search, and may count no further; such a span is asked for in halves.
_MOST = 1000


class GitHubTimings:
    """Adapter of :class:`~mlir_release.cost.Timings`."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def _pages(self, path: str, key: str, **parameters: str) -> Iterator[dict[str, Any]]:
        """The rows of a list, and first of all a row that holds their number: ``{"total_count": …}``."""
        for page in range(1, _MOST // 100 + 1):
            given = {**parameters, "per_page": "100", "page": str(page)}
            address = f"/repos/{self._client.name}/actions/{path}"

            def ask(address: str = address, given: dict[str, str] = given) -> Any:
                return self._client.repository.requester.requestJsonAndCheck("GET", address, parameters=given)[1]

            data = self._client.read(ask, about=path)
            if page == 1:
                yield {"total_count": data["total_count"]}
            yield from data[key]
            if len(data[key]) < 100:
                return

    def workflow_runs(self, since: datetime, until: datetime) -> Iterator[RunTimes]:
        """See :class:`Timings`."""
        created = "..".join(when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for when in (since, until))
        rows = self._pages("runs", "workflow_runs", created=created, status="completed")
        if next(rows)["total_count"] >= _MOST and until - since > timedelta(seconds=2):
            middle = since + (until - since) / 2
            yield from self.workflow_runs(since, middle)
            yield from self.workflow_runs(middle, until)
            return
        for row in rows:
            when = datetime.fromisoformat(row["created_at"])
            yield RunTimes(id=str(row["id"]), workflow=row["path"].partition("@")[0], created_at=when)

    def jobs(self, run: RunTimes) -> Sequence[Job]:
        """See :class:`Timings`. Skipped jobs have no runner and took no time."""
        rows = self._pages(f"runs/{run.id}/jobs", "jobs", filter="all")
        next(rows)
        found = []
        for row in rows:
            if row["status"] != "completed" or row["conclusion"] == "skipped" or not row["completed_at"]:
                continue
            took = datetime.fromisoformat(row["completed_at"]) - datetime.fromisoformat(row["started_at"])
            if row["runner_id"] and took > timedelta(0):
                found.append(Job(name=row["name"], labels=tuple(row["labels"]), seconds=took.total_seconds()))
        return found
