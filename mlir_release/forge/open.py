"""Open the forge at an address, or the one that the environment implies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.forge.base import Forge
    from mlir_release.forge.pulls import PullRequests

#: Names the forge of commands that are given none.
FORGE_VARIABLE = "MLIR_RELEASE_FORGE"


def open_forge(address: str | None = None, environ: Mapping[str, str] = os.environ) -> Forge:
    """The forge at ``address``: ``github:OWNER/NAME``, ``local:PATH``, or a plain path.

    A folder is never implied: one below the current folder may have come with a checkout of others.

    :param address: None: that of :data:`FORGE_VARIABLE`, else a workflow's own repository
    :raises UsageError: ``input-missing``, ``option-invalid``
    """
    chosen = address or default_address(environ)
    if chosen is None:
        raise _not_found("no release repository is named")
    kind, colon, rest = chosen.partition(":")
    if kind == "github" and colon:
        from mlir_release.forge.github.forge import GitHubForge

        return GitHubForge.open(rest, environ=environ)
    from mlir_release.forge.local.forge import LocalForge

    path = Path(rest if kind == "local" and colon else chosen)
    if not (path / "repository.git").is_dir():
        raise _not_found("there is no local forge in that folder", where=str(path))
    return LocalForge(path)


def _not_found(what: str, where: str = "") -> UsageError:
    return UsageError(
        "input-missing",
        what,
        where=where,
        remedy=f"name one with --forge or {FORGE_VARIABLE} (github:OWNER/NAME, local:PATH), "
        "or make one in a folder (mlir-release forge init, mlir-release rehearsal)",
    )


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
    from mlir_release.forge.local.forge import LocalForge

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
    from mlir_release.forge.github.client import GitHubClient
    from mlir_release.forge.github.pulls import GitHubPullRequests

    return GitHubPullRequests(GitHubClient.of_environment(repository))
