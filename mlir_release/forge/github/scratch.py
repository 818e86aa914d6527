"""What only a first run does to a repository: refs that come and go, and a run that is run again."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from mlir_release.forge.github.refusals import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.forge.github.client import GitHubClient


class Scratch:
    """Writes that no release needs. Each raises ForgeError where GitHub refuses."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def refs(self, prefix: str) -> Sequence[str]:
        """Refs that begin with ``prefix`` (``heads/first-run``), without ``refs/``."""
        rows = self._client.read(lambda: self._client.request("GET", f"/git/matching-refs/{quote(prefix)}"))[1]
        return [str(row["ref"]).removeprefix("refs/") for row in rows]

    def create_ref(self, name: str, commit: str) -> None:
        """Create ``heads/NAME`` or ``tags/NAME``; nothing if it is there."""
        body = {"ref": f"refs/{name}", "sha": commit}
        self._client.write(lambda: self._client.request("POST", "/git/refs", input=body), about=name)

    def delete_ref(self, name: str) -> None:
        """Delete ``heads/NAME`` or ``tags/NAME``; nothing if it is gone."""
        if name in self.refs(name):
            self._client.write(lambda: self._client.request("DELETE", f"/git/refs/{quote(name)}"), about=name)

    def delete_label(self, name: str) -> None:
        """Delete a label of issues; nothing if it is gone."""
        with suppress(NotFound):
            self._client.write(lambda: self._client.request("DELETE", f"/labels/{quote(name)}"), about=name)

    def before_newest_change(self, path: str, branch: str) -> str | None:
        """The commit before the newest one of a branch that changed a file or folder; None if there is no such."""
        asked = {"path": path, "sha": branch, "per_page": "1"}
        rows = self._client.read(lambda: self._client.request("GET", "/commits", parameters=asked), about=path)[1]
        parents = rows[0]["parents"] if rows else ()
        return str(parents[0]["sha"]) if parents else None

    def rerun_failed(self, run: str) -> None:
        """What *Re-run failed jobs* does. ``run``: its id"""
        path = f"/actions/runs/{run}/rerun-failed-jobs"
        self._client.write(lambda: self._client.request("POST", path), about=f"run {run}")
