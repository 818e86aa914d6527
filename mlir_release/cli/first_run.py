"""``mlir-release first-run``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.doctor import show
from mlir_release.cli.options import (
    EXISTING_FOLDER,
    PATH,
    ForeignCommand,
    branch_option,
    forge_option,
    json_option,
    repository_option,
)
from mlir_release.console import console
from mlir_release.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.doctor.results import Finding
    from mlir_release.forge.base import Forge

output_option = click.option("--output", type=PATH, help="Also write the answers into this file, for `report`.")


@click.group()
def first_run() -> None:
    """Ask GitHub on a scratch repository what only it can answer, before anything is built.

    first-run.yml runs these commands: start it with Actions > First run > Run workflow.
    """


def _finish(ctx: click.Context, findings: Sequence[Finding], place: str) -> None:
    show(findings, place, title=f"{place}: first run", whole=True)
    if any(finding.level == "problem" for finding in findings):
        ctx.exit(int(ExitCode.NEEDS_PERSON))


@first_run.command("github")
@forge_option
@branch_option
@click.option("--policy", default="head", show_default=True, help="The revision to pin, as of `snapshot`.")
@click.option("--anyway", is_flag=True, help="Also where releases are published.")
@output_option
@json_option
@click.pass_context
def github(ctx: click.Context, forge: Forge, branch: str, policy: str, anyway: bool, output: Path | None) -> None:
    """Ask what a job's token may do: a snapshot up to its dispatch, issues, refs, a re-run; then delete all of it."""
    from mlir_release.doctor.first_run import ask_github, check_scratch, write_answers
    from mlir_release.forge.files import matrix_of_branch
    from mlir_release.pinning.green import select

    check_scratch(forge, anyway=anyway)
    matrix = matrix_of_branch(forge, branch)
    findings = ask_github(forge, select(matrix.release, policy), matrix)
    if output is not None:
        write_answers(findings, output)
    _finish(ctx, findings, forge.description)


@first_run.command("clean")
@forge_option
@json_option
def clean(forge: Forge) -> None:
    """Delete what first runs left: drafts, tags, branches, issues, their label."""
    from mlir_release.doctor.first_run import clean as run

    found = run(forge)
    console.result(found.text, found)


@first_run.command("runner", cls=ForeignCommand, starts="the runner's compiler set-up")
@click.argument("runner")
@output_option
@json_option
@click.pass_context
def runner(ctx: click.Context, runner: str, output: Path | None) -> None:
    """Tell what this machine, called RUNNER, has for builds."""
    from mlir_release.doctor.first_run import ask_runner, write_answers
    from mlir_release.model.digests import sha256_of

    findings = ask_runner(runner)
    if output is not None:
        write_answers(findings, output)
        console.output("file", f"{sha256_of(output)} {output.name}")
    _finish(ctx, findings, runner)


@first_run.command("report")
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--handed-over", required=True, metavar="JSON", help="Outputs of the jobs of the runners.")
@repository_option
@json_option
@click.pass_context
def report(ctx: click.Context, folder: Path, handed_over: str, repository: Path) -> None:
    """Show the answers of all jobs in one table. Exit code 7 if one is a problem."""
    from mlir_release.doctor.first_run import read_answers
    from mlir_release.forge.checkout import matrix_of_checkout

    _finish(ctx, read_answers(folder, handed_over, matrix_of_checkout(repository)), "GitHub")
