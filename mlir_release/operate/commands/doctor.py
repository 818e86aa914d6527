"""``mlir-release doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import forge_option, json_option, owners_option
from mlir_release.ground.console import console
from mlir_release.ground.errors import ExitCode
from mlir_release.ground.foreign import markdown

if TYPE_CHECKING:
    from mlir_release.operate.doctor.results import Examination
    from mlir_release.release.forge.base import Forge


@click.command()
@forge_option
@click.option("--branch", help="The branch that the toolkit comes from.  [default: the repository's default branch]")
@click.option("--no-pypi", is_flag=True, help="Do not check the project on PyPI.")
@owners_option(default="the repository's variable of that name, which the job that uploads uses")
@click.option("--index-url", metavar="URL", help="The simple index of the project.  [default: PyPI's]")
@json_option
@click.pass_context
def doctor(
    ctx: click.Context,
    forge: Forge,
    branch: str | None,
    no_pypi: bool,
    owners: tuple[str, ...],
    index_url: str | None,
) -> None:
    """Check whether the release repository is set up; each problem with its remedy. Exit code 7 if there is one.

    Nothing is changed. What the token in GITHUB_TOKEN may not see is reported as unknown; an administrator's token
    sees most.
    """
    from mlir_release.operate.doctor.checks import check_forge

    with console.waiting(f"examining {forge.description}"):
        found = check_forge(forge, branch=branch, index_url=None if no_pypi else index_url or "", owners=owners)
    finish(ctx, found, title=f"{forge.description}: set up?")


def finish(ctx: click.Context, found: Examination, *, title: str) -> None:
    """Report what was found; in Actions also by an annotation for each problem. With one, the command ends with 7."""
    problems = [finding for finding in found.findings if finding.level == "problem"]
    if console.in_actions:
        for problem in problems:
            console.warn(f"{problem.check}: {problem.text}\nto do: {problem.remedy}")
    console.outcome(found, title=markdown(title))
    if problems:
        ctx.exit(int(ExitCode.NEEDS_PERSON))
