"""``mlir-release number``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import (
    branch_option,
    dry_run_option,
    force_option,
    forge_option,
    json_option,
    request_id_option,
)
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge


@click.command()
@click.argument("version")
@forge_option
@click.option(
    "--revision", "policy", metavar="REV", help="Upstream sha, tag or branch.  [default: tag llvmorg-VERSION]"
)
@force_option
@request_id_option
@branch_option
@dry_run_option
@json_option
def number(
    version: str, forge: Forge, policy: str | None, force: bool, request_id: str | None, branch: str, dry_run: bool
) -> None:
    """Make the numbered release llvm-VERSION.NN, on its own branch."""
    from mlir_release.forge.files import matrix_of_branch
    from mlir_release.model.release_tags import upstream_tag
    from mlir_release.pinning.green import select
    from mlir_release.pinning.transaction import number as run

    matrix = matrix_of_branch(forge, branch)
    revision = select(matrix.release, policy or upstream_tag(version))
    outcome = run(forge, version, revision, matrix, request_id=request_id or None, force=force, dry_run=dry_run)
    console.outcome(outcome, title=outcome.tag)
    for name in ("tag", "revision", "action"):
        console.output(name, getattr(outcome, name))
