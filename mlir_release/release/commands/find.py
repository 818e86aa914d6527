"""``mlir-release release find``, ``release reverts`` and ``release diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import (
    EXISTING_FOLDER,
    PATH,
    distribution_option,
    forge_address_option,
    forge_option,
    json_option,
    signed_by_options,
)
from mlir_release.ground import plugins
from mlir_release.ground.console import console
from mlir_release.ground.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.judging.signed import SignedBy


def clone_option(otherwise: str) -> Callable[..., Any]:
    """``clone``: a path or None. ``otherwise``: what is read without one"""
    return click.option(
        "--clone",
        type=EXISTING_FOLDER,
        help=f"Read the history of this clone of llvm-project.  [default: {otherwise}]",
    )


@click.command("find")
@click.option(
    "--revision",
    default="",
    metavar="REVISION",
    help="A commit, tag or branch of llvm-project, or head; before:DATE (UTC); or after:REVISION, the first one that "
    "has it.  [default: the newest]",
)
@click.option("--near", is_flag=True, help="Show the nearest releases before and after, too.")
@click.option("--platform", metavar="PLATFORM", help="Only with a wheel for it, like linux-x86_64 or macos-arm64.")
@click.option("--python", metavar="PYTHON", help="Only with a wheel for this CPython, like 3.12 or cp314t.")
@click.option("--distribution", default="", metavar="NAME", help="Only with this one: mlir, mlir-core, mlir-sdk, ….")
@click.option("--kind", type=click.Choice(["snapshot", "numbered"]), help="Only releases of this kind.")
@click.option("--yanked", is_flag=True, help="Also those that are yanked.")
@clone_option("that of this folder, if it is one; else upstream")
@forge_option
@signed_by_options
@json_option
def release_find(
    revision: str,
    near: bool,
    platform: str | None,
    python: str | None,
    clone: Path | None,
    forge: Forge,
    signed_by: SignedBy,
    **others: Any,
) -> None:
    """Find the release at an LLVM commit, or the nearest ones with their distances in commits.

    Without a release at exactly that commit, the exit code is 2, unless --near is given.
    """
    from mlir_release.ground.python.cpython import CPython
    from mlir_release.ground.python.platforms import Platform
    from mlir_release.use.find import Filter, Origin, find

    try:
        wanted = Filter(
            platform=Platform.parse(platform) if platform else None,
            python=CPython.parse(python) if python else None,
            **others,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    found = find(Origin.of(forge, signed_by), revision, wanted=wanted, clone=clone, near=near)
    if found.answer is None and not (near and found.near):
        if found.near:
            console.table(found.COLUMNS, list(found.cells()))
        found.need()
    console.outcome(found)


@click.command("reverts")
@click.argument("tag", required=False)
@clone_option("upstream")
@forge_option
@signed_by_options
@json_option
def release_reverts(tag: str | None, clone: Path | None, forge: Forge, signed_by: SignedBy) -> None:
    """Show which commits of TAG, or of each recent snapshot, upstream has reverted since.

    A commit matters if it touches what the wheels are built from. One that landed again is not listed.
    """
    from mlir_release.release.latest.reverts import watch

    found = watch(forge, tag, signed_by=signed_by, clone=clone)
    console.outcome(found, title="Reverted since")


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
    console.result("\n".join(each.text() for each in found.values()), found)
