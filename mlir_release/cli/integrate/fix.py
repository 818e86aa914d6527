"""``integrate fix``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.integrate.options import push_option
from mlir_release.cli.integrate.walk import show_end
from mlir_release.cli.options import json_option
from mlir_release.console import console

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.option("--continue", "go_on", is_flag=True, help="Test what you committed there; if it passes, walk on.")
@click.option("--ahead", is_flag=True, help="Test it on main's upstream, too; if it passes, make a branch for main.")
@push_option
@json_option
@click.pass_obj
def fix(directory: Path, go_on: bool, ahead: bool, push: bool) -> None:
    """Open a work tree at the commit that breaks this project, with upstream's change and the failing command."""
    from mlir_release.forge.open import open_pulls
    from mlir_release.integrate import loop
    from mlir_release.integrate.fix import close_fix, open_fix
    from mlir_release.integrate.fix_ahead import send_ahead
    from mlir_release.integrate.open import open_walk

    if ahead:
        sent = send_ahead(open_walk(directory, push=push), open_pulls() if push else None)
        console.result(sent.as_text(), sent.as_json())
    elif go_on:
        close_fix(open_walk(directory, push=push))
        for end in loop.run(directory, push=push):
            show_end(end)
    else:
        made = open_fix(open_walk(directory))
        console.result(made.as_text(), made.as_json())
