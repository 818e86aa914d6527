"""``integrate fix``."""

from __future__ import annotations

import click

from mlir_release.cli.options import ForeignCommand
from mlir_release.ground.console import console
from mlir_release.integrate.commands.options import At, at_as_json, push_option
from mlir_release.integrate.commands.walk import show_end


@click.command(cls=ForeignCommand, starts="the downstream's smoke test and refresh command")
@click.option("--continue", "go_on", is_flag=True, help="Test what you committed there; if it passes, walk on.")
@push_option
@at_as_json
def fix(at: At, go_on: bool, push: bool) -> None:
    """Open a work tree at the commit that breaks this project, with upstream's change and the failing command."""
    from mlir_release.integrate import loop
    from mlir_release.integrate.fix.fix import close_fix, failing, open_fix
    from mlir_release.integrate.open import open_walks
    from mlir_release.release.forge.open import open_pulls

    walk = failing(open_walks(*at, push=push))
    if not go_on:
        made = open_fix(walk)
        console.result(made.as_text(), made.as_json())
        return
    close_fix(walk)
    pulls = open_pulls() if push else None
    for end in loop.run(*at, push=push, pulls=pulls):
        show_end(end)
