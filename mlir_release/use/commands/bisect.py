"""``mlir-release bisect``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import (
    FOLDER,
    ForeignCommand,
    PlaceParameter,
    distribution_option,
    forge_option,
    json_option,
    signed_by_options,
)
from mlir_release.ground.console import console
from mlir_release.ground.foreign import code

if TYPE_CHECKING:
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.judging.signed import SignedBy

_END = "TAG|DATE|SHA"


@click.command(cls=ForeignCommand, starts="the given command, published wheels, their dependencies")
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND…")
@click.option("--good", required=True, metavar=_END, help="A release with which COMMAND succeeds.")
@click.option("--bad", required=True, metavar=_END, help="A release with which it fails.")
@click.option("--fixed", is_flag=True, help="Find the first release that works again: --bad is the older one.")
@forge_option
@click.option(
    "--python",
    metavar="PYTHON",
    help="Version or path of the CPython to test with.  [default: that of the `python` of PATH]",
)
@distribution_option
@click.option(
    "--with", "requirements", multiple=True, metavar="REQUIREMENT", help="What COMMAND needs, too; may be repeated."
)
@click.option(
    "-r",
    "--requirements",
    "files",
    multiple=True,
    type=PlaceParameter(dir_okay=False, exists=True, resolve_path=True),
    help="A file of requirements that COMMAND needs, too; may be repeated.",
)
@click.option(
    "--env", "variables", multiple=True, metavar="NAME", help="A variable that COMMAND sees; may be repeated."
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds after which COMMAND has failed.")
@click.option(
    "--retries",
    type=click.IntRange(0, 100),
    default=1,
    show_default=True,
    help="How often the two deciding answers are tested again, and a killed COMMAND is.",
)
@click.option("--yanked", is_flag=True, help="Test yanked releases, too.")
@click.option("--state", type=FOLDER, help="Folder of the answers and logs.  [default: in the cache]")
@click.option("--again", is_flag=True, help="Forget the answers of an earlier run, instead of going on from them.")
@signed_by_options
@json_option
def bisect(forge: Forge, signed_by: SignedBy, **options: Any) -> None:
    """Find the first published release with which COMMAND fails.

    COMMAND runs here, with the wheel of each release in an environment of its own, first on PATH. Exit code 0: it
    works; 125: it can't be tested; another one: it fails. If this is interrupted, run the same line again: it goes on.
    """
    from mlir_release.use.bisect.run import Wish
    from mlir_release.use.bisect.run import bisect as run

    found = run(forge, Wish(**options), signed_by)
    console.outcome(found, title=code(shlex.join(options["command"])[:200]))
