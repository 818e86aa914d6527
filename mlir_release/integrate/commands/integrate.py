"""``mlir-release integrate``: walk a downstream's LLVM forward."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import PATH, ForeignCommand
from mlir_release.ground.console import console
from mlir_release.integrate.commands import rounds, walk
from mlir_release.integrate.commands.options import At, at_as_json, push_option
from mlir_release.integrate.commands.patches import patches

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlir_release.integrate.walk.steps import BisectResult


@click.group()
@click.option("-C", "directory", type=PATH, default=Path(), help="The downstream's checkout.  [default: .]")
@click.option("--upstream", default="", metavar="NAME", help="One of several upstreams.  [default: the branch's]")
@click.pass_context
def integrate(ctx: click.Context, directory: Path, upstream: str) -> None:
    """Walk a downstream's LLVM forward (configured in its integrate.toml; see docs/integrate.md)."""
    ctx.obj = At(directory, upstream)


@click.command()
@click.option("--upstream", "upstreams", multiple=True, metavar="NAME", help="Follow this one only; repeatable.")
@click.option("--pin", "pins", multiple=True, metavar="PATH", help="The pin, where several places may be it.")
@click.option("--smoke", default="", metavar="COMMAND", help="The smoke command.")
@click.option("--print", "dry_run", is_flag=True, help="Print the file; write nothing.")
@at_as_json
def init(at: At, upstreams: tuple[str, ...], pins: tuple[str, ...], smoke: str, dry_run: bool) -> None:
    """Recognise where this repository pins its upstreams, and write integrate.toml."""
    from mlir_release.integrate.pins import init as initial

    path, text, found = initial.init(at.directory, upstreams=upstreams, pins=pins, smoke=smoke, dry_run=dry_run)
    followed = [{"upstream": table.title, "pin": table.carrier, "files": table.carriers} for table in found.tables]
    data = {"path": str(path), "text": text, "upstreams": followed, "notes": found.notes}
    if dry_run:
        console.result(text.rstrip("\n"), data)
        return
    for note in found.notes:
        console.say(f"    {note}")
    lines = [f"wrote {path.name}: follows {', '.join(f'{table.title} ({table.carrier})' for table in found.tables)}"]
    if not smoke:
        lines.append("write the smoke command into it")
    console.result("\n".join([*lines, "commit it on the main branch; then: mlir-release integrate start"]), data)


@click.command(cls=ForeignCommand, starts="the downstream's smoke test and refresh command")
@click.option("--continue", "go_on", is_flag=True, help="Test what you committed there; if it passes, walk on.")
@push_option
@at_as_json
def fix(at: At, go_on: bool, push: bool) -> None:
    """Open a work tree at the commit that breaks this project, with upstream's change and the failing command."""
    from mlir_release.integrate import loop
    from mlir_release.integrate.fix.fix import close_fix, failing, open_fix
    from mlir_release.integrate.open import open_walks
    from mlir_release.release.forge.open import open_pulls

    broken = failing(open_walks(*at, push=push))
    if not go_on:
        made = open_fix(broken)
        console.result(made.as_text(), made.as_json())
        return
    close_fix(broken)
    pulls = open_pulls() if push else None
    for end in loop.run(*at, loop.RunRequest(push=push), pulls=pulls):
        walk.show_end(end)


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """What both commands take."""
    for option in (
        click.option("--again", is_flag=True, help="Test again what is recorded."),
        click.option("--bad-if", default="", metavar="REGEX", help="A failure without such output is untestable."),
        click.option("--push", "share", is_flag=True, help="Fetch the remote's verdicts first, and push each new one."),
        click.option("--bad", required=True, metavar="REV", help="A commit that fails."),
        click.option("--good", required=True, metavar="REV", help="A commit that passes."),
        click.argument("command", nargs=-1, required=True, metavar="-- CMD…"),
    ):
        command = option(command)
    return command


@click.group()
def bisect() -> None:
    """Bisect without touching the checkout. CMD: exit 0 good, 125 untestable, else bad."""


@bisect.command("upstream", cls=ForeignCommand, starts="the given command, the downstream's refresh command")
@_options
@click.option("--at", default="HEAD", metavar="ADVANCE", help="With the sources and patches of this commit.  [HEAD]")
@click.option("--without", multiple=True, metavar="PATCH", help="Leave out this carried patch. Repeatable.")
@at_as_json
def bisect_upstream(at: At, /, **options: Any) -> None:
    """Upstream commits, each with the carried patches on top."""
    from mlir_release.integrate.open import open_projects, the_only
    from mlir_release.integrate.walk.bisect import bisect_upstream as search

    _show(search(the_only(open_projects(*at)), **options))


@bisect.command("branch", cls=ForeignCommand, starts="the given command, the downstream's refresh command")
@_options
@click.option("--no-upstream", is_flag=True, help="End at the first bad commit of this repository.")
@at_as_json
def bisect_branch(at: At, /, no_upstream: bool, **options: Any) -> None:
    """Commits of this repository, submodules updated at each; then what the first bad one brought."""
    from mlir_release.integrate.open import open_project
    from mlir_release.integrate.walk.bisect import bisect_branch as search

    _show(search(open_project(*at), upstream=not no_upstream, **options))


def _show(result: BisectResult) -> None:
    console.result(result.as_text(), result)
    console.summary(result.as_markdown())


for command in (
    *(init, walk.start, walk.status, walk.page, walk.stats, walk.range_, walk.next_, walk.run, walk.sync, walk.land),
    *(walk.export, walk.report, fix, rounds.probe, rounds.plan, rounds.gather, rounds.roll, bisect, patches),
):
    integrate.add_command(command)
