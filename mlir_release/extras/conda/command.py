"""A recipe that makes conda packages of a release's wheels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import forge_option, json_option, output_option, signed_by_options
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge
    from mlir_release.release.signed import SignedBy


@click.group()
def conda() -> None:
    """Make conda packages of a release's wheels."""


@conda.command()
@click.argument("tag")
@output_option("the recipe", default=Path("recipe"))
@click.option("--distribution", default="mlir", show_default=True, help="mlir, mlir-core or mlir-full.")
@forge_option
@signed_by_options
@json_option
def recipe(
    tag: str,
    output: Path,
    distribution: str,
    forge: Forge,
    signed_by: SignedBy,
) -> None:
    """Write a rattler-build recipe that repackages the wheels of TAG, a published release."""
    from mlir_release.extras.conda.recipe import write_recipe

    written = write_recipe(forge, tag, output, distribution=distribution, signed_by=signed_by)
    if not console.json_mode:
        console.table(("platform", "CPython", "wheel"), written.variants)
    console.outcome(written)


@conda.command()
@click.argument("tag")
@output_option("the channels", default=Path("channels"))
@forge_option
@signed_by_options
@json_option
def package(tag: str, output: Path, forge: Forge, signed_by: SignedBy) -> None:
    """Make conda packages of the wheels of TAG, a published release, in a channel.

    The channel is OUTPUT/releases or OUTPUT/snapshots. Packages of several releases can be in it.
    """
    from mlir_release.extras.conda.channel import package_release

    packaged = package_release(forge, tag, output, signed_by)
    if not console.json_mode:
        console.table(("platform", "package", "wheel"), packaged.packages)
    console.outcome(packaged)
