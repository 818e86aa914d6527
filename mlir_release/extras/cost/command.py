"""Runner minutes per week, and their cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import forge_address_option, json_option, repository_option
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@forge_address_option()
@click.option("--weeks", type=click.IntRange(1, 52), default=4, show_default=True, help="Weeks to measure.")
@click.option("--estimate", "estimated", is_flag=True, help="Estimate from targets.toml instead.")
@click.option(
    "--per-day",
    type=click.IntRange(1, 24),
    help="With --estimate: snapshots a day.  [default: as snapshot.yml is scheduled, else 2]",
)
@click.option(
    "--abi3",
    is_flag=True,
    help="With --estimate: of a revision whose wheels may serve several CPythons (LLVM 23 on).",
)
@repository_option
@json_option
def cost(
    forge: str | None,
    weeks: int,
    estimated: bool,
    per_day: int | None,
    abi3: bool,
    repository: Path,
) -> None:
    """Show the runner minutes per week by system, stage and target, from the timings of runs, at GitHub's prices."""
    from mlir_release.extras.cost.estimate import assumptions, comparison, estimate, runs_a_day
    from mlir_release.extras.cost.measured import measure
    from mlir_release.ground.storage.files import read_if_there
    from mlir_release.release.forge.checkout import matrix_of_checkout
    from mlir_release.release.forge.open import open_forge

    if estimated:
        matrix = matrix_of_checkout(repository)
        if abi3:
            matrix = matrix.merge_abi3(lambda configuration: configuration.abi3 is not False)
        if per_day is None:
            workflow = read_if_there(repository / ".github" / "workflows" / "snapshot.yml") or b""
            per_day = runs_a_day(workflow.decode(errors="replace")) or 2
        private, public = (estimate(matrix, per_day=per_day, public=public) for public in (False, True))
        rests_on = assumptions(matrix, per_day)
        if console.json_mode:
            console.result("", {"assumptions": rests_on, "private": private.to_json(), "public": public.to_json()})
            return
        columns = [">jobs", ">billed minutes (private)", ">US dollars", ">billed minutes (public)"]
        stages, systems = comparison(private, public, "stages"), comparison(private, public, "systems")
        console.table(["stage", *columns], stages, title="a week, estimated, by stage")
        console.table(["system", *columns], systems, title="a week, estimated, by system")
        console.show("\n".join(["assumed:", *(f"  {line}" for line in rests_on), private.text()]))
        return
    place = open_forge(forge)
    with console.waiting(f"asking {place.description} about the runs of {weeks} weeks"):
        found = measure(place.services.runs, now=place.now(), weeks=weeks)
    if console.json_mode:
        console.result("", found.to_json())
        return
    columns = [">jobs", ">minutes", ">billed minutes", ">US dollars", ">share of minutes"]
    groups = {"system": found.systems, "stage": found.stages, "target": found.targets, "workflow": found.workflows}
    for name, group in groups.items():
        console.table([name, *columns], found.rows(group), title=f"a week, by {name}")
    console.show(f"{found.runs} runs in {weeks} weeks")
    console.show(found.text())
