"""``mlir-release forge``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import FOLDER, json_option, repository_option
from mlir_release.console import console

if TYPE_CHECKING:
    from pathlib import Path


@click.group()
def forge() -> None:
    """Set up a release repository: a folder that any web server can serve, or one on GitHub."""


@forge.command("init")
@click.argument("folder", type=FOLDER)
@repository_option
@json_option
def forge_init(folder: Path, repository: Path) -> None:
    """Make a local forge in FOLDER from a checkout's pin and targets."""
    from mlir_release.forge.checkout import files_of_checkout
    from mlir_release.forge.local.forge import LocalForge

    made = LocalForge.create(folder, files_of_checkout(repository))
    console.result(f"made {made.description}", {"forge": f"local:{folder}"})


@forge.command("codeowners")
@click.argument("owners", nargs=-1, required=True)
def forge_codeowners(owners: tuple[str, ...]) -> None:
    """Print the CODEOWNERS of a release repository: OWNERS (@ORGANISATION/TEAM) review every change."""
    from mlir_release.forge.codeowners import format_codeowners

    console.show(format_codeowners(owners).rstrip("\n"))
