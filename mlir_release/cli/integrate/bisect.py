"""``integrate bisect``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.integrate.options import bad_option, good_option
from mlir_release.cli.options import json_option
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.cli.integrate.options import At
    from mlir_release.integrate.bisect import BisectResult

_command_argument = click.argument("command", nargs=-1, required=True, metavar="-- CMD…")


@click.group()
def bisect() -> None:
    """Bisect without touching the checkout. CMD: exit 0 good, 125 untestable, else bad."""


@bisect.command("upstream")
@_command_argument
@good_option
@bad_option
@json_option
@click.pass_obj
def bisect_upstream(at: At, good: str, bad: str, command: tuple[str, ...]) -> None:
    """Upstream commits, each with the carried patches on top."""
    from mlir_release.integrate.bisect import bisect_upstream as search
    from mlir_release.integrate.open import open_projects, the_only

    _show(search(the_only(open_projects(*at)), good, bad, command))


@bisect.command("branch")
@_command_argument
@good_option
@bad_option
@json_option
@click.pass_obj
def bisect_branch(at: At, good: str, bad: str, command: tuple[str, ...]) -> None:
    """Commits of this repository, submodules updated at each."""
    from mlir_release.integrate.bisect import bisect_branch as search
    from mlir_release.integrate.open import open_project

    _show(search(open_project(*at), good, bad, command))


def _show(result: BisectResult) -> None:
    if result.skipped:
        several = [*result.skipped, result.first_bad]
        text = f"first bad is one of these {len(several)}: {' '.join(several)}"
        text = "\n".join([text, *(f"untestable: {reason}" for reason in result.reasons)])
    else:
        text = f"first bad: {result.first_bad} {result.subject}"
    console.result(f"{text}\n{result.steps} steps", result)
