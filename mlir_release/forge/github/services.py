"""GitHub's services beside releases: issues, the logs and timings of jobs, settings, attestations."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from mlir_release.console import console
from mlir_release.errors import ForgeError
from mlir_release.forge.github.issues import GitHubTracker
from mlir_release.forge.github.pulls import GitHubPullRequests
from mlir_release.forge.github.runs import GitHubRuns
from mlir_release.forge.github.settings import SettingsReader
from mlir_release.model.decode import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.forge.github.client import GitHubClient
    from mlir_release.forge.observations import Observations


class GitHubServices:
    """Adapter of :class:`~mlir_release.forge.services.Services`."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client
        self.address = f"github:{client.name}"
        self.url = client.where
        self.location = client.where.partition("://")[2]
        self.tracker = GitHubTracker(client)
        self.pulls = GitHubPullRequests(client)
        self.scratch = GitHubScratch(client)
        self.runs = GitHubRuns(client)

    def settings(self, files: Iterable[str], branch: str | None) -> Observations:
        """See :class:`~mlir_release.forge.services.Services`."""
        return SettingsReader(self._client).observe(files, branch)

    def file_of(self, repository: str, path: str, *, ref: str) -> bytes | None:
        """See :class:`~mlir_release.forge.services.Services`."""
        return SettingsReader(self._client.beside(repository)).file(path, ref)

    def keep_attestation(self, bundle: bytes) -> bool:
        """See :class:`~mlir_release.forge.services.Services`. A twin of a statement does no harm."""
        body = {"bundle": parse_json(bundle)}
        try:
            self._client.write(lambda: self._client.request("POST", "/attestations", input=body), about="attestations")
        except ForgeError as error:
            console.warn(f"GitHub does not store the attestation: {error.what}: {error.why}")
            return False
        return True


class GitHubScratch:
    """Adapter of :class:`~mlir_release.forge.services.Scratch`."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def refs(self, prefix: str) -> Sequence[str]:
        """See :class:`~mlir_release.forge.services.Scratch`."""
        rows = self._client.read(lambda: self._client.request("GET", f"/git/matching-refs/{quote(prefix)}"))[1]
        return [str(row["ref"]).removeprefix("refs/") for row in rows]

    def create_ref(self, name: str, commit: str) -> None:
        """See :class:`~mlir_release.forge.services.Scratch`."""
        body = {"ref": f"refs/{name}", "sha": commit}
        self._client.write(lambda: self._client.request("POST", "/git/refs", input=body), about=name)

    def delete_ref(self, name: str) -> None:
        """See :class:`~mlir_release.forge.services.Scratch`."""
        if name in self.refs(name):
            self._client.write(lambda: self._client.request("DELETE", f"/git/refs/{quote(name)}"), about=name)

    def before_newest_change(self, path: str, branch: str) -> str | None:
        """See :class:`~mlir_release.forge.services.Scratch`."""
        asked = {"path": path, "sha": branch, "per_page": "1"}
        rows = self._client.read(lambda: self._client.request("GET", "/commits", parameters=asked), about=path)[1]
        parents = rows[0]["parents"] if rows else ()
        return str(parents[0]["sha"]) if parents else None

    def rerun_failed(self, run: str) -> None:
        """See :class:`~mlir_release.forge.services.Scratch`."""
        path = f"/actions/runs/{run}/rerun-failed-jobs"
        self._client.write(lambda: self._client.request("POST", path), about=f"run {run}")
