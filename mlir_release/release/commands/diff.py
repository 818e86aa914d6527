"""``mlir-release release diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import PATH, distribution_option, forge_address_option, json_option, signed_by_options
from mlir_release.ground import plugins
from mlir_release.ground.console import console
from mlir_release.ground.errors import MachineError

if TYPE_CHECKING:
    from mlir_release.release.judging.signed import SignedBy


@click.command("diff")
@click.argument("old")
@click.argument("new")
@distribution_option
@click.option(
    "--markdown",
    type=PATH,
    help="Also write the result into a file, as Markdown.",
)
@forge_address_option()
@signed_by_options
@json_option
def release_diff(
    old: str, new: str, distribution: str | None, markdown: Path | None, forge: str | None, signed_by: SignedBy
) -> None:
    """Compare the Python API of two releases; what breaks callers comes first.

    OLD and NEW are tags, `latest`, or files of wheels, of which nothing is executed. A wheel is read once; the next
    comparison takes its API from the cache.
    """
    from mlir_release.ground.programs.needs import install_extra
    from mlir_release.ground.storage.files import write_atomically
    from mlir_release.release.forge.open import open_forge

    comparisons = plugins.hooks(plugins.COMPARISONS)
    if not comparisons:
        raise MachineError(
            "tool-missing",
            "nothing that compares releases is installed",
            why=f"no distribution has an entry point of the group {plugins.COMPARISONS}",
            remedy=f"install the toolkit with its extras: {install_extra('apidocs')}",
        )
    needs_forge = not (Path(old).is_file() and Path(new).is_file())
    opened = open_forge(forge) if needs_forge else None
    found = {
        name: each.compare(opened, old, new, distribution=distribution, signed_by=signed_by)
        for name, each in comparisons.items()
    }
    text = "\n".join(each.markdown() for each in found.values())
    if markdown is not None:
        write_atomically(markdown, text)
    console.summary(text)
    console.result(
        "\n".join(each.text() for each in found.values()), {name: each.to_json() for name, each in found.items()}
    )
