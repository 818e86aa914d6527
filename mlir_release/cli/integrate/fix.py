"""``integrate fix``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.integrate.options import push_option
from mlir_release.cli.integrate.walk import show_end
from mlir_release.cli.options import json_option
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.cli.integrate.options import At


@click.command()
@click.option("--continue", "go_on", is_flag=True, help="Test what you committed there; if it passes, walk on.")
@push_option
@json_option
@click.pass_obj
def fix(at: At, go_on: bool, push: bool) -> None:
    """Open a work tree at the commit that breaks this project, with upstream's change and the failing command."""
    from mlir_release.integrate import loop
    from mlir_release.integrate.fix import close_fix, failing, open_fix
    from mlir_release.integrate.open import open_walks

    if go_on:
        close_fix(failing(open_walks(*at, push=push)))
        for end in loop.run(*at, push=push):
            show_end(end)
    else:
        made = open_fix(failing(open_walks(*at)))
        console.result(made.as_text(), made.as_json())
