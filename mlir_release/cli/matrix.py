"""``mlir-release matrix``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import forge_address_option, json_option, repository_option
from mlir_release.console import console
from mlir_release.forge.open import open_forge

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.model.matrix_jobs import Kind


@click.command()
@click.option("--only", metavar="FILTER", help="For example: os=linux and (python=cp312 or required).")
@click.option(
    "--kind",
    type=click.Choice(["sdk", "wheels", "tests"]),
    default="wheels",
    show_default=True,
    help="What the rows are: jobs that make SDKs, wheels, or test results.",
)
@click.option("--github", is_flag=True, help="GitHub's strategy.matrix on one line (and as step output 'matrix').")
@click.option("--missing", metavar="TAG", help="Only what the release of TAG still lacks (looks at the forge).")
@forge_address_option("With --missing: ")
@repository_option
@json_option
def matrix(
    only: str | None, kind: Kind, github: bool, missing: str | None, forge: str | None, repository: Path
) -> None:
    """Show the build matrix as a table, as JSON, or as GitHub's matrix."""
    import json

    from mlir_release.forge.checkout import matrix_of_checkout
    from mlir_release.model.matrix_jobs import github_matrix, job_rows

    if missing is None:
        found = matrix_of_checkout(repository)
        rows = job_rows(found.only(only) if only else found, kind)
    else:
        from mlir_release.release.draft import Draft  # a plain `matrix` does not wait for this

        rows = Draft.load(open_forge(forge), missing).missing_rows(kind, only=only or "")
    if github:
        text = json.dumps(github_matrix(rows), separators=(",", ":"))
        console.output("matrix", text)
        console.output("empty", "false" if rows else "true")
        click.echo(text)
    elif console.json_mode:
        console.result("", rows)
    elif not rows:
        click.echo("nothing is missing" if missing else "no targets")
    else:
        columns = list(rows[0])
        console.table(columns, [[row[column] for column in columns] for row in rows])
