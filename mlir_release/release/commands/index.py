"""``mlir-release index``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import (
    EXISTING_FOLDER,
    ForeignCommand,
    dry_run_option,
    forge_option,
    json_option,
    options_of_extras,
    output_option,
    pythons_option,
    signed_by_options,
)
from mlir_release.ground import plugins
from mlir_release.ground.console import console
from mlir_release.release.forge.open import served_at

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.judging.signed import SignedBy


@click.command(
    cls=ForeignCommand, starts="the documented commands, published wheels, their dependencies", only_with=("--probe",)
)
@forge_option
@output_option("the pages")
@click.option("--base-url", help="Where the pages will be served.  [default: the folder itself, as a file: URL]")
@click.option(
    "--files-url",
    help="Where a local forge's folder releases/ will be served.  [default: the folder itself, as a file: URL]",
)
@click.option("--afresh", is_flag=True, help="Read every manifest again, whatever the pages show already.")
@click.option("--docs", type=EXISTING_FOLDER, help="Also show the Markdown files of a folder.")
@options_of_extras(plugins.PAGES)
@click.option("--probe", "probed", metavar="TAG", help="Then try every installation command of TAG.")
@click.option(
    "--patience",
    metavar="MINUTES",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="How long to try again what fails (--probe): GitHub Pages may serve old files for ten minutes.",
)
@pythons_option("to try the commands with (--probe)", default="all that are found on this machine")
@click.option(
    "--installer",
    "installers",
    multiple=True,
    type=click.Choice(["uv", "pdm", "poetry"]),
    help="Also lock a project with this program of PATH (--probe); may be repeated.",
)
@signed_by_options
@dry_run_option
@json_option
def index(
    forge: Forge,
    output: Path,
    base_url: str | None,
    files_url: str | None,
    docs: Path | None,
    probed: str | None,
    signed_by: SignedBy,
    dry_run: bool,
    **given: Any,
) -> None:
    """Generate the pages that pip and people read, from the published releases alone."""
    from mlir_release.release.forge.files import matrix_of_branch
    from mlir_release.release.index.documents import Documents, source_of
    from mlir_release.release.index.generate import generate
    from mlir_release.release.index.site import SiteOptions, to_probe

    if files_url is not None:
        forge = served_at(forge, files_url)
    base = base_url or output.absolute().as_uri()
    afresh, patience = given.pop("afresh"), given.pop("patience")
    pythons, installers = given.pop("pythons"), given.pop("installers")
    matrix = matrix_of_branch(forge, signed_by.branch)
    outcome = generate(
        forge,
        output,
        base_url=base,
        matrix=matrix,
        signed_by=signed_by,
        options=SiteOptions(
            notice=matrix.release.notice,
            linked_days=matrix.release.linked_days,
            sections=plugins.hooks(plugins.PAGES),
            given=given,
            documents=Documents.read(docs, source_of(forge, signed_by.branch)) if docs is not None else None,
        ),
        afresh=afresh,
        dry_run=dry_run,
    )
    console.outcome(outcome)
    console.output("new", to_probe(outcome.new))
    if probed is not None and not dry_run:
        from mlir_release.ground.python.pythons import find_pythons
        from mlir_release.release.probe.probe import CleanRoom, Patience, find_tools, probe_published

        room = CleanRoom(
            pythons=[python.executable for python in find_pythons(pythons)],
            tools=find_tools(installers),
            patience=Patience(seconds=60 * patience),
        )
        found = probe_published(forge, output, probed, room, base_url=base, branch=signed_by.branch)
        console.say(found.text())
