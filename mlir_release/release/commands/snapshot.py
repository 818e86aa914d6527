"""``mlir-release snapshot``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import (
    branch_option,
    build_only_option,
    dry_run_option,
    exact_option,
    force_option,
    forge_option,
    json_option,
    request_id_option,
)
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.pinning.pin_of import ProjectPin


@click.command()
@forge_option
@click.option(
    "--policy",
    default="head",
    show_default=True,
    help="head, green, a full sha, a tag or a branch of the upstream, or pin-of:OWNER/NAME[@REF][#PATH]: the pin of "
    "another project.",
)
@exact_option
@force_option
@build_only_option
@click.option(
    "--track", is_flag=True, help="With policy head or green: keep an issue as long as no snapshot can be made of it."
)
@request_id_option
@branch_option
@dry_run_option
@json_option
def snapshot(
    forge: Forge,
    policy: str,
    exact: bool,
    track: bool,
    branch: str,
    dry_run: bool,
    **asked: Any,
) -> None:
    """Bump the pin, allocate a snapshot tag, open the draft, start the build.

    There is nothing to do (exit code 0) if a published release of the selected revision exists. An unfinished snapshot
    of it is resumed at the first missing step. With policy green, --dry-run shows why each upstream commit that was
    looked at is taken or not.

    pin-of takes the LLVM that a project pins, in a submodule or a file: a repository on GitHub, the address of one, or
    a folder. REF may also be before:2026-11-20. If the project carries patches, upstream's commit below them is taken.
    """
    from dataclasses import replace

    from mlir_release.ground.errors import UsageError
    from mlir_release.operate.issues import track_refusal
    from mlir_release.release.forge.files import matrix_of_branch
    from mlir_release.release.pinning.green import Search, select
    from mlir_release.release.transaction.start import start

    matrix = matrix_of_branch(forge, branch)
    found: list[Search | ProjectPin] = []

    def explain(selection: Search | ProjectPin) -> None:
        found.append(selection)
        if isinstance(selection, Search) and dry_run:
            console.table(selection.COLUMNS, [candidate.row() for candidate in selection.candidates])

    revision = select(matrix.release, policy, explain=explain, exact=exact)
    tracks = track and not dry_run and policy in ("head", "green")
    try:
        outcome = start(forge, revision, matrix, dry_run=dry_run, **asked)
    except UsageError as error:
        if tracks:
            track_refusal(forge, revision.sha, error)
        raise
    if tracks:
        track_refusal(forge, revision.sha, None)
    for selection in found:
        if isinstance(selection, Search):
            outcome = replace(outcome, green=selection.to_json())
        else:
            outcome = replace(outcome, pin_of=selection.to_json(), notes=(*outcome.notes, *selection.notes()))
    console.outcome(outcome, title=outcome.tag)
    for name in ("tag", "revision", "action"):
        console.output(name, getattr(outcome, name))
