"""Whether an upstream is a repository on GitHub, and with which token it may be asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.forge.github.client import GitHubClient

#: ``https://github.com/llvm/llvm-project.git``, ``ssh://git@github.com/…``, ``git@github.com:…``.
ON_GITHUB = re.compile(
    r"(?:(?P<scheme>https?|ssh)://(?:[^@/]+@)?(?P<host>[^/]+)/|[^@/:]+@(?P<ssh_host>[^:/]+):)"
    r"(?P<name>[\w.-]+/[\w.-]+?)(?:\.git)?/?"
)


def github_of(url: str, environ: Mapping[str, str]) -> GitHubClient | None:
    """The client of a repository on github.com, or on the environment's own server; None: it is elsewhere.

    The environment's token is shown to the environment's own server only: an Enterprise server's is no business of
    github.com, nor the other way round.
    """
    from mlir_release.forge.github.client import DEFAULT_SERVER, GitHubClient

    match = ON_GITHUB.fullmatch(url)
    host = (match["host"] or match["ssh_host"]) if match is not None else ""
    if match is not None and host == urlsplit(environ.get("GITHUB_SERVER_URL") or DEFAULT_SERVER).netloc:
        return GitHubClient.of_environment(match["name"], environ)
    if match is not None and host == urlsplit(DEFAULT_SERVER).netloc:
        return GitHubClient(match["name"], token=None)
    return None
