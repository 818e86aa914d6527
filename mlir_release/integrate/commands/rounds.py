"""One round of probes on several machines: ``integrate plan``, ``probe`` and ``gather``; and ``integrate roll``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import FOLDER, PATH, ForeignCommand
from mlir_release.ground.console import console
from mlir_release.ground.errors import ExitCode
from mlir_release.integrate.commands.options import (
    At,
    align_option,
    at_as_json,
    goal,
    push_option,
    roll_option,
    strategy_options,
    until_option,
)

if TYPE_CHECKING:
    from pathlib import Path


_EXIT_CODES = {"good": ExitCode.OK, "bad": ExitCode.VERIFICATION, "untestable": ExitCode.UNTESTABLE}


@click.command(cls=ForeignCommand, starts="the downstream's smoke test and refresh command")
@click.argument("rev")
@click.option("--record-to", type=PATH, help="Write the record there, too.")
@click.option(
    "--attempts", type=click.IntRange(1, 100), help="Failures that make it bad, with the recorded ones (see plan)."
)
@click.option("--verdict-is-success", is_flag=True, help="Exit 0 whatever the verdict (it is in the record).")
@push_option
@at_as_json
def probe(at: At, rev: str, record_to: Path | None, attempts: int | None, verdict_is_success: bool, push: bool) -> None:
    """One smoke test at upstream commit REV (exit 0: good, 6: bad, 125: untestable)."""
    from mlir_release.integrate.open import open_joint
    from mlir_release.integrate.walk.rounds import probe as test

    record = test(open_joint(*at, push=push), rev, record_to, attempts=attempts or 0)
    console.result(f"{record.upstream[:12]} is {record.verdict}", record)
    if not verdict_is_success:
        sys.exit(int(_EXIT_CODES[record.verdict]))


@click.command()
@strategy_options
@until_option
@align_option
@roll_option
@at_as_json
def plan(at: At, strategy: str | None, width: int | None, until: str | None, align: str | None, roll: bool) -> None:
    """Name the next round's probes, for machines that run side by side.

    Sets the outputs probes, attempts, head and branch.
    """
    from mlir_release.ground.foreign import markdown
    from mlir_release.integrate.open import open_joint
    from mlir_release.integrate.walk.roll import read_orders
    from mlir_release.integrate.walk.rounds import plan_round

    walk = open_joint(*at)
    orders = read_orders(walk.project) if roll else None
    stopped = orders is not None and orders.mode == "stopped"
    data = plan_round(walk, walk.strategy(strategy, width)[0], until=goal(at, until, align), probing=not stopped)
    for name in ("probes", "attempts", "head", "branch"):
        console.output(name, data[name])
    if orders is not None and stopped:
        console.summary(f"Nothing is probed: {markdown(orders.text())}.")
        console.say(f"    {orders.text()}")
    console.result("\n".join(data["probes"]) or "nothing to probe", data)


@click.command()
@click.argument("folder", type=FOLDER)
@click.option(
    "--run",
    envvar="GITHUB_RUN_ID",
    default="",
    metavar="ID",
    help="Believe a record only if GitHub says that its job in this run ended so.  [default: $GITHUB_RUN_ID]",
)
@push_option
@at_as_json
def gather(at: At, folder: Path, run: str, push: bool) -> None:
    """Record what probe jobs wrote into FOLDER (probe --record-to)."""
    from mlir_release.integrate.open import open_joint
    from mlir_release.integrate.walk.rounds import gather as collect
    from mlir_release.release.forge.open import jobs_of_run

    jobs = jobs_of_run(run) if run else None
    count = collect(open_joint(*at, push=push), folder, jobs)
    console.result(f"recorded {count}", {"records": count})


@click.command()
@click.option("--track", is_flag=True, help="Bring the standing issue up to date, too (needs GITHUB_TOKEN).")
@click.option("--record-to", type=PATH, help="Write the state there, too.")
@click.option("--from", "recorded", type=PATH, help="The state that --record-to wrote, in place of this checkout's.")
@at_as_json
def roll(at: At, track: bool, record_to: Path | None, recorded: Path | None) -> None:
    """What scheduled runs may do, and where their walk is."""
    import msgspec

    from mlir_release.ground.storage.files import write_atomically
    from mlir_release.integrate.open import open_project
    from mlir_release.integrate.walk.roll import look, read_state
    from mlir_release.integrate.walk.roll import track as keep_issue
    from mlir_release.release.forge.open import open_pulls, open_roll_issues

    tracker = open_roll_issues() if track else None
    state = read_state(recorded) if recorded is not None else look(open_project(*at), open_pulls())
    if record_to is not None:
        write_atomically(record_to, msgspec.json.format(msgspec.json.encode(state), indent=1))
    issue = keep_issue(tracker, state) if tracker is not None else None
    text = f"{state.text()}\n{issue.url}" if issue is not None else state.text()
    console.result(text, msgspec.to_builtins(state) | ({"issue": issue.url} if issue is not None else {}))
