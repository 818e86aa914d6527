"""Document the Python API of a wheel."""

from __future__ import annotations

from pathlib import Path

import click

from mlir_release.cli.options import json_option, output_option
from mlir_release.console import console


@click.command()
@click.argument("wheel", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@output_option("the pages")
@json_option
def apidocs(wheel: Path, output: Path) -> None:
    """Document the API of WHEEL, from its sources and stubs; nothing of it is executed."""
    from mlir_release.extras.apidocs.published import make_section

    console.outcome(make_section(wheel, output))
