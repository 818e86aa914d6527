"""Keeping a release repository in order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from mlir_release.cli.common import dry_run_option, forge_option, json_option
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge
    from mlir_release.forge.github import GitHubForge


def _on_github(forge: Forge) -> GitHubForge:
    """:raises UsageError: ``not-on-github``, if the forge is another one"""
    from mlir_release.errors import UsageError
    from mlir_release.forge.github import GitHubForge

    if not isinstance(forge, GitHubForge):
        raise UsageError(
            "not-on-github",
            "this is about a repository on GitHub",
            where=forge.description,
            remedy="name one: --forge github:OWNER/NAME",
        )
    return forge


@click.command("track")
@click.argument("tag")
@forge_option
@click.option("--log-url", help="Linked in the issues.  [default: the workflow run]")
@dry_run_option
@json_option
def release_track(tag: str, forge: Forge, log_url: str | None, dry_run: bool) -> None:
    """Open, update or close one issue for each required target, as TAG fares."""
    from mlir_release.forge.github_tracker import GitHubTracker
    from mlir_release.publish.draft import origin_of
    from mlir_release.publish.tracking import track
    from mlir_release.repository import matrix_at

    tracker = GitHubTracker(_on_github(forge).client)
    matrix = matrix_at(forge, origin_of(forge, tag).commit)
    url = log_url if log_url is not None else _run_url()
    found = track(forge, tracker, tag, matrix, log_url=url, dry_run=dry_run)
    console.result(found.text(), found.to_json())
    console.summary(f"### {tag}\n\n{found.text()}")


def _run_url() -> str:
    """The address of the workflow run that this is part of; empty elsewhere."""
    parts = [os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    return f"{parts[0]}/{parts[1]}/actions/runs/{parts[2]}" if all(parts) else ""
