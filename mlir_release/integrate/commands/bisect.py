"""``integrate bisect``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import ForeignCommand
from mlir_release.ground.console import console
from mlir_release.integrate.commands.options import At, at_as_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.integrate.walk.steps import BisectResult


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """What both commands take."""
    for option in (
        click.option("--again", is_flag=True, help="Test again what is recorded."),
        click.option("--bad-if", default="", metavar="REGEX", help="A failure without such output is untestable."),
        click.option("--push", "share", is_flag=True, help="Fetch the remote's verdicts first, and push each new one."),
        click.option("--bad", required=True, metavar="REV", help="A commit that fails."),
        click.option("--good", required=True, metavar="REV", help="A commit that passes."),
        click.argument("command", nargs=-1, required=True, metavar="-- CMD…"),
    ):
        command = option(command)
    return command


@click.group()
def bisect() -> None:
    """Bisect without touching the checkout. CMD: exit 0 good, 125 untestable, else bad."""


@bisect.command("upstream", cls=ForeignCommand, starts="the given command, the downstream's refresh command")
@_options
@click.option("--at", default="HEAD", metavar="ADVANCE", help="With the sources and patches of this commit.  [HEAD]")
@click.option("--without", multiple=True, metavar="PATCH", help="Leave out this carried patch. Repeatable.")
@at_as_json
def bisect_upstream(at: At, /, **options: Any) -> None:
    """Upstream commits, each with the carried patches on top."""
    from mlir_release.integrate.open import open_projects, the_only
    from mlir_release.integrate.walk.bisect import bisect_upstream as search

    _show(search(the_only(open_projects(*at)), **options))


@bisect.command("branch", cls=ForeignCommand, starts="the given command, the downstream's refresh command")
@_options
@click.option("--no-upstream", is_flag=True, help="End at the first bad commit of this repository.")
@at_as_json
def bisect_branch(at: At, /, no_upstream: bool, **options: Any) -> None:
    """Commits of this repository, submodules updated at each; then what the first bad one brought."""
    from mlir_release.integrate.open import open_project
    from mlir_release.integrate.walk.bisect import bisect_branch as search

    _show(search(open_project(*at), upstream=not no_upstream, **options))


def _show(result: BisectResult) -> None:
    console.result(result.as_text(), result)
    console.summary(result.as_markdown())
