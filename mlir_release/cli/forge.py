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
    """A local forge: a release repository, with its releases, in a folder that any web server can serve."""


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
