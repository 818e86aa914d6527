"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_release.console import console
from mlir_release.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.forge.base import Forge

#: Where ``mlir-release rehearsal`` keeps everything, unless it is told otherwise.
DEFAULT_WORKSPACE = Path("build") / "rehearsal"

FORGE_VARIABLE = "MLIR_RELEASE_FORGE"

FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
FILE = click.Path(path_type=Path)
JOBS = click.option("-j", "--jobs", type=int, help="Cores to use.  [default: all]")


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--json``: the result (or the error) as JSON on standard output."""

    def switch(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        console.json_mode = console.json_mode or value

    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=switch,
        is_eager=True,
        help="Print the result, or the error, as JSON.",
    )(function)


def dry_run_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--dry-run``: print the plan and change nothing."""
    return click.option("-n", "--dry-run", is_flag=True, help="Show what would be done; change nothing.")(function)


def open_forge(address: str) -> Forge:
    """The forge at ``address``: ``github:OWNER/NAME``, ``local:PATH``, or a plain path.

    :raises UsageError: if there is none
    """
    kind, colon, rest = address.partition(":")
    if kind == "github" and colon:
        from mlir_release.forge.github.forge import GitHubForge

        return GitHubForge.open(rest)
    from mlir_release.forge.local.forge import LocalForge

    path = Path(rest if kind == "local" and colon else address)
    if not (path / "repository.git").is_dir():
        raise UsageError(
            "forge-not-found",
            "there is no local forge in that folder",
            where=str(path),
            remedy=f"make one (mlir-release forge init {path}, or mlir-release rehearsal), "
            f"or say where it is with --forge or {FORGE_VARIABLE} (github:OWNER/NAME, local:PATH)",
        )
    return LocalForge(path)


def resolve_forge(address: str | None) -> Forge:
    """The forge that ``--forge`` gives, else the environment, else the workflow's repository, else the rehearsal's."""
    return open_forge(address or os.environ.get(FORGE_VARIABLE) or _default_forge())


def _default_forge() -> str:
    repository = os.environ.get("GITHUB_REPOSITORY")
    if os.environ.get("GITHUB_ACTIONS") == "true" and repository:
        return f"github:{repository}"
    return f"local:{DEFAULT_WORKSPACE / 'forge'}"


def forge_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--forge``: passed to the command as an open :class:`~mlir_release.forge.base.Forge`."""

    def convert(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Forge:
        return resolve_forge(value)

    return click.option(
        "--forge",
        metavar="ADDRESS",
        callback=convert,
        help="The release repository: github:OWNER/NAME or local:PATH.  "
        f"[default: ${FORGE_VARIABLE}; in a workflow its repository; else the rehearsal's forge]",
    )(function)
