"""One round of probes on several machines: ``integrate plan``, ``probe`` and ``gather``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mlir_release.cli.integrate.options import push_option, strategy_option, until_option, width_option
from mlir_release.cli.options import FOLDER, PATH, json_option
from mlir_release.console import console
from mlir_release.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

_EXIT_CODES = {"good": ExitCode.OK, "bad": ExitCode.VERIFICATION, "untestable": ExitCode.UNTESTABLE}


@click.command()
@click.argument("rev")
@click.option("--record-to", type=PATH, help="Write the record there, too.")
@click.option(
    "--attempts",
    type=click.IntRange(1, 100),
    help="Failures that make it bad, with the recorded ones (see plan).",
)
@click.option("--verdict-is-success", is_flag=True, help="Exit 0 whatever the verdict (it is in the record).")
@push_option
@json_option
@click.pass_obj
def probe(
    directory: Path, rev: str, record_to: Path | None, attempts: int | None, verdict_is_success: bool, push: bool
) -> None:
    """One smoke test at upstream commit REV (exit 0: good, 6: bad, 125: untestable)."""
    from mlir_release.integrate.open import open_walk
    from mlir_release.integrate.rounds import probe as test

    record = test(open_walk(directory, push=push), rev, record_to, attempts=attempts or 0)
    console.result(f"{record.upstream[:12]} is {record.verdict}", record)
    if not verdict_is_success:
        sys.exit(int(_EXIT_CODES[record.verdict]))


@click.command()
@strategy_option
@width_option
@until_option
@json_option
@click.pass_obj
def plan(directory: Path, strategy: str | None, width: int | None, until: str | None) -> None:
    """Name the next round's probes, for machines that run side by side.

    Sets the outputs probes, attempts, head and branch.
    """
    from mlir_release.integrate.open import open_walk
    from mlir_release.integrate.rounds import plan_round

    walk = open_walk(directory)
    data = plan_round(walk, walk.strategy(strategy, width)[0], until=until)
    for name in ("probes", "attempts", "head", "branch"):
        console.output(name, data[name])
    console.result("\n".join(data["probes"]) or "nothing to probe", data)


@click.command()
@click.argument("folder", type=FOLDER)
@push_option
@json_option
@click.pass_obj
def gather(directory: Path, folder: Path, push: bool) -> None:
    """Record what probe jobs wrote into FOLDER (probe --record-to)."""
    from mlir_release.integrate.open import open_walk
    from mlir_release.integrate.rounds import gather as collect

    count = collect(open_walk(directory, push=push), folder)
    console.result(f"recorded {count}", {"records": count})
