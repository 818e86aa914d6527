"""One round of probes over several machines: ``integrate plan``, ``probe`` and ``gather``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from mlir_release.cli.integrate.common import chosen, push_option, strategy_option, until_option, walking, width_option
from mlir_release.cli.options import json_option
from mlir_release.console import console
from mlir_release.errors import ExitCode
from mlir_release.host.files import write_atomically


@click.command()
@click.argument("rev")
@click.option("--record-to", type=click.Path(path_type=Path), help="Write the record there, too.")
@click.option("--verdict-is-success", is_flag=True, help="Exit 0 whatever the verdict (it is in the record).")
@push_option
@json_option
@click.pass_obj
def probe(directory: Path, rev: str, record_to: Path | None, verdict_is_success: bool, push: bool) -> None:
    """One smoke test at upstream commit REV (exit 0: good, 6: bad, 125: untestable)."""
    walk = walking(directory, push=push)
    seen = walk.observe()
    record = walk.probe(seen, walk.project.upstream.commit(rev).sha)
    walk.store.record(record)
    if push:
        walk.store.push(walk.project.config.downstream.remote)
    if record_to is not None:
        write_atomically(record_to, json.dumps(record.as_json(), indent=1))
    console.result(f"{record.upstream[:12]} is {record.verdict}", record.as_json())
    codes = {"good": ExitCode.OK, "bad": ExitCode.VERIFICATION, "untestable": ExitCode.UNTESTABLE}
    if not verdict_is_success:
        sys.exit(int(codes[str(record.verdict)]))


@click.command()
@strategy_option
@width_option
@until_option
@json_option
@click.pass_obj
def plan(directory: Path, strategy: str | None, width: int | None, until: str | None) -> None:
    """Name the next round's probes, for machines that run side by side; sets the outputs probes, head and branch."""
    from mlir_release.integrate.rounds import plan as make

    walk = walking(directory)
    walk.store.pull(walk.project.config.downstream.remote)
    data = make(walk, chosen(walk, strategy, width)[0], until=until)
    for name in ("probes", "head", "branch"):
        console.output(name, data[name])
    console.result("\n".join(data["probes"]) or "nothing to probe", data)


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@push_option
@json_option
@click.pass_obj
def gather(directory: Path, folder: Path, push: bool) -> None:
    """Record what probe jobs wrote into FOLDER (probe --record-to)."""
    from mlir_release.integrate.rounds import gather as collect

    walk = walking(directory, push=push)
    count = collect(walk, folder)
    if push:
        walk.store.push(walk.project.config.downstream.remote)
    console.result(f"recorded {count}", {"records": count})
