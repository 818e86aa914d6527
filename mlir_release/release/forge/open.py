"""Open an address as a forge, a repository's pull requests, or the checks of an upstream's commits."""

from __future__ import annotations

import os
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mlir_release.ground.console import console
from mlir_release.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.ground.hosting import PullRequests, RunJob, Tracker
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.forge.github.client import GitHubClient
    from mlir_release.release.forge.services import Checks

#: Names the forge of commands that are given none.
FORGE_VARIABLE = "MLIR_RELEASE_FORGE"

#: ``https://github.com/llvm/llvm-project.git``, ``ssh://git@github.com/…``, ``git@github.com:…``.
_ON_GITHUB = re.compile(
    r"(?:(?:https?|ssh)://(?:[^@/]+@)?(?P<host>[^/]+)/|[^@/:]+@(?P<ssh_host>[^:/]+):)"
    r"(?P<name>[\w.-]+/[\w.-]+?)(?:\.git)?/?"
)


def open_forge(address: str | None = None, environ: Mapping[str, str] = os.environ) -> Forge:
    """The forge at ``address``: ``github:OWNER/NAME``, ``local:PATH``, or a plain path.

    A folder is never implied: one below the current folder may have come with a checkout of others.

    :param address: None: that of :data:`FORGE_VARIABLE`, else a workflow's own repository
    :raises UsageError: ``input-missing``, ``option-invalid``
    """
    chosen = address or default_address(environ)
    if chosen is None:
        raise UsageError(
            "input-missing",
            "no release repository is named",
            remedy=f"name one with --forge or {FORGE_VARIABLE} (github:OWNER/NAME, local:PATH), "
            "or make one in a folder (mlir-release forge init, mlir-release rehearsal)",
        )
    kind, colon, rest = chosen.partition(":")
    if kind == "github" and colon:
        from mlir_release.release.forge.github.forge import GitHubForge

        return GitHubForge.open(rest, environ=environ)
    from mlir_release.release.forge.local.forge import LocalForge

    path = local_folder(chosen)
    if not (path / "repository.git").is_dir():
        raise UsageError(
            "input-missing",
            "there is no local forge in that folder",
            where=str(path),
            remedy="correct the path, or make one there, in a checkout of a release repository: "
            f"mlir-release forge init {shlex.quote(str(path))}",
        )
    return LocalForge(path)


def local_folder(address: str) -> Path:
    """The folder that ``local:PATH``, or a plain path, names."""
    return Path(address.removeprefix("local:"))


def default_address(environ: Mapping[str, str]) -> str | None:
    """The address that the environment implies, or None."""
    if environ.get(FORGE_VARIABLE):
        return environ[FORGE_VARIABLE]
    repository = environ.get("GITHUB_REPOSITORY")
    if environ.get("GITHUB_ACTIONS") == "true" and repository:
        return f"github:{repository}"
    return None


def served_at(forge: Forge, url: str) -> Forge:
    """A local forge whose releases are served below ``url``. :raises UsageError: ``option-invalid``"""
    from mlir_release.release.forge.local.forge import LocalForge

    if not isinstance(forge, LocalForge):
        raise UsageError(
            "option-invalid",
            "only the files of a local forge can be served from another address",
            where=forge.description,
            remedy="leave --files-url out: the pages link to the forge's own addresses",
        )
    return LocalForge(forge.root, base_url=url)


def open_pulls() -> PullRequests | None:
    """The pull requests of ``$GITHUB_REPOSITORY``, with ``$GITHUB_TOKEN``; None unless both are set."""
    repository, token = os.environ.get("GITHUB_REPOSITORY"), os.environ.get("GITHUB_TOKEN")
    if not repository or not token:
        return None
    from mlir_release.release.forge.github.client import GitHubClient
    from mlir_release.release.forge.github.issues import GitHubPullRequests

    return GitHubPullRequests(GitHubClient.of_environment(repository))


def jobs_of_run(run: str) -> Sequence[RunJob]:
    """The jobs of a run in ``$GITHUB_REPOSITORY``, with ``$GITHUB_TOKEN``. ``run``: its id

    :raises UsageError: ``needs-github``, unless both are set
    """
    remedy = "set both, the token with actions: read; elsewhere, leave out --run"
    client = _client_of_variables("only GitHub knows how the jobs of its runs ended", remedy)
    from mlir_release.release.forge.github.runs import GitHubRuns
    from mlir_release.release.forge.services import Run

    shell = Run(id=run, workflow="", ref="", status="", conclusion=None, created_at=datetime.now(UTC))
    return GitHubRuns(client).jobs(shell)


def open_roll_issues() -> Tracker:
    """The issues about integrates in ``$GITHUB_REPOSITORY``, with ``$GITHUB_TOKEN``.

    :raises UsageError: ``needs-github``, unless both are set
    """
    remedy = "set both, the token with issues: write; or leave out --track"
    client = _client_of_variables("an issue is kept on GitHub only", remedy)
    from mlir_release.release.forge.github.issues import ROLL_LABEL, GitHubTracker

    return GitHubTracker(client, label=ROLL_LABEL)


def _client_of_variables(what: str, remedy: str) -> GitHubClient:
    from mlir_release.release.forge.github.client import GitHubClient

    repository = os.environ.get("GITHUB_REPOSITORY")
    if not repository or not os.environ.get("GITHUB_TOKEN"):
        why = "GITHUB_REPOSITORY and GITHUB_TOKEN are not both set"
        raise UsageError("needs-github", what, why=why, remedy=remedy)
    return GitHubClient.of_environment(repository)


def github_of(url: str, environ: Mapping[str, str]) -> GitHubClient | None:
    """The client of a repository on github.com, or on the environment's own server; None: it is elsewhere.

    The environment's token is shown to the environment's own server only. An Enterprise server's token is no business
    of github.com, nor the other way round.
    """
    from mlir_release.release.forge.github.client import DEFAULT_SERVER, GitHubClient

    match = _ON_GITHUB.fullmatch(url)
    host = (match["host"] or match["ssh_host"]) if match is not None else ""
    if match is not None and host == urlsplit(environ.get("GITHUB_SERVER_URL") or DEFAULT_SERVER).netloc:
        return GitHubClient.of_environment(match["name"], environ)
    if match is not None and host == urlsplit(DEFAULT_SERVER).netloc:
        return GitHubClient(match["name"], token=None)
    return None


def client_of_upstream(url: str, environ: Mapping[str, str]) -> GitHubClient:
    """The client of a repository on GitHub that git fetches from ``url``; any other host may be an Enterprise server.

    :raises UsageError: ``needs-github``
    """
    from mlir_release.release.forge.github.client import GitHubClient

    known = github_of(url, environ)
    if known is not None:
        return known
    match = _ON_GITHUB.fullmatch(url)
    if match is None:
        raise UsageError(
            "needs-github",
            "policy 'green' needs the check results of the upstream, which only GitHub has",
            where=url,
            remedy="use head, a full sha, a tag or a branch",
        )
    server = f"https://{match['host'] or match['ssh_host']}"
    return GitHubClient(match["name"], token=None, api=f"{server}/api/v3", server=server)


def open_checks(url: str, environ: Mapping[str, str]) -> Checks:
    """The checks of the commits of an upstream. :raises UsageError: ``needs-github``"""
    from mlir_release.release.forge.github.runs import GitHubChecks

    client = client_of_upstream(url, environ)
    if not client.authenticated:
        # docs.github.com, "Rate limits for the REST API"
        console.warn("no token: GitHub answers 60 requests an hour, and each commit takes up to two; set GITHUB_TOKEN")
    return GitHubChecks(client)
