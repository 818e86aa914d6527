"""Whether a release repository is set up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import forge_option, json_option, owners_option
from mlir_release.console import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.doctor.results import Finding
    from mlir_release.forge.base import Forge, Services

_STYLES = {"ok": "green", "problem": "bold red", "unknown": "yellow"}


@click.command()
@forge_option
@click.option("--branch", help="The branch that holds the pin.  [default: the repository's default branch]")
@click.option("--no-pypi", is_flag=True, help="Don't ask the package index about the project mlir.")
@owners_option(default="the repository's variable of that name, which the job that uploads uses")
@click.option("--index-url", metavar="URL", help="The simple index that has the project.  [default: PyPI's]")
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
    """Say whether the release repository is set up; each problem with its remedy. Exit code 7 if there is one.

    Nothing is changed. What the token in GITHUB_TOKEN may not see is said to be unknown: an administrator's sees most.
    """
    from mlir_release.errors import ExitCode
    from mlir_release.forge.files import DEFAULT_BRANCH

    if forge.services is not None:
        with console.waiting(f"looking at {forge.description}"):
            findings = _github(forge, forge.services, branch, None if no_pypi else index_url or "", owners)
    else:
        from mlir_release.doctor.local import examine_local

        findings = list(examine_local(forge, branch or DEFAULT_BRANCH))
    _show(findings, forge.description)
    if any(finding.level == "problem" for finding in findings):
        ctx.exit(int(ExitCode.NEEDS_PERSON))


def _github(
    forge: Forge, services: Services, branch: str | None, index_url: str | None, owners: tuple[str, ...]
) -> list[Finding]:
    """Every finding. ``index_url``: None for no index, empty for PyPI."""
    from mlir_release.doctor.examine import examine
    from mlir_release.doctor.index import OWNER_VARIABLE, examine_index, goes_to_pypi
    from mlir_release.doctor.repository_files import FILES
    from mlir_release.errors import ReleaseError
    from mlir_release.forge.files import head_of
    from mlir_release.pypi.project import PYPI_UPLOAD, read_project, simple_url
    from mlir_release.pypi.publish import DISTRIBUTION, our_versions

    if branch:
        head_of(forge, branch)  # so that a misspelt one is an error, and not everything that it lacks
    seen = services.settings(FILES, branch)
    contents, findings = examine(seen)
    if index_url is None or not goes_to_pypi(contents):
        return list(findings)
    configured: Sequence[str] | None = owners or seen.variables.seen.get(OWNER_VARIABLE, "").split()
    if not configured and not seen.variables.complete:
        configured = None
    try:
        answer = read_project(index_url or simple_url(PYPI_UPLOAD), DISTRIBUTION)
        # Where the index does not tell who owns the project, its versions tell whether it is ours.
        ours = our_versions(forge) if answer.owners is None and answer.files else frozenset()
    except ReleaseError as error:
        return [*findings, *examine_index(error, owners=configured)]
    return [*findings, *examine_index(answer, owners=configured, ours=ours)]


def _show(findings: Sequence[Finding], place: str) -> None:
    """The table and what to do; in Actions the step's summary and an annotation for each problem, too."""
    from mlir_release.doctor.results import count, markdown, to_do

    console.summary(markdown(findings, title=f"{place}: set up?"))
    if console.in_actions:
        for finding in findings:
            if finding.level == "problem":
                console.warn(f"{finding.check}: {finding.text}\nto do: {finding.remedy}")
    if console.json_mode:
        console.result("", [finding.to_json() for finding in findings])
        return
    from rich.text import Text

    rows = [(Text(finding.level, style=_STYLES[finding.level]), finding.check, finding.text) for finding in findings]
    console.table(["", "check", "what was found"], rows, title=place)
    if remedies := to_do(findings):
        click.echo("To do:")
        for remedy in remedies:
            click.echo(click.wrap_text(remedy, width=100, initial_indent="  - ", subsequent_indent="    "))
    click.echo(count(findings))
