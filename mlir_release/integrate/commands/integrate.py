"""``mlir-release integrate``: walk a downstream's LLVM forward."""

from __future__ import annotations

from pathlib import Path

import click

from mlir_release.cli.options import PATH
from mlir_release.integrate.commands import rounds, walk
from mlir_release.integrate.commands.bisect import bisect
from mlir_release.integrate.commands.fix import fix
from mlir_release.integrate.commands.init import init
from mlir_release.integrate.commands.options import At
from mlir_release.integrate.commands.patches import patches


@click.group()
@click.option("-C", "directory", type=PATH, default=Path(), help="The downstream's checkout.  [default: .]")
@click.option("--upstream", default="", metavar="NAME", help="One of several upstreams.  [default: the branch's]")
@click.pass_context
def integrate(ctx: click.Context, directory: Path, upstream: str) -> None:
    """Walk a downstream's LLVM forward (configured in its integrate.toml; see docs/integrate.md)."""
    ctx.obj = At(directory, upstream)


for command in (
    *(init, walk.start, walk.status, walk.page, walk.stats, walk.range_, walk.next_, walk.run, walk.sync, walk.land),
    *(walk.export, walk.report, fix, rounds.probe, rounds.plan, rounds.gather, rounds.roll, bisect, patches),
):
    integrate.add_command(command)
