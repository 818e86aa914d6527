"""``mlir-release mirror``."""

from __future__ import annotations

import click

from mlir_release.cli.options import branch_option, dry_run_option, json_option
from mlir_release.console import console
from mlir_release.forge.open import open_forge


@click.command()
@click.argument("source")
@click.argument("destination")
@branch_option
@dry_run_option
@json_option
def mirror(source: str, destination: str, branch: str, dry_run: bool) -> None:
    """Copy the published releases of SOURCE that DESTINATION lacks (both: github:OWNER/NAME or local:PATH)."""
    from mlir_release.release.mirror import mirror as copy

    console.outcome(copy(open_forge(source), open_forge(destination), branch=branch, dry_run=dry_run))
