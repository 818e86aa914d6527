"""``mlir-release mirror``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import dry_run_option, json_option, signed_by_options
from mlir_release.ground.console import console
from mlir_release.release.forge.open import open_forge

if TYPE_CHECKING:
    from mlir_release.release.judging.signed import SignedBy


@click.command()
@click.argument("source")
@click.argument("destination")
@signed_by_options
@dry_run_option
@json_option
def mirror(source: str, destination: str, signed_by: SignedBy, dry_run: bool) -> None:
    """Copy the published releases of SOURCE that DESTINATION lacks (both: github:OWNER/NAME or local:PATH)."""
    from mlir_release.use.mirror import mirror as copy

    console.outcome(copy(open_forge(source), open_forge(destination), signed_by=signed_by, dry_run=dry_run))
