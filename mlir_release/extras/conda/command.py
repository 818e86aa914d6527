"""Conda packages of a release's wheels: a recipe, the packages, their check, and their way to a channel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import (
    EXISTING_FOLDER,
    ForeignCommand,
    forge_option,
    json_option,
    output_option,
    signed_by_options,
)
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.judging.signed import SignedBy


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


@conda.command(cls=ForeignCommand, starts="published wheels, conda-forge's packages")
@click.argument("channel", type=EXISTING_FOLDER)
@click.option(
    "--with",
    "others",
    multiple=True,
    metavar="URL",
    default=("https://conda.anaconda.org/conda-forge",),
    show_default=True,
    help="A channel that has CPython, NumPy and the like; may be repeated.",
)
@json_option
def check(channel: Path, others: tuple[str, ...]) -> None:
    """Install each package for this platform from CHANNEL, into an environment of its own, and import MLIR.

    CHANNEL is the folder releases or snapshots that `conda package` wrote.
    """
    from mlir_release.extras.conda.channel import check_channel

    console.outcome(check_channel(channel, others))


@conda.command("publish")
@click.argument("tag")
@click.option(
    "--channel",
    required=True,
    metavar="NAME",
    help="The channel of numbered releases; those of snapshots go to NAME-snapshots.",
)
@click.option(
    "--server", default="https://prefix.dev", show_default=True, metavar="URL", help="Where the channels are."
)
@forge_option
@signed_by_options
@json_option
def publish_command(tag: str, channel: str, server: str, forge: Forge, signed_by: SignedBy) -> None:
    """Make the packages of TAG, a published release, and upload those that a channel of prefix.dev lacks.

    In a workflow whose job has `id-token: write`, the channel's trusted publisher needs no secret.
    """
    from mlir_release.extras.conda.publish import publish_packages

    console.outcome(publish_packages(forge, tag, channel, server=server, signed_by=signed_by))


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
