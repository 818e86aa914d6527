"""Commits of a repository on GitHub, and their checks: check runs (Actions) and commit statuses (buildbots)."""

from __future__ import annotations

from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING

from mlir_release.release.forge.services import PENDING, Commit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from mlir_release.release.forge.github.client import GitHubClient


class GitHubChecks:
    """Adapter of :class:`~mlir_release.release.forge.services.Checks`."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client
        #: First the kind that had all names last time, because each kind costs a request.
        self._order: list[Callable[[str, Collection[str]], dict[str, str]]] = [self._runs, self._statuses]

    def newest(self, branch: str, count: int) -> Sequence[Commit]:
        """See :class:`Checks`. One request for every hundred commits."""
        found = []
        for row in islice(chain.from_iterable(self._client.pages("/commits", sha=branch)), count):
            inner = row["commit"]
            when = datetime.fromisoformat(inner["committer"]["date"])
            found.append(Commit(sha=row["sha"], when=when, subject=inner["message"].partition("\n")[0]))
        return found

    def states(self, commit: str, names: Collection[str]) -> dict[str, str]:
        """See :class:`Checks`. Two requests at most, one if all names are found by the first; plus further pages.

        A status does not stand in for a check run of the same name.
        """
        found: dict[str, str] = {}
        for ask in tuple(self._order):
            wanted = set(names) - found.keys()
            if not wanted:
                break
            answer = ask(commit, wanted)
            found = answer | found
            if answer.keys() >= set(names):
                self._order.sort(key=lambda other: other != ask)
        return found

    def _runs(self, commit: str, names: Collection[str]) -> dict[str, str]:
        """Of a check that ran several times the newest run counts, also while it has no result yet."""
        pages = self._client.pages(f"/commits/{commit}/check-runs", "check_runs", filter="latest")
        runs = sorted(chain.from_iterable(pages), key=lambda run: int(run["id"]))
        return {run["name"]: run["conclusion"] if run["status"] == "completed" else PENDING for run in runs}

    def _statuses(self, commit: str, names: Collection[str]) -> dict[str, str]:
        """The newest status of each context; of further pages only those that are needed to find ``names``."""
        found: dict[str, str] = {}
        for page in self._client.pages(f"/commits/{commit}/status", "statuses"):
            found |= {status["context"]: status["state"] for status in page}
            if found.keys() >= set(names):
                break
        return found
