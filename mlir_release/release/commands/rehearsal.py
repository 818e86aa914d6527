"""``mlir-release rehearsal``."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from mlir_release.cli.options import (
    EXISTING_FOLDER,
    FOLDER,
    ForeignCommand,
    force_option,
    jobs_option,
    json_option,
    options_of_extras,
    pythons_option,
)
from mlir_release.ground import plugins
from mlir_release.ground.console import console


@click.command(cls=ForeignCommand, starts="everything that a release and its users start")
@click.option(
    "--workspace",
    type=FOLDER,
    default=Path("build", "rehearsal"),
    show_default=True,
    help="Folder of the upstream, forge, wheels and pages; a second run reuses it.",
)
@pythons_option("to build and test with", default="this one, and the newest other one that fits")
@click.option(
    "--project",
    "projects",
    multiple=True,
    default=("mlir",),
    show_default=True,
    help="Whose wheels to build; may be repeated, for one snapshot of both.",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME",
    help="What to build of it, such as core; may be repeated.  [default: its first, host of mlir]",
)
@click.option(
    "--llvm", metavar="VERSION", help="LLVM release.  [default: the newest whose packages and sources can be had]"
)
@click.option(
    "--prefix", type=EXISTING_FOLDER, help="An installed LLVM to import, instead of the distribution's packages."
)
@click.option("--source", type=EXISTING_FOLDER, help="The source tree of that LLVM, instead of fetching one.")
@click.option("--from-source", is_flag=True, help="Compile LLVM, even if the distribution has packages of it; hours.")
@click.option("--floor", default="", help="Oldest platform that it is compiled for.  [default: this machine]")
@click.option("--sdk", type=EXISTING_FOLDER, help="An SDK that was made before, instead of making one.")
@options_of_extras(plugins.REHEARSAL)
@jobs_option
@force_option
@json_option
def rehearsal(**options: Any) -> None:
    """Run the whole main job on this machine, on real LLVM, with a local forge.

    The upstream moves, the pin follows, a tag is allocated, wheels are built from real LLVM, tested, published, indexed
    and installed in a clean environment. Needs a C++ compiler. Takes 5 minutes on four cores; a second run takes
    seconds.
    """
    from mlir_release.release.forge.checkout import pass_named_variables
    from mlir_release.release.rehearsal.run import Options, rehearse

    pass_named_variables()
    own = {each.name for each in fields(Options)}
    given = {name: options.pop(name) for name in options.keys() - own}
    console.outcome(rehearse(Options(**options, given=given)))
