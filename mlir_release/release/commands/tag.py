"""``mlir-release tag``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import forge_option, json_option, limit_option
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from mlir_release.release.forge.base import Forge


@click.group()
def tag() -> None:
    """List the release tags, or show the next one."""


@tag.command("list")
@forge_option
@limit_option("newest tags of each kind")
@click.option("--state", type=click.Choice(["published", "pending", "abandoned"]), help="Only these.")
@json_option
def tag_list(forge: Forge, limit: int, state: str | None) -> None:
    """The release tags that this toolkit made, with their states, oldest first."""
    from mlir_release.release.transaction.ledger import Ledger

    found = [entry for entry in Ledger(forge, whole=not limit).newest(limit or None) if state in (None, entry.state)]
    console.result("", found)
    console.table(
        ["tag", "state", "revision", "wheels", "request", "reason"],
        [[e.name, e.state, e.revision[:12], e.wheel_version, e.request_id, e.reason] for e in found],
    )


@tag.command("next")
@click.argument("version", required=False)
@forge_option
@json_option
def tag_next(version: str | None, forge: Forge) -> None:
    """The tag that the next snapshot would get; with VERSION, the next numbered release of that LLVM version."""
    from mlir_release.release.transaction.ledger import Ledger

    name = str(Ledger(forge).next_tag(version))
    console.result(name, {"tag": name})
