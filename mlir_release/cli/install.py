"""``mlir-release install``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import dry_run_option, forge_option, json_option, signed_by_options
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge
    from mlir_release.release.signed import SignedBy


@click.command()
@click.argument("tag")
@forge_option
@click.option(
    "--python",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The interpreter to install for.  [default: the `python` of PATH]",
)
@click.option("--distribution", default="mlir", show_default=True, help="mlir, mlir-core or mlir-full.")
@click.option("--sdk", is_flag=True, help="Install mlir-sdk and mlir-sdk-tools of the release, too.")
@signed_by_options
@click.option("--no-deps", is_flag=True, help="Do not install the wheel's dependencies.")
@dry_run_option
@json_option
def install(
    tag: str,
    forge: Forge,
    python: Path | None,
    distribution: str,
    sdk: bool,
    signed_by: SignedBy,
    no_deps: bool,
    dry_run: bool,
) -> None:
    """Install the wheel of TAG (or: latest) that fits an interpreter, with its digest and provenance verified."""
    from mlir_release.release.install import install as run

    outcome = run(
        forge,
        tag,
        python=python,
        distribution=distribution,
        sdk=sdk,
        signed_by=signed_by,
        pip_options=["--no-deps"] if no_deps else [],
        dry_run=dry_run,
    )
    console.outcome(outcome)
    for name in ("tag", "revision", "version", "cmake-dir"):
        console.output(name, outcome.to_json()[name])
