"""``mlir-release rehearsal``."""

from __future__ import annotations

from pathlib import Path

import click

from mlir_release.cli.common import DEFAULT_WORKSPACE, json_option
from mlir_release.console import console

PATH = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command()
@click.option(
    "--workspace",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_WORKSPACE,
    show_default=True,
    help="Folder of upstream, forge, wheels and pages; a second run reuses it.",
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    help="Version or path; may be repeated.  [default: this one, and the newest other one that fits]",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Choice(["host", "core", "full"]),
    default=("host",),
    show_default=True,
    help="What to build: mlir, mlir-core, mlir-full; may be repeated.",
)
@click.option("--llvm", metavar="VERSION", help="A release of the catalogue.  [default: the newest that apt has]")
@click.option("--prefix", type=PATH, help="An installed LLVM to import, instead of the distribution's packages.")
@click.option("--source", type=PATH, help="Its source tree, instead of fetching one.")
@click.option("-j", "--jobs", type=int, help="Cores to use.  [default: all]")
@click.option("--force", is_flag=True, help="Make another snapshot even if this revision has one.")
@json_option
def rehearsal(
    workspace: Path,
    pythons: tuple[str, ...],
    profiles: tuple[str, ...],
    llvm: str | None,
    prefix: Path | None,
    source: Path | None,
    jobs: int | None,
    force: bool,
) -> None:
    """Run the whole main job on this machine, on real MLIR, with a local forge.

    An upstream moves, the pin follows, a tag is allocated, wheels are built from real LLVM, tested, published and
    indexed, and a stranger installs them. Needs a C++ compiler; 5 minutes on four cores, a second run takes seconds.
    """
    from mlir_release.rehearsal.run import Options, rehearse

    options = Options(
        workspace=workspace,
        pythons=pythons,
        profiles=profiles,
        llvm=llvm,
        prefix=prefix,
        source=source,
        jobs=jobs,
        force=force,
    )
    report = rehearse(options)
    if console.json_mode:
        console.result("", report.to_json())
    else:
        report.show()
