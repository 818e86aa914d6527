"""Keeping a release repository in order."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from mlir_release.cli.common import dry_run_option, forge_option, json_option, resolve_forge
from mlir_release.cli.repository import REPOSITORY, read_matrix
from mlir_release.console import console

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.forge.base import Forge
    from mlir_release.forge.github.forge import GitHubForge
    from mlir_release.model.targets import Matrix


def _on_github(forge: Forge) -> GitHubForge:
    """:raises UsageError: ``not-on-github``, if the forge is another one"""
    from mlir_release.errors import UsageError
    from mlir_release.forge.github.forge import GitHubForge

    if not isinstance(forge, GitHubForge):
        raise UsageError(
            "not-on-github",
            "this is about a repository on GitHub",
            where=forge.description,
            remedy="name one: --forge github:OWNER/NAME",
        )
    return forge


@click.command("track")
@click.argument("tag")
@forge_option
@click.option("--log-url", help="Linked in the issues.  [default: the workflow run]")
@dry_run_option
@json_option
def release_track(tag: str, forge: Forge, log_url: str | None, dry_run: bool) -> None:
    """Open, update or close one issue for each required target, as TAG fares.

    A platform whose SDK fails has one issue for all that it takes down. A local forge keeps no issues: there, this
    says what they would be about.
    """
    from mlir_release.forge.files import matrix_at
    from mlir_release.forge.github.forge import GitHubForge
    from mlir_release.forge.github.issues import GitHubTracker
    from mlir_release.forge.github.runs import GitHubTimings
    from mlir_release.issues.tracking import Place, track
    from mlir_release.release.draft import origin_of

    matrix = matrix_at(forge, origin_of(forge, tag).commit)
    place = Place(workflow=matrix.release.workflow, log_url=_run_url() if log_url is None else log_url)
    if isinstance(forge, GitHubForge):
        client = forge.client
        place = replace(place, forge=f"github:{client.name}", repository=client.where.partition("://")[2])
        found = track(
            forge, GitHubTracker(client), tag, matrix, logs=GitHubTimings(client), place=place, dry_run=dry_run
        )
    else:
        found = track(forge, None, tag, matrix, place=place, dry_run=dry_run)
    console.result(found.text(), found.to_json())
    console.summary(f"### {tag}\n\n```text\n{found.text()}\n```")


def _run_url() -> str:
    """The address of the workflow run that this is part of; empty elsewhere."""
    parts = [os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    return f"{parts[0]}/{parts[1]}/actions/runs/{parts[2]}" if all(parts) else ""


@click.command()
@click.option("--forge", metavar="ADDRESS", help="The release repository: github:OWNER/NAME.")
@click.option("--weeks", type=click.IntRange(1, 52), default=4, show_default=True, help="How far to look back.")
@click.option("--estimate", "estimated", is_flag=True, help="Instead, what targets.toml would take, roughly.")
@click.option(
    "--per-day", type=click.IntRange(1, 24), default=2, show_default=True, help="With --estimate: snapshots a day."
)
@REPOSITORY
@json_option
def cost(forge: str | None, weeks: int, estimated: bool, per_day: int, repository: Path) -> None:
    """Runner minutes a week per system, stage and target, from the runs' own timings, with GitHub's prices."""
    from mlir_release.cost.measured import measure
    from mlir_release.forge.github.runs import GitHubTimings

    if estimated:
        _show_estimate(read_matrix(repository), per_day)
        return
    place = _on_github(resolve_forge(forge))
    with console.waiting(f"asking {place.description} about the runs of {weeks} weeks"):
        found = measure(GitHubTimings(place.client), now=place.now(), weeks=weeks)
    if console.json_mode:
        console.result("", found.to_json())
        return
    columns = [">jobs", ">minutes", ">billed minutes", ">US dollars", ">share"]
    groups = {"system": found.systems, "stage": found.stages, "target": found.targets, "workflow": found.workflows}
    for name, group in groups.items():
        console.table([name, *columns], found.rows(group), title=f"a week, by {name}")
    click.echo(f"{found.runs} runs in {weeks} weeks")
    click.echo(found.text())


def _show_estimate(matrix: Matrix, per_day: int) -> None:
    from mlir_release.cost.estimate import assumptions, comparison, estimate

    private, public = (estimate(matrix, per_day=per_day, public=public) for public in (False, True))
    rests_on = assumptions(per_day)
    if console.json_mode:
        console.result("", {"assumptions": rests_on, "private": private.to_json(), "public": public.to_json()})
        return
    columns = [">jobs", ">minutes (private)", ">US dollars", ">minutes (public)"]
    console.table(["stage", *columns], comparison(private, public, "stages"), title="a week, estimated, by stage")
    console.table(["system", *columns], comparison(private, public, "systems"), title="a week, estimated, by system")
    click.echo("\n".join(["assumed:", *(f"  {line}" for line in rests_on), private.text()]))
