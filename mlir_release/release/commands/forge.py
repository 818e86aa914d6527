"""``mlir-release forge``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import json_option, noted, repository_option
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from pathlib import Path


@click.group()
def forge() -> None:
    """Set up a release repository: a folder that any web server can serve, or one on GitHub."""


@forge.command("init")
@click.argument("folder", callback=noted)
@repository_option
@json_option
def forge_init(folder: str, repository: Path) -> None:
    """Make a local forge in FOLDER (or local:FOLDER) from a checkout's pin and targets.

    In a folder that is no checkout, from those that the toolkit ships.
    """
    from mlir_release.release.forge.checkout import checkout_or_shipped, files_of_checkout
    from mlir_release.release.forge.local.forge import LocalForge
    from mlir_release.release.forge.open import local_folder

    made = LocalForge.create(local_folder(folder), files_of_checkout(checkout_or_shipped(repository)))
    console.result(f"made {made.description}", {"forge": f"local:{made.root}"})


@forge.command("adopt")
@click.argument("name", metavar="OWNER/NAME")
@click.argument("owners", nargs=-1, required=True)
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    help="Begin with mlir for this one, such as linux-x86_64; all else is a line in targets.toml. May be repeated.",
)
@repository_option
@json_option
def forge_adopt(name: str, owners: tuple[str, ...], platforms: tuple[str, ...], repository: Path) -> None:
    """Make a checkout of the toolkit that of the release repository OWNER/NAME on GitHub, before its first push.

    Its workflows then have attest.yml of OWNER/NAME sign, and CODEOWNERS asks OWNERS (@ORGANISATION/TEAM) to review
    every change.
    """
    from mlir_release.release.forge.checkout import adopt
    from mlir_release.release.forge.github.client import GitHubClient

    changed = adopt(repository, GitHubClient(name, token=None).name, owners, platforms=platforms)
    shown = f"changed {', '.join(changed)}" if changed else "nothing to do"
    console.result(f"{shown}: this is a checkout of {name}", {"repository": name, "changed": changed})
