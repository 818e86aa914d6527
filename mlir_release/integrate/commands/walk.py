"""The commands of a walk: start, status, page, stats, range, next, run, sync, land, export and report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.options import EXISTING_FILE, ForeignCommand
from mlir_release.ground.console import console, counted
from mlir_release.integrate.commands.options import (
    At,
    align_option,
    at_as_json,
    goal,
    next_round_option,
    push_option,
    roll_option,
    strategy_options,
    until_option,
)

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.integrate.report import WalkEnd


@click.command()
@click.option("--repair", is_flag=True, help="Correct copies of the pin that say another commit.")
@push_option
@roll_option
@at_as_json
def start(at: At, repair: bool, push: bool, roll: bool) -> None:
    """Begin: main up to date, and a dated branch. It walks all upstreams, or --upstream alone.

    With --roll, go on with the integrate that is open, if there is one. Sets the outputs branch (empty if nothing
    begins) and new.
    """
    from mlir_release.ground.foreign import markdown
    from mlir_release.integrate.deliver import branch
    from mlir_release.integrate.open import open_project
    from mlir_release.integrate.walk.roll import Beginning, begin
    from mlir_release.release.forge.open import open_pulls

    opened = open_pulls() if push else None
    project = open_project(*at)
    walked = (project,) if at.upstream else project.everyone
    if roll:
        begun = begin(*walked, publish=push, pulls=opened)
        console.summary(markdown(begun.said))
    else:
        name = branch.start(*walked, publish=push, pulls=opened, repair=repair)
        begun = Beginning(branch=name, new=True, said=f"on {name}")
    if push and begun.new and opened is None:
        console.say("    no pull request opened: that needs GITHUB_REPOSITORY and GITHUB_TOKEN")
    console.output("branch", begun.branch)
    console.output("new", str(begun.new).lower())
    console.result(begun.said, {"branch": begun.branch, "new": begun.new})


@click.command()
@until_option
@click.option("--no-fetch", is_flag=True, help="Use the upstream as last fetched.")
@click.option("--limit", type=int, default=40, show_default=True, help="Commits to show.")
@at_as_json
def status(at: At, until: str | None, no_fetch: bool, limit: int) -> None:
    """Where the pin is, what is carried, what is ahead (the next commit last)."""
    from mlir_release.integrate.open import open_observers
    from mlir_release.integrate.status import collect, render
    from mlir_release.integrate.walk.together import named

    observers = open_observers(*at)
    goals = named([observer.project for observer in observers], until) if until else {}
    found = [collect(each, until=goals.get(each.project), fetch=not no_fetch) for each in observers]
    show_each([render(data, limit=limit) for data in found], found)


@click.command()
@at_as_json
def page(at: At) -> None:
    """The picture of this branch's walk, in Markdown: what was tested in which order, where it is, what it cost."""
    from mlir_release.integrate.deliver.page import picture
    from mlir_release.integrate.open import open_projects

    drawn = [picture(project, project.branch()) for project in open_projects(*at)]
    show_each([each.as_markdown() for each in drawn], [each.as_json() for each in drawn])
    console.summary("\n".join(each.as_markdown() for each in drawn))


@click.command()
@at_as_json
def stats(at: At) -> None:
    """How often upstream breaks this project, where, and what its walks have cost: from the history of HEAD."""
    from mlir_release.integrate.open import open_projects
    from mlir_release.integrate.status import collect_stats

    projects = open_projects(*at)
    counted = [collect_stats(project) for project in projects]
    titles = [f"{project.upstream.config.title}: " if len(projects) > 1 else "" for project in projects]
    texts = [f"{title}{each.as_text()}" for title, each in zip(titles, counted, strict=True)]
    show_each(texts, [vars(each) for each in counted])


@click.command("range")
@click.argument("a")
@click.argument("b")
@click.argument("paths", nargs=-1)
@at_as_json
def range_(at: At, a: str, b: str, paths: tuple[str, ...]) -> None:
    """List the affecting upstream commits after A up to B, oldest first: those of PATHS, or of all tracked ones."""
    from mlir_release.integrate.open import open_projects, the_only

    upstream = the_only(open_projects(*at)).upstream
    commits = upstream.affecting(upstream.commit(a).sha, upstream.commit(b).sha, paths)
    text = "\n".join(f"{commit.sha[:12]} {commit.title}" for commit in commits)
    console.result(text, [commit.as_json() for commit in commits])


@click.command("next", cls=ForeignCommand, starts="the downstream's refresh command")
@click.option("--advance-to", metavar="REV", help="Exactly this upstream commit.")
@click.option("--resolved", metavar="COMMIT", help="The carried stack, rebased by hand onto --advance-to.")
@align_option
@push_option
@at_as_json
def next_(at: At, advance_to: str | None, resolved: str | None, align: str | None, push: bool) -> None:
    """Advance once, without a test."""
    from mlir_release.integrate.open import open_walk
    from mlir_release.integrate.walk.together import named

    walk = open_walk(*at, push=push)
    target = goal(at, advance_to, align, option="--advance-to")
    commit = walk.next(to=named([walk.project], target)[walk.project] if target else None, resolved=resolved)
    console.result(f"committed {commit[:12]}" if commit else "at head: nothing to do", {"commit": commit})


@click.command(cls=ForeignCommand, starts="the downstream's smoke test and refresh command", unless=("--no-probes",))
@strategy_options
@until_option
@align_option
@click.option("--no-probes", is_flag=True, help="Only use verdicts that are recorded; stop where a test is needed.")
@click.option("--wait", is_flag=True, help="At head, wait for the upstream to move, then continue.")
@click.option("--every", type=int, default=600, show_default=True, metavar="SECONDS", help="How often to look.")
@next_round_option
@roll_option
@push_option
@at_as_json
def run(at: At, /, no_probes: bool, until: str | None, align: str | None, **options: Any) -> None:
    """Probe, advance, narrow: to head (exit 0), or until a person is needed (exit 7, with a report)."""
    from mlir_release.integrate import loop
    from mlir_release.release.forge.open import open_pulls

    pulls = open_pulls() if options["push"] else None
    request = loop.RunRequest(until=goal(at, until, align), probing=not no_probes, **options)
    for end in loop.run(*at, request, pulls=pulls):
        show_end(end, quiet=options["wait"], at="" if until or align else "at head, ")


def show_end(end: WalkEnd, *, quiet: bool = False, at: str = "at head, ") -> None:
    """Print how far a walk came that needs nobody. ``quiet``: at head, only as JSON; ``at``: where a walk ends."""
    from mlir_release.integrate.state import told_retries

    if end.outcome == "untested":
        console.result(f"{counted(end.remaining, 'commit')} ahead; more probes are needed", end.as_json())
    elif end.outcome == "stopped":
        console.result("nothing was done", end.as_json())
    elif end.remaining:
        console.result(f"{end.upstream} would be at head, {end.good}; {end.branch} stays", end.as_json())
    else:
        lines = [f"{each.upstream} is {at or 'at '}{each.base}" for each in end.everywhere()]
        arrived = "\n".join([*lines, told_retries(end.retried, end.tested)]).rstrip()
        console.result("" if quiet else arrived, end.as_json())


def show_each(texts: list[str], data: list[Any]) -> None:
    """Print what there is to say of each upstream; of only one, its data alone."""
    console.result("\n".join(texts), data[0] if len(data) == 1 else data)


@click.command()
@push_option
@at_as_json
def sync(at: At, push: bool) -> None:
    """After a fix was pushed: pull, update submodules, merge main."""
    from mlir_release.integrate.deliver import branch
    from mlir_release.integrate.open import open_walks

    changed = branch.sync(open_walks(*at, push=push)[0])
    console.result("brought up to date" if changed else "nothing new", {"changed": changed})


@click.command()
@click.option("--at", "advance", metavar="REV", help="The branch as it was at this advance, without what came after.")
@click.option("--squash/--keep", default=True, show_default=True, help="One commit, or the walk as it was.")
@at_as_json
def land(at: At, advance: str | None, squash: bool) -> None:
    """Check that everything can be fetched, push, write the pull request, mark it ready."""
    from mlir_release.integrate.deliver import land as landing
    from mlir_release.integrate.open import open_walks
    from mlir_release.release.forge.open import open_pulls

    walk, opened = open_walks(*at)[0], open_pulls()
    commit = landing.land(walk, squash=squash, pulls=opened, at=advance)
    if opened is None:
        console.say("    no pull request was changed: that needs GITHUB_REPOSITORY and GITHUB_TOKEN")
    console.result(f"{walk.branch} is ready at {commit[:12]}", {"branch": walk.branch, "commit": commit})


@click.command()
@at_as_json
def export(at: At) -> None:
    """Make every carried state that HEAD points at reachable for others."""
    from mlir_release.integrate.open import open_project
    from mlir_release.integrate.patches.export import export_all

    heads = export_all(open_project(*at))
    lines = [f"{path}: {head}" for path, head in heads.items()]
    console.result("\n".join(lines) or "nothing is carried", heads)


@click.command()
@click.option("--log", type=EXISTING_FILE, help="A build log to read.")
@click.option("--send", is_flag=True, help="Comment on the pull request, and notify.")
@at_as_json
def report(at: At, log: Path | None, send: bool) -> None:
    """What the last failed test says: errors, culprit, suspects. With --log, of any build log."""
    from mlir_release.integrate.deliver.deliver import deliver
    from mlir_release.integrate.open import open_observers
    from mlir_release.integrate.report import report_known, report_log
    from mlir_release.release.forge.open import open_pulls

    observers = open_observers(*at)
    made = [report_log(each, log) if log else report_known(each) for each in observers]
    made = [each for each in made if each.end.outcome != "nothing"] or made[:1]
    text = "\n".join(each.as_markdown() for each in made)
    show_each([text], [each.as_json() for each in made])
    console.summary(text)
    if send:
        variable = observers[0].project.config.notify.variable
        for failure in deliver(made[0], text=text, variable=variable, pulls=open_pulls()):
            raise failure
