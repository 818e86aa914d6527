"""``integrate bisect``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.integrate.common import opened
from mlir_release.cli.options import json_option
from mlir_release.console import console

if TYPE_CHECKING:
    from pathlib import Path


@click.group()
def bisect() -> None:
    """Bisect without touching the checkout. CMD: exit 0 good, 125 untestable, else bad."""


def _ends(function: Any) -> Any:
    function = click.argument("command", nargs=-1, required=True, metavar="-- CMD…")(function)
    function = click.option("--bad", required=True, metavar="REV", help="A commit that fails.")(function)
    return click.option("--good", required=True, metavar="REV", help="A commit that passes.")(json_option(function))


@bisect.command("upstream")
@_ends
@click.pass_obj
def bisect_upstream(directory: Path, good: str, bad: str, command: tuple[str, ...]) -> None:
    """Upstream commits, each with the carried patches on top."""
    from mlir_release.integrate.bisect import bisect_upstream as search

    _bisected(search(opened(directory), good, bad, command))


@bisect.command("branch")
@_ends
@click.pass_obj
def bisect_branch(directory: Path, good: str, bad: str, command: tuple[str, ...]) -> None:
    """Commits of this repository, submodules updated at each."""
    from mlir_release.integrate.bisect import bisect_branch as search

    _bisected(search(opened(directory), good, bad, command))


def _bisected(result: Any) -> None:
    if result.skipped:
        text = f"first bad is one of: {' '.join([*result.skipped, result.first_bad])}"
    else:
        text = f"first bad: {result.first_bad} {result.subject}"
    console.result(f"{text}\n{result.steps} steps", result.as_json())
