"""GitHub Pages: the files of the last deployment, behind a cache that keeps what it has served for ten minutes."""

from __future__ import annotations

import mimetypes
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.github_server.records import Answer

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from tests.github_server.server import GitHubServer

#: GitHub's ``Cache-Control: max-age=600``.
KEPT = timedelta(minutes=10)


class Pages:
    """The pages of all repositories, at ``/pages/OWNER/NAME/``; ``asked``: the paths that were asked for."""

    def __init__(self, github: GitHubServer) -> None:
        self._github = github
        self._deployed: dict[str, dict[str, bytes]] = {}
        self._cache: dict[str, tuple[bytes | None, datetime]] = {}
        self.asked: list[str] = []

    def deploy(self, repository: str, folder: Path) -> str:
        """Replace a repository's pages by a folder's files; returns :meth:`address`."""
        files = (path for path in folder.rglob("*") if path.is_file())
        self._deployed[repository] = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
        return self.address(repository)

    def address(self, repository: str) -> str:
        """Where the pages of a repository are, or will be; it ends in a slash."""
        return f"{self._github.url}/pages/{repository}/"

    def serve(self, path: str) -> Answer:
        """One file, as old as the cache has it; that there is none is kept, too."""
        now = self._github.clock()
        with self._github.lock:
            self.asked.append(path)
            content, since = self._cache.get(path, (None, None))
            if since is None or now - since >= KEPT:
                since, content = now, self._read(path)
                self._cache[path] = (content, since)
        headers = {"Cache-Control": f"max-age={KEPT.seconds}", "Age": str(int((now - since).total_seconds()))}
        if content is None:
            return Answer(404, b"Not Found", headers)
        kind, _ = mimetypes.guess_type("index.html" if path.endswith("/") else path)
        return Answer(200, content, headers | {"Content-Type": kind or "application/octet-stream"})

    def _read(self, path: str) -> bytes | None:
        *repository, rest = path.removeprefix("/pages/").split("/", 2)
        file = rest + "index.html" if rest.endswith("/") or not rest else rest
        return self._deployed.get("/".join(repository), {}).get(file)
