"""``mlir-release attest``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import EXISTING_FOLDER, branch_option, forge_option, json_option, output_option
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Forge


@click.command()
@click.argument("tag")
@click.argument("folder", type=EXISTING_FOLDER)
@output_option("the bundles: FILE.sigstore.json, and FILE.provenance for distributions")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(["wheels", "reports", "manifest"]),
    multiple=True,
    help="Sign only files of this kind; may be repeated.  [default: all]",
)
@click.option(
    "--handed-over",
    metavar="JSON",
    help="Sign only files with the digests in these outputs of the jobs that made them.  [default: check names only]",
)
@forge_option
@branch_option
@json_option
def attest(
    tag: str,
    folder: Path,
    output: Path,
    kinds: tuple[str, ...],
    handed_over: str | None,
    forge: Forge,
    branch: str,
) -> None:
    """Sign the files of TAG's release that are below FOLDER, as the workflow run that this is.

    Each gets a statement of how it was built (SLSA provenance). Files that have a valid bundle in the output folder are
    not signed again. Only attest.yml, called at the protected branch, makes signatures that are accepted. TAG has to
    name a commit of the protected branch that differs in nothing but the pin, and the pin has to be upstream's. A file
    that no target of TAG makes ends the run before anything is signed.
    """
    from mlir_release.release.provenance.sign import KINDS
    from mlir_release.release.transaction.attest import attest_release

    chosen = kinds or tuple(KINDS)
    console.outcome(attest_release(forge, tag, folder, output, kinds=chosen, branch=branch, handed_over=handed_over))
