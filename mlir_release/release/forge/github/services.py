"""GitHub's services beside releases: issues, the logs and timings of jobs, settings, attestations."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import parse_json
from mlir_release.ground.errors import ForgeError
from mlir_release.release.forge.github.issues import GitHubTracker
from mlir_release.release.forge.github.refusals import NotFound
from mlir_release.release.forge.github.runs import GitHubRuns
from mlir_release.release.forge.github.settings import SettingsReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.release.forge.github.client import GitHubClient
    from mlir_release.release.forge.observations import Observations


class GitHubServices:
    """Adapter of :class:`~mlir_release.release.forge.services.Services`."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client
        self.address = f"github:{client.name}"
        self.url = client.where
        self.location = client.where.partition("://")[2]
        self.tracker = GitHubTracker(client)
        self.runs = GitHubRuns(client)

    def settings(self, files: Iterable[str], branch: str | None) -> Observations:
        return SettingsReader(self._client).observe(files, branch)

    def file_of(self, repository: str, path: str, *, ref: str) -> bytes | None:
        return SettingsReader(self._client.beside(repository)).file(path, ref)

    def tidy_caches(self, branch: str) -> Sequence[str]:
        """See :class:`~mlir_release.release.forge.services.Services`. A key ends in the run's number and attempt."""
        pages = self._client.pages(
            "/actions/caches", "actions_caches", ref=f"refs/heads/{branch}", sort="created_at", direction="desc"
        )
        newest: set[str] = set()
        superseded = {}
        for row in chain.from_iterable(pages):
            if (name := re.fullmatch(r"(compiled-.+)-\d+-\d+", row["key"])) is None:
                continue
            if name[1] in newest:
                superseded[row["id"]] = row["key"]
            newest.add(name[1])
        for number, key in superseded.items():
            with suppress(NotFound):  # GitHub has taken it away meanwhile, or another run has
                self._client.write(partial(self._client.request, "DELETE", f"/actions/caches/{number}"), about=key)
        return list(superseded.values())

    def keep_attestation(self, bundle: bytes) -> bool:
        """See :class:`~mlir_release.release.forge.services.Services`. A twin of a statement does no harm."""
        body = {"bundle": parse_json(bundle)}
        try:
            self._client.write(lambda: self._client.request("POST", "/attestations", input=body), about="attestations")
        except ForgeError as error:
            console.warn(f"GitHub does not store the attestation: {error.what}: {error.why}")
            return False
        return True
