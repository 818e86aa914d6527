"""Lock distributions of several projects that are built from one LLVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import (
    dry_run_option,
    forge_address_option,
    json_option,
    limit_option,
    noted,
    output_option,
    signed_by_options,
)
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.judging.signed import SignedBy


@click.group()
def sets() -> None:
    """Find versions of several distributions that are built from one LLVM, and lock them.

    A set is one that comes with the toolkit, like mlir-torch-mlir-stablehlo, or the path of a set file.
    """


@sets.command()
@click.argument("name", metavar="SET", callback=noted)
@limit_option("newest LLVM commits")
@forge_address_option("For members from this toolkit's releases: ")
@signed_by_options
@json_option
def show(name: str, limit: int, forge: str | None, signed_by: SignedBy) -> None:
    """Show which versions of SET's members are built from which LLVM, the newest first."""
    from mlir_release.extras.sets.lock import know
    from mlir_release.extras.sets.set_file import load_set

    known = know(load_set(name), forge, signed_by)
    llvms = sorted(known.dates, key=lambda sha: known.dates[sha], reverse=True)[: limit or None]
    rows = {llvm: known.versions(llvm) for llvm in llvms}
    left_out = {member.name: member.left_out for member in known.members}
    if console.json_mode:
        console.result("", {"llvm": rows, "common": known.common, "left_out": left_out})
        return
    common = set(known.common)
    console.table(
        ["LLVM", *left_out, ""],
        [[known.shown(llvm), *row.values(), "all" if llvm in common else ""] for llvm, row in rows.items()],
    )
    for member, whys in left_out.items():
        for version, why in whys.items():
            console.show(f"left out: {member} {version}: {why}")


@sets.command()
@click.argument("name", metavar="SET", callback=noted)
@output_option("pylock.toml and requirements.txt")
@click.option("--llvm", default="", metavar="SHA", help="The LLVM commit.  [default: the newest that all members have]")
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="VERSION",
    help="Lock the wheels for this CPython alone; may be repeated.  [default: those for all]",
)
@forge_address_option("For members from this toolkit's releases: ")
@signed_by_options
@dry_run_option
@json_option
def lock(
    name: str,
    output: Path,
    llvm: str,
    pythons: tuple[str, ...],
    forge: str | None,
    signed_by: SignedBy,
    dry_run: bool,
) -> None:
    """Lock versions of SET's members that are built from one LLVM, and their dependencies."""
    from mlir_release.extras.sets.lock import know, lock_set
    from mlir_release.extras.sets.set_file import load_set
    from mlir_release.ground.llvm.pin import SHA_PATTERN
    from mlir_release.ground.python.cpython import CPython

    if llvm and not SHA_PATTERN.fullmatch(llvm):
        raise click.BadParameter("give all 40 digits of a commit", param_hint="--llvm")
    try:
        wanted = [CPython.parse(python) for python in pythons]
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--python") from error
    known = know(load_set(name), forge, signed_by, also=llvm)
    locked = lock_set(name, known, output, llvm=llvm, pythons=wanted, dry_run=dry_run)
    console.outcome(locked, title=name)
