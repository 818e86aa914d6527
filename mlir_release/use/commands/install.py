"""``mlir-release install``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import (
    ForeignCommand,
    distribution_option,
    dry_run_option,
    forge_option,
    json_option,
    signed_by_options,
)
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from mlir_release.release.model.release_index import CatalogueEntry


@click.command(cls=ForeignCommand, starts="the interpreter, the installed wheels")
@click.argument("tag", required=False)
@click.option(
    "--revision",
    metavar="REVISION",
    help="Instead of TAG: a commit, tag or branch of llvm-project, before:DATE or after:REVISION (see `release find`).",
)
@forge_option
@click.option(
    "--python",
    metavar="PYTHON",
    help="Version or path of the CPython to install for.  [default: the `python` of PATH, in an environment]",
)
@distribution_option
@click.option("--sdk", is_flag=True, help="Install mlir-sdk and mlir-sdk-tools of the release, too.")
@signed_by_options
@click.option("--no-deps", is_flag=True, help="Do not install the wheel's dependencies.")
@dry_run_option
@json_option
def install(tag: str | None, revision: str | None, no_deps: bool, **options: Any) -> None:
    """Install the wheel of TAG (or latest, latest-good) that fits an interpreter, once digest and signer are verified.

    It goes into the virtual or conda environment that is active, or into that of --python. Nothing is asked.
    """
    from mlir_release.use.install import install as run

    if bool(tag) == bool(revision):
        raise click.UsageError("give either TAG or --revision")
    named: str | CatalogueEntry = tag or ""
    if revision:
        from mlir_release.use.find import Filter, Origin, find

        wanted = Filter(distribution=options["distribution"] or "")
        named = find(Origin.of(options["forge"], options["signed_by"]), revision, wanted=wanted).need()
        console.say(f"    {revision} is {named.tag}")
    outcome = run(tag=named, pip_options=["--no-deps"] if no_deps else [], **options)
    console.outcome(outcome)
    for name in ("tag", "revision", "version", "cmake-dir"):
        console.output(name, outcome.to_json()[name])
