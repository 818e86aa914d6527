"""``mlir-release release start``, and ``mlir-release number``, its old name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import (
    branch_option,
    build_only_option,
    dry_run_option,
    force_option,
    forge_option,
    json_option,
    request_id_option,
)
from mlir_release.console import console

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mlir_release.forge.base import Forge

_OPTIONS = (
    forge_option,
    click.option(
        "--revision", "policy", metavar="REV", help="Upstream sha, tag or branch.  [default: tag llvmorg-VERSION]"
    ),
    force_option,
    build_only_option,
    request_id_option,
    branch_option,
    dry_run_option,
    json_option,
)


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of both names, in this order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("start")
@click.option("--version", required=True, help="LLVM's version.")
@_with_options
def release_start(
    version: str,
    forge: Forge,
    policy: str | None,
    force: bool,
    only: str | None,
    request_id: str | None,
    branch: str,
    dry_run: bool,
) -> None:
    """Make the numbered release llvm-VERSION.NN, on its own branch."""
    from mlir_release.forge.files import matrix_of_branch
    from mlir_release.model.release_tags import line_of, upstream_tag
    from mlir_release.pinning.green import select
    from mlir_release.release.start import start

    matrix = matrix_of_branch(forge, branch, line_of(version))
    revision = select(matrix.release, policy or upstream_tag(version))
    outcome = start(
        forge,
        revision,
        matrix,
        version=version,
        request_id=request_id or None,
        force=force,
        only=only or "",
        dry_run=dry_run,
    )
    console.outcome(outcome, title=outcome.tag)
    for name in ("tag", "revision", "action"):
        console.output(name, getattr(outcome, name))


@click.command()
@click.argument("version")
@_with_options
@click.pass_context
def number(ctx: click.Context, /, **given: object) -> None:
    """The old name of `release start --version VERSION`."""
    ctx.invoke(release_start, **given)
