"""``mlir-release pypi``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import dry_run_option, forge_option, json_option, owners_option
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge


@click.command()
@click.argument("tag")
@forge_option
@click.option("--repository-url", metavar="URL", help="Where to upload.  [default: PyPI]")
@click.option("--index-url", metavar="URL", default="", help="The simple index that belongs to it.  [default: derived]")
@owners_option()
@dry_run_option
@json_option
def pypi(
    tag: str, forge: Forge, repository_url: str | None, index_url: str, owners: tuple[str, ...], dry_run: bool
) -> None:
    """Put the published numbered release TAG on PyPI, after checking everything about it.

    A release candidate goes there only if pypi-candidates is set in [release] of targets.toml, at its tag. Its version
    is a pre-release, which pip and uv take only when they are asked to (--pre).

    Credentials are twine's: a trusted publisher in a workflow, else TWINE_USERNAME and TWINE_PASSWORD. Files that are
    already there with the same digest are skipped, so re-running completes an interrupted upload.
    """
    from mlir_release.pypi.project import PYPI_UPLOAD
    from mlir_release.pypi.publish import publish_to_index

    outcome = publish_to_index(
        forge,
        tag,
        repository_url=repository_url or PYPI_UPLOAD,
        index_url=index_url,
        owners=owners,
        dry_run=dry_run,
    )
    console.outcome(outcome, title=f"{tag} on PyPI")
