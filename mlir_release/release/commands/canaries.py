"""``mlir-release release canaries``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import (
    FOLDER,
    PATH,
    ForeignCommand,
    dry_run_option,
    forge_option,
    json_option,
    signed_by_options,
)
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.judging.signed import SignedBy


@click.command(
    "canaries",
    cls=ForeignCommand,
    starts="other projects' tests, published wheels, their dependencies",
    unless=("--github", "--run"),
)
@click.argument("tag")
@click.option("--only", multiple=True, metavar="NAME", help="Only this canary of the matrix. May be repeated.")
@click.option("--sdk", type=FOLDER, help="An SDK of the same LLVM, for programs that the release has no wheel of.")
@click.option("-o", "--output", type=PATH, help="Folder for their logs.  [default: they are not kept]")
@click.option("--record", is_flag=True, help="Record the results on the branch `latest`, for the channel latest-good.")
@click.option("--run", metavar="ID", help="With --record: nothing is run; the results are those of a run's jobs.")
@click.option("--github", is_flag=True, help="Instead: the jobs, as GitHub's strategy.matrix (step output 'matrix').")
@forge_option
@signed_by_options
@dry_run_option
@json_option
@click.pass_context
def release_canaries(
    ctx: click.Context,
    tag: str,
    only: tuple[str, ...],
    sdk: Path | None,
    output: Path | None,
    record: bool,
    run: str | None,
    github: bool,
    forge: Forge,
    signed_by: SignedBy,
    dry_run: bool,
) -> None:
    """Run other projects' tests, the [[canary]] of TAG's matrix, with the wheels of TAG.

    This runs foreign code. Each canary has an environment and a checkout of its own, sees no secrets, and is killed if
    it takes too long or prints without an end. The exit code is 6 if one fails, and 3 if one can't be tried.
    """
    import json

    from mlir_release.ground.errors import ExitCode
    from mlir_release.release.forge.files import matrix_of_branch
    from mlir_release.release.latest import canary_records
    from mlir_release.release.latest.latest import read_release
    from mlir_release.release.model.release_tags import parse_tag
    from mlir_release.use import canaries

    if run is not None and not record:
        raise click.UsageError("--run is for --record")
    trusted = read_release(forge, tag, signed_by) if run is None else None
    tag = trusted.manifest.tag if trusted is not None else tag
    parsed = parse_tag(tag)
    matrix = matrix_of_branch(forge, signed_by.branch, parsed.line if parsed is not None else None)
    planned = canaries.chosen(matrix, only)
    if trusted is None:
        results = canary_records.results_of_run(forge, run or "", tag, planned)
        console.outcome(canary_records.record(forge, tag, results, branch=signed_by.branch), title=f"Canaries of {tag}")
    elif github:
        rows = canaries.jobs(planned, tag)
        text = json.dumps({"include": rows}, separators=(",", ":"))
        console.output("matrix", text)
        console.output("empty", "false" if rows else "true")
        builds = forge.runs(matrix.release.workflow, ref=tag)
        console.output("build", builds[0].id if builds else "")
        console.result(text, {"include": rows})
    elif dry_run:
        console.outcome(canaries.Tried(tag=tag, results=(), planned=planned))
    else:
        tried = canaries.try_canaries(trusted, planned, sdk=sdk, logs=output)
        console.outcome(tried)
        console.summary(tried.markdown())
        console.output("status", tried.worst)
        if record:
            canary_records.record(forge, tag, tried.results, branch=signed_by.branch)
        codes = {"failed": ExitCode.VERIFICATION, "broken": ExitCode.ENVIRONMENT}
        ctx.exit(int(codes.get(tried.worst, ExitCode.OK)))
