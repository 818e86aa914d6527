"""``mlir-release publish``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import EXISTING_FOLDER, FOLDER, dry_run_option, forge_option, json_option
from mlir_release.ground.console import console
from mlir_release.ground.documents.digests import sha256_of

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Forge


@click.command()
@click.argument("tag")
@forge_option
@click.option("--dist", type=EXISTING_FOLDER, help="Upload the wheels and test reports of this folder first.")
@click.option("--upload-only", is_flag=True, help="Stop after the upload: more will come from elsewhere.")
@click.option("--discard", metavar="TARGET", help="Start one target over: delete its wheel and reports from the draft.")
@click.option(
    "--manifest-to",
    type=FOLDER,
    help="Folder that gets release.json if it has to be signed before TAG can be published.",
)
@click.option(
    "--checked",
    metavar="DIGEST",
    default="",
    help="What this command handed over before the manifest was signed: a draft that is still so is only compared.",
)
@dry_run_option
@json_option
def publish(
    tag: str,
    forge: Forge,
    dist: Path | None,
    upload_only: bool,
    discard: str | None,
    manifest_to: Path | None,
    checked: str,
    dry_run: bool,
) -> None:
    """Upload wheels to TAG's draft, verify it from its own assets, and publish it, once.

    Where releases are signed, the manifest is signed last: this command writes it, says so (in a workflow by the output
    attest), and ends well. Called again with its bundle in the folder of --dist, it publishes. Given the output checked
    of the first call as --checked, it downloads no wheel again.
    """
    from mlir_release.release.model.manifest import MANIFEST_NAME
    from mlir_release.release.transaction import decisions
    from mlir_release.release.transaction.attest import MANIFEST
    from mlir_release.release.transaction.draft import Draft
    from mlir_release.release.transaction.publish import publish as publish_draft
    from mlir_release.release.transaction.upload import upload

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
    published = publish_draft(draft, dist=dist, manifest_to=manifest_to, checked=checked, dry_run=dry_run)
    console.outcome(published, title=tag)
    console.output("attest", published.unsigned)
    if published.unsigned:
        digest = sha256_of(published.manifest.to_text())
        console.output("manifest", f"{MANIFEST} = {digest} {MANIFEST_NAME}")
        console.output("checked", published.checked)
