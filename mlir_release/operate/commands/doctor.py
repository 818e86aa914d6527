"""``mlir-release doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import forge_option, json_option, owners_option
from mlir_release.ground.console import console
from mlir_release.ground.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.operate.doctor.results import Finding
    from mlir_release.release.forge.base import Forge

_STYLES = {"ok": "green", "problem": "bold red", "unknown": "yellow"}


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
        findings = check_forge(forge, branch=branch, index_url=None if no_pypi else index_url or "", owners=owners)
    show(findings, forge.description, title=f"{forge.description}: set up?")
    if any(finding.level == "problem" for finding in findings):
        ctx.exit(int(ExitCode.NEEDS_PERSON))


def show(findings: Sequence[Finding], place: str, *, title: str, whole: bool = False) -> None:
    """Print the findings and the remedies; in Actions also the step's summary and an annotation for each problem.

    :param whole: whether the summary has what is ok, too
    """
    from mlir_release.operate.doctor.results import count, summary, to_do

    console.summary(summary(findings, title=title, whole=whole))
    if console.in_actions:
        for finding in findings:
            if finding.level == "problem":
                console.warn(f"{finding.check}: {finding.text}\nto do: {finding.remedy}")
    if console.json_mode:
        console.result("", findings)
        return
    from rich.text import Text

    rows = [(Text(finding.level, style=_STYLES[finding.level]), finding.check, finding.text) for finding in findings]
    console.table(["", "check", "what was found"], rows, title=place)
    if remedies := to_do(findings):
        console.show("To do:")
        for remedy in remedies:
            console.show(click.wrap_text(remedy, width=100, initial_indent="  - ", subsequent_indent="    "))
    console.show(count(findings))
