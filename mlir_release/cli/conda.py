"""``mlir-release conda``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import branch_option, forge_option, json_option, signer_option, trusted_root_option
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge


@click.group()
def conda() -> None:
    """Make conda packages of a release's wheels."""


@conda.command()
@click.argument("tag")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("recipe"),
    show_default=True,
    help="Folder of the recipe.",
)
@click.option("--distribution", default="mlir", show_default=True, help="mlir, mlir-core or mlir-full.")
@forge_option
@signer_option
@trusted_root_option
@branch_option
@json_option
def recipe(
    tag: str,
    output: Path,
    distribution: str,
    forge: Forge,
    signed_by: str,
    trusted_root: Path | None,
    branch: str,
) -> None:
    """Write a rattler-build recipe that repackages the wheels of TAG, a published release."""
    from mlir_release.conda.write import write_recipe

    written = write_recipe(
        forge,
        tag,
        output,
        distribution=distribution,
        repository=signed_by,
        trusted_root=trusted_root,
        branch=branch,
    )
    if not console.json_mode:
        console.table(("platform", "CPython", "wheel"), written.variants)
    console.outcome(written)
