"""``integrate fix``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.integrate.options import next_round_option, push_option, strategy_option, width_option
from mlir_release.cli.integrate.walk import show_end
from mlir_release.cli.options import PATH, ForeignCommand, json_option
from mlir_release.console import console
from mlir_release.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.cli.integrate.options import At


@click.command(
    cls=ForeignCommand, starts="the downstream's fix command, smoke test and refresh command", unless=("--take",)
)
@click.option("--continue", "go_on", is_flag=True, help="Test what you committed there; if it passes, walk on.")
@click.option("--ahead", is_flag=True, help="Test it on main's upstream, too; if it passes, make a branch for main.")
@click.option("--auto", is_flag=True, help="Let the [fix] command fix it; if what it changed passes, walk on.")
@click.option("--save", type=PATH, help="With --auto: write what it changed into this file; test and commit nothing.")
@click.option("--probe", type=PATH, metavar="FILE", help="Test what --auto --save wrote.")
@click.option("--record-to", type=PATH, help="With --probe: write the verdict there.")
@click.option("--take", type=PATH, metavar="FILE", help="Commit what --auto --save wrote, if --record says it is good.")
@click.option("--record", type=PATH, help="With --take: the verdict that --probe wrote.")
@strategy_option
@width_option
@next_round_option
@push_option
@json_option
@click.pass_obj
def fix(
    at: At,
    go_on: bool,
    ahead: bool,
    auto: bool,
    save: Path | None,
    probe: Path | None,
    record_to: Path | None,
    take: Path | None,
    record: Path | None,
    strategy: str | None,
    width: int | None,
    next_round: str | None,
    push: bool,
) -> None:
    """Open a work tree at the commit that breaks this project, with upstream's change and the failing command."""
    from mlir_release.forge.open import open_pulls
    from mlir_release.integrate import fix_take, loop
    from mlir_release.integrate.fix import close_fix, failing, open_fix
    from mlir_release.integrate.fix_ahead import send_ahead
    from mlir_release.integrate.open import open_walks

    _refuse_mixed(
        {"--continue": go_on, "--ahead": ahead, "--auto": auto, "--probe": probe, "--take": take},
        {"--save": (save, "--auto"), "--record-to": (record_to, "--probe"), "--record": (record, "--take")},
    )
    walk = failing(open_walks(*at, push=push))
    if ahead:
        sent = send_ahead(walk, open_pulls() if push else None)
        console.result(sent.as_text(), sent.as_json())
        return
    if save is not None:
        attempt = fix_take.save_attempt(walk, save)
        console.output("made", attempt.outcome == "made")
        console.result(attempt.as_markdown(), attempt.as_json())
        return
    if probe is not None:
        found = fix_take.probe_saved(walk, probe, record_to)
        console.result(f"{found.upstream[:12]} is {found.verdict} with what the fix command changed", found)
        return
    if not (go_on or auto or take):
        made = open_fix(walk)
        console.result(made.as_text(), made.as_json())
        return
    if auto:
        fix_take.require_fixed(fix_take.fix_automatically(walk, again=True))
    elif take is not None:
        fix_take.require_fixed(fix_take.take_saved(walk, take, record), pulls=open_pulls() if push else None)
    else:
        close_fix(walk)
    then: dict[str, Any] = {"strategy": strategy, "width": width, "next_round": next_round}
    for end in loop.run(*at, push=push, probing=take is None, **then):
        show_end(end)


def _refuse_mixed(ways: dict[str, object], needing: dict[str, tuple[object, str]]) -> None:
    """:raises UsageError: if options are given that do not go together."""
    given = [name for name, value in ways.items() if value]
    lacking = [f"{name} needs {other}" for name, (value, other) in needing.items() if value and not ways[other]]
    if len(given) > 1 or lacking:
        raise UsageError(
            "option-invalid",
            f"{' and '.join(given)} do not go together" if len(given) > 1 else lacking[0],
            where="integrate fix",
            remedy="see mlir-release integrate fix --help; nothing was done",
        )
