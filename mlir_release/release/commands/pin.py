"""``mlir-release pin``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import dry_run_option, exact_option, forge_address_option, json_option, repository_option
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from pathlib import Path


@click.group()
def pin() -> None:
    """Show, set or check the pinned llvm-project revision of a checkout."""


@pin.command("show")
@repository_option
@click.option("--latest", is_flag=True, help="The newest snapshot's, which no checkout has (looks at the forge).")
@forge_address_option("With --latest: ")
@json_option
def pin_show(repository: Path, latest: bool, forge: str | None) -> None:
    """Print the pin of a checkout, which is that of development, or with --latest that of the newest snapshot."""
    if latest:
        from mlir_release.release.forge.open import open_forge
        from mlir_release.release.transaction.ledger import Ledger

        state = Ledger(open_forge(forge)).latest_snapshot()
        console.result(state.revision, {"revision": state.revision, "tag": state.name, "state": state.state})
        return
    from mlir_release.release.forge.checkout import read_pin

    sha = read_pin(repository)
    console.result(sha, {"revision": sha})


@pin.command("set")
@click.argument("selector")
@exact_option
@repository_option
@dry_run_option
@json_option
def pin_set(selector: str, exact: bool, repository: Path, dry_run: bool) -> None:
    """Pin SELECTOR: head, green, a full sha, a tag or a branch of the upstream, or pin-of:…. Commits nothing."""
    from mlir_release.release.forge.checkout import matrix_of_checkout, write_pin
    from mlir_release.release.pinning.green import select

    revision = select(matrix_of_checkout(repository).release, selector, exact=exact)
    facts = revision.facts()
    if not dry_run:
        write_pin(repository, revision.sha)
    verb = "would pin" if dry_run else "pinned"
    console.result(
        f"{verb} {revision.sha}  LLVM {facts.version}  {revision.subject}",
        {
            "revision": revision.sha,
            "subject": revision.subject,
            "llvm_version": facts.version,
            "written": not dry_run,
        },
    )


@pin.command("check")
@repository_option
@json_option
def pin_check(repository: Path) -> None:
    """Check that the pin is well-formed and that its commit is upstream's own."""
    from mlir_release.release.forge.checkout import matrix_of_checkout, read_pin
    from mlir_release.release.pinning.green import select

    revision = select(matrix_of_checkout(repository).release, read_pin(repository))
    console.result(f"{revision.sha} is upstream: {revision.subject}", {"revision": revision.sha, "ok": True})
