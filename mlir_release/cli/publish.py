"""``mlir-release publish``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import EXISTING_FOLDER, dry_run_option, forge_option, json_option, pythons_option
from mlir_release.console import console

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.forge.base import Forge


@click.command()
@click.argument("tag")
@forge_option
@click.option("--dist", type=EXISTING_FOLDER, help="Upload the wheels and test reports of this folder first.")
@click.option("--upload-only", is_flag=True, help="Stop after the upload: more will come from elsewhere.")
@click.option("--discard", metavar="TARGET", help="Start one target over: delete its wheel and reports from the draft.")
@pythons_option("to install the wheels with", default="all that are found on this machine")
@click.option("--dependencies", metavar="PLACE", help="Folder or index URL to install the wheels' dependencies from.")
@dry_run_option
@json_option
def publish(
    tag: str,
    forge: Forge,
    dist: Path | None,
    upload_only: bool,
    discard: str | None,
    pythons: tuple[str, ...],
    dependencies: str | None,
    dry_run: bool,
) -> None:
    """Upload wheels to TAG's draft, verify it from its own assets, and publish it, once."""
    from mlir_release.host.pythons import find_pythons
    from mlir_release.release import decisions
    from mlir_release.release.draft import Draft
    from mlir_release.release.install_check import dependency_options
    from mlir_release.release.publish import publish as publish_draft
    from mlir_release.release.upload import upload

    draft = Draft.load(forge, tag)
    if discard is not None:
        console.outcome(decisions.discard(draft, discard, dry_run=dry_run))
        return
    if dist is not None:
        uploaded = upload(draft, dist, dry_run=dry_run)
        if upload_only or dry_run:
            console.outcome(uploaded)
            return
        console.say(uploaded.text())
    interpreters = [python.executable for python in find_pythons(pythons)]
    options = dependency_options(dependencies) if dependencies else None
    published = publish_draft(draft, pythons=interpreters, dependencies=options, dry_run=dry_run)
    console.outcome(published, title=tag)
