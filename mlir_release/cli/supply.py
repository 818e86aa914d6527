"""Into people's hands: PyPI, and an environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.common import dry_run_option, forge_option, json_option
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge
    from mlir_release.release.install import Provenance


@click.command()
@click.argument("tag")
@forge_option
@click.option("--repository-url", metavar="URL", help="Where to upload.  [default: PyPI]")
@click.option("--index-url", metavar="URL", default="", help="The simple index that belongs to it.  [default: derived]")
@click.option(
    "--owner",
    "owners",
    multiple=True,
    envvar="MLIR_RELEASE_PYPI_OWNER",
    show_envvar=True,
    help="A user or organization that must own the project on PyPI; may be repeated.",
)
@dry_run_option
@json_option
def pypi(
    tag: str, forge: Forge, repository_url: str | None, index_url: str, owners: tuple[str, ...], dry_run: bool
) -> None:
    """Put the published final release TAG on PyPI, after everything about it was checked.

    Credentials are twine's: a trusted publisher in a workflow, else TWINE_USERNAME and TWINE_PASSWORD. What is there
    with the same digest is skipped, so a killed upload is finished by running this again.
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
    console.result(outcome.text(), outcome.to_json())
    console.summary(f"### {tag} on PyPI\n\n{outcome.text()}")


@click.command()
@click.argument("tag")
@forge_option
@click.option(
    "--python",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The interpreter to install for.  [default: the `python` of PATH]",
)
@click.option("--distribution", default="mlir", show_default=True, help="mlir, mlir-core or mlir-full.")
@click.option(
    "--provenance",
    type=click.Choice(["auto", "require", "skip"]),
    default="auto",
    show_default="required on GitHub",
    help="Whether `gh attestation verify` must accept the wheel.",
)
@click.option("--no-deps", is_flag=True, help="Leave the wheel's own dependencies out.")
@click.option("--branch", default="main", show_default=True, help="The branch that holds yanked.toml.")
@dry_run_option
@json_option
def install(
    tag: str,
    forge: Forge,
    python: Path | None,
    distribution: str,
    provenance: Provenance,
    no_deps: bool,
    branch: str,
    dry_run: bool,
) -> None:
    """Install the wheel of TAG (or: latest) that fits an interpreter, its digest and provenance verified."""
    import shutil
    import sys

    from mlir_release.release.install import install as run

    name = str(python) if python is not None else "python"
    found = run(
        forge,
        tag,
        python=Path(shutil.which(name) or (name if python is not None else sys.executable)),
        distribution=distribution,
        provenance=provenance,
        branch=branch,
        pip_options=["--no-deps"] if no_deps else [],
        dry_run=dry_run,
    )
    console.result(found.text(), found.to_json())
    for output in ("tag", "revision", "version", "cmake-dir"):
        console.output(output, found.to_json()[output])
