"""What the commands of integrates share: options, and opening what they work on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.observe import Observer
    from mlir_release.integrate.project import Project
    from mlir_release.integrate.pulls import PullRequests
    from mlir_release.integrate.strategy import Strategy
    from mlir_release.integrate.walk import Walk

push_option = click.option("--push", is_flag=True, help="Push the branch and the verdicts as they come.")
until_option = click.option("--until", metavar="REV", help="Go no farther than this upstream commit.")
strategy_option = click.option("--strategy", metavar="NAME", help="linear, head, adaptive or parallel.")
width_option = click.option("--width", type=click.IntRange(1, 256), help="Probes side by side.")


def opened(directory: Path) -> Project:
    """The downstream that ``-C`` names."""
    from mlir_release.integrate.open import open_project

    return open_project(directory)


def walking(directory: Path, *, push: bool = False) -> Walk:
    """The integrate branch that is checked out there."""
    from mlir_release.integrate.risk import weigher
    from mlir_release.integrate.walk import Walk

    project = opened(directory)
    return Walk(project, publish=push, weigh=weigher(project))


def looking(directory: Path) -> Observer:
    """Whatever is checked out there, only to be looked at.

    Without weights: reading what every commit touches would cost more than all the rest.
    """
    from mlir_release.git.worktrees import current_branch
    from mlir_release.integrate.observe import Observer

    project = opened(directory)
    return Observer(project, current_branch(project.outer) or "HEAD")


def chosen(walk: Walk, strategy: str | None, width: int | None) -> tuple[Strategy, int]:
    """The strategy and its width: what the options say, else what ``integrate.toml`` says."""
    from mlir_release.integrate.strategy import make_strategy

    config = walk.project.config
    name = strategy or config.walk.strategy
    wide = width or (8 if name == "parallel" and config.walk.width == 1 else config.walk.width)
    return make_strategy(name, wide), wide


def open_pulls() -> PullRequests | None:
    """The downstream's pull requests, in GitHub Actions or wherever its two variables are set."""
    repository, token = os.environ.get("GITHUB_REPOSITORY"), os.environ.get("GITHUB_TOKEN")
    if not repository or not token:
        return None
    from mlir_release.forge.github.client import GitHubClient
    from mlir_release.forge.github.pulls import GitHubPullRequests

    return GitHubPullRequests(GitHubClient.of_environment(repository))
