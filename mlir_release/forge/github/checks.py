"""Check runs and commit statuses of a repository on GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from github.Commit import Commit

    from mlir_release.forge.github.client import GitHubClient


class GitHubChecks:
    """Adapter of :class:`~mlir_release.snapshot.green.Checks`."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def newest(self, branch: str, count: int) -> Sequence[str]:
        """See :class:`Checks`. One request for every hundred commits."""

        def ask() -> list[str]:
            found = self._client.repository.get_commits(sha=branch)
            return [commit.sha for commit, _ in zip(found, range(count), strict=False)]

        return self._client.read(ask, about=branch)

    def results(self, commit: str, names: Sequence[str]) -> Mapping[str, bool]:
        """See :class:`Checks`. Of a check that ran twice the newest run counts, also while it has no result yet.

        Statuses cost a request of their own: they are asked for only if they can make the commit green.
        """
        place = self._client.lazy_commit(commit)
        runs = self._client.read(lambda: list(place.get_check_runs(filter="latest")), about=commit)
        newest = {run.name: run for run in sorted(runs, key=lambda run: run.id) if run.name in names}
        found = {name: run.conclusion == "success" for name, run in newest.items() if run.status == "completed"}
        others = set(names) - newest.keys()
        if others and all(found.get(name, False) for name in newest):
            found |= self._statuses(place, others)
        return found

    def _statuses(self, place: Commit, contexts: Collection[str]) -> dict[str, bool]:
        """The newest status of each context; GitHub lists the newest first."""
        from github.CommitStatus import CommitStatus
        from github.PaginatedList import PaginatedList

        # PyGithub's own get_statuses asks at an address that GitHub's description no longer has.
        listed = PaginatedList(CommitStatus, place.requester, f"{place.url}/statuses", None)
        states: dict[str, str] = {}
        for status in self._client.read(lambda: list(listed), about=place.sha):
            if status.context in contexts:
                states.setdefault(status.context, status.state)
        return {context: state == "success" for context, state in states.items() if state != "pending"}
