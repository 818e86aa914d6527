"""Check runs and commit statuses of a repository on GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.forge.github_client import GitHubClient


class GitHubChecks:
    """Adapter of :class:`~mlir_release.green.Checks`."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def newest(self, branch: str, count: int) -> Sequence[str]:
        """See :class:`Checks`. One request for every hundred commits."""

        def ask() -> list[str]:
            found = self._client.repository.get_commits(sha=branch)
            return [commit.sha for commit, _ in zip(found, range(count), strict=False)]

        return self._client.read(ask, about=branch)

    def results(self, commit: str, names: Sequence[str]) -> Mapping[str, bool]:
        """See :class:`Checks`. Of a check that ran twice the newest run counts; statuses are asked for if need be."""
        place = self._client.lazy_commit(commit)
        runs = self._client.read(lambda: list(place.get_check_runs(filter="latest")), about=commit)
        found: dict[str, bool] = {}
        for run in sorted(runs, key=lambda run: run.id):
            if run.name in names and run.status == "completed":
                found[run.name] = run.conclusion == "success"
            elif run.name in names:
                found.pop(run.name, None)  # it runs again
        if len(found) < len(names):
            combined = self._client.read(place.get_combined_status, about=commit)
            for status in combined.statuses:
                if status.context in names and status.state != "pending":
                    found.setdefault(status.context, status.state == "success")
        return found
