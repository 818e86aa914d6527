"""Document the Python API of a wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import EXISTING_FILE, json_option, output_option
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("wheel", type=EXISTING_FILE)
@output_option("the pages")
@json_option
def apidocs(wheel: Path, output: Path) -> None:
    """Document the API of WHEEL, from its sources and stubs; nothing of it is executed."""
    from mlir_release.extras.apidocs.published import make_section

    console.outcome(make_section(wheel, output))
