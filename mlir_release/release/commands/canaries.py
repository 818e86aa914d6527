"""``mlir-release release canaries``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import branch_option, forge_option, json_option
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from mlir_release.release.forge.base import Forge


@click.command("canaries")
@click.argument("tag")
@click.option("--only", multiple=True, metavar="NAME", help="Only this canary of the matrix. May be repeated.")
@click.option("--github", is_flag=True, help="The jobs, as GitHub's strategy.matrix (step output 'matrix').")
@click.option("--run", metavar="ID", help="Record how the jobs of a run ended, on the branch `latest`.")
@forge_option
@branch_option
@json_option
def release_canaries(tag: str, only: tuple[str, ...], github: bool, run: str | None, forge: Forge, branch: str) -> None:
    """Show or record other projects' tests, the [[canary]] of TAG's matrix, which canary.yml runs with TAG's wheels.

    Without an option, it prints what each of them runs.
    """
    import json

    from mlir_release.release.forge.files import matrix_of_branch
    from mlir_release.release.latest import canary_records
    from mlir_release.release.model.release_tags import parse_tag
    from mlir_release.release.pinning.state import find_state

    parsed = parse_tag(tag)
    matrix = matrix_of_branch(forge, branch, parsed.line if parsed is not None else None)
    planned = canary_records.chosen(matrix, only)
    version = find_state(forge, tag).llvm_version
    if run is not None:
        results = canary_records.results_of_run(forge, run, tag, planned, version)
        console.outcome(canary_records.record(forge, tag, results, branch=branch), title=f"Canaries of {tag}")
        return
    left_out = {canary.name: why for canary in planned if (why := canary.misfit(version))}
    rows = canary_records.jobs([canary for canary in planned if canary.name not in left_out], tag)
    if github:
        console.output("matrix", json.dumps({"include": rows}, separators=(",", ":")))
        console.output("empty", "false" if rows else "true")
        console.output("to_record", "true" if planned else "false")
        builds = forge.runs(matrix.release.workflow, ref=tag)
        console.output("build", builds[0].id if builds else "")
    shown = "{name}: {repository} at {ref}, CPython {python}\n{commands}"
    lines = [shown.format_map(row) for row in rows]
    lines += [f"{name} is not run: {why}. To do: move its ref, then its llvm" for name, why in left_out.items()]
    console.result(
        "\n".join(lines) or f"the matrix of {tag} has no [[canary]]", {"include": rows, "left_out": left_out}
    )
