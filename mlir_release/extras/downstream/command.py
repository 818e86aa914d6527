"""Set up a project that pins a release, and moves the pin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import FOLDER, dry_run_option, forge_option, json_option, signed_by_options
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.judging.signed import SignedBy


@click.group()
def downstream() -> None:
    """Set up a project that builds against a release."""


@downstream.command()
@click.argument("directory", type=FOLDER)
@click.option(
    "--tag",
    required=True,
    help="The release to pin; or a channel: latest, latest-good.",
)
@click.option(
    "--kind",
    type=click.Choice(["extension", "bundle"]),
    required=True,
    help="An extension of the installed mlir, or a package with its own MLIR, built against mlir-sdk.",
)
@click.option("--name", default="", help="The project's name on PyPI.  [default: the folder's]")
@click.option("--index", "site", default="", metavar="URL", help="Where the pages are.  [default: on GitHub Pages]")
@click.option(
    "--smoke",
    default="",
    metavar="COMMAND",
    help="Also integrate llvm-project, commit by commit, with this command as the smoke test.",
)
@forge_option
@signed_by_options
@dry_run_option
@json_option
def init(directory: Path, forge: Forge, signed_by: SignedBy, dry_run: bool, **asked: Any) -> None:
    """Write what a project in DIRECTORY needs to pin a release, build wheels against it, and move the pin."""
    from mlir_release.extras.downstream.kit import KitOptions, write_kit

    console.outcome(write_kit(forge, directory, KitOptions(**asked), signed_by=signed_by, dry_run=dry_run))
