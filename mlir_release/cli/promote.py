"""``mlir-release promote``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import branch_option, dry_run_option, forge_option, json_option
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge


@click.command()
@click.argument("runtime")
@click.option("--line", metavar="X.Y", help="Change the matrix of the releases of LLVM X.Y, by a release of theirs.")
@forge_option
@branch_option
@dry_run_option
@json_option
def promote(runtime: str, line: str | None, forge: Forge, branch: str, dry_run: bool) -> None:
    """Require the wheels of RUNTIME from now on, if a published release proves them.

    Opens a pull request that sets `proven` and `required` in targets.toml, or, with --line, in matrices/X.Y.toml.
    Nothing changes before it is merged.
    """
    from mlir_release.release.promote import promote as run

    console.outcome(run(forge, runtime, branch=branch, line=line, dry_run=dry_run))
