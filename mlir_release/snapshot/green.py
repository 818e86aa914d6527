"""Selecting a revision: what was named, or the newest upstream commit that the upstream's own checks call good."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from mlir_release.console import console
from mlir_release.errors import NeedsPersonError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlir_release.forge.github.client import GitHubClient
    from mlir_release.model.targets import GreenPolicy, ReleaseConfig
    from mlir_release.snapshot.upstream import Revision, Upstream

#: ``https://github.com/llvm/llvm-project.git``, ``ssh://git@github.com/…``, ``git@github.com:…``.
_ON_GITHUB = re.compile(
    r"(?:(?P<scheme>https?|ssh)://(?:[^@/]+@)?(?P<host>[^/]+)/|[^@/:]+@(?P<ssh_host>[^:/]+):)"
    r"(?P<name>[\w.-]+/[\w.-]+?)(?:\.git)?/?"
)


class Checks(Protocol):
    """What is known of an upstream's commits."""

    def newest(self, branch: str, count: int) -> Sequence[str]:
        """The last ``count`` commits of a branch, newest first."""

    def results(self, commit: str, names: Sequence[str]) -> Mapping[str, bool]:
        """Whether each of the checks has succeeded; one without a result is left out."""


def newest_green(
    commits: Sequence[str], results: Callable[[str], Mapping[str, bool]], required: Sequence[str]
) -> str | None:
    """The first of ``commits`` on which every required check has succeeded. A missing result is not green.

    ``results`` is asked of no commit after that one.
    """
    for commit in commits:
        found = results(commit)
        if all(found.get(name, False) for name in required):
            return commit
    return None


def select(
    config: ReleaseConfig, policy: str, upstream: Upstream | None = None, *, checks: Checks | None = None
) -> Revision:
    """The revision that ``policy`` names: ``green``, or anything that :meth:`Upstream.resolve` knows.

    :param upstream: None: the configuration's
    :param checks: where results are asked for; None: GitHub, at the upstream's own address
    :raises UsageError: ``green-not-configured``, ``green-not-on-github``, and those of :meth:`Upstream.resolve`
    :raises NeedsPersonError: ``nothing-green``, if there is no such commit and the fallback is to stop
    """
    if upstream is None:
        from mlir_release.snapshot.upstream import Upstream

        upstream = Upstream.of(config)
    if policy != "green":
        return upstream.resolve(policy)
    green = config.green
    if green is None:
        raise UsageError(
            "green-not-configured",
            "policy 'green' needs to know which checks must have succeeded",
            where="targets.toml",
            remedy='add [release.green] with checks = ["…"], depth = 50 and fallback = "head" or "stop"',
        )
    if checks is None:
        from mlir_release.forge.github.checks import GitHubChecks

        checks = GitHubChecks(client_of_upstream(config.upstream, os.environ))
    commits = checks.newest(config.upstream_branch, green.depth)
    commit = newest_green(commits, lambda commit: checks.results(commit, green.checks), green.checks)
    if commit is None:
        return _fall_back(green, upstream, len(commits))
    console.say(f"green: {commit[:12]}, {commits.index(commit)} commits behind {config.upstream_branch}")
    return upstream.resolve(commit)


def _fall_back(green: GreenPolicy, upstream: Upstream, looked: int) -> Revision:
    problem = f"none of the last {looked} upstream commits has {', '.join(green.checks)} green"
    if green.fallback == "stop":
        raise NeedsPersonError(
            "nothing-green",
            problem,
            where=upstream.url,
            remedy='wait for upstream to be fixed, name a revision, or set fallback = "head" in [release.green]',
        )
    console.warn(f"{problem}; taking head")
    return upstream.resolve("head")


def client_of_upstream(url: str, environ: Mapping[str, str]) -> GitHubClient:
    """The client of a repository on GitHub that git fetches from ``url``.

    The environment's token is shown to the environment's own server only: an Enterprise server's is no business of
    github.com, nor the other way round.

    :raises UsageError: ``green-not-on-github``
    """
    from mlir_release.forge.github.client import DEFAULT_SERVER, GitHubClient

    match = _ON_GITHUB.fullmatch(url)
    if match is None:
        raise UsageError(
            "green-not-on-github",
            "policy 'green' needs the check results of the upstream, which only GitHub has",
            where=url,
            remedy="use head, a full sha, a tag or a branch",
        )
    host = match["host"] or match["ssh_host"]
    if host == urlsplit(environ.get("GITHUB_SERVER_URL") or DEFAULT_SERVER).netloc:
        return GitHubClient.of_environment(match["name"], environ)
    if host == urlsplit(DEFAULT_SERVER).netloc:
        return GitHubClient(match["name"], token=None)
    server = f"https://{host}"
    return GitHubClient(match["name"], token=None, api=f"{server}/api/v3", server=server)
