"""The commands of a walk: start, status, page, stats, range, next, run, sync, land, export and report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.integrate.options import push_option, strategy_option, until_option, width_option
from mlir_release.cli.options import json_option
from mlir_release.console import console

if TYPE_CHECKING:
    from mlir_release.integrate.walk import WalkEnd


@click.command()
@push_option
@json_option
@click.pass_obj
def start(directory: Path, push: bool) -> None:
    """Begin: main up to date, and a dated branch."""
    from mlir_release.forge.open import open_pulls
    from mlir_release.integrate import branch
    from mlir_release.integrate.open import open_project

    opened = open_pulls() if push else None
    name = branch.start(open_project(directory), publish=push, pulls=opened)
    if push and opened is None:
        console.say("    no pull request opened: that needs GITHUB_REPOSITORY and GITHUB_TOKEN")
    console.result(f"on {name}", {"branch": name})


@click.command()
@until_option
@click.option("--no-fetch", is_flag=True, help="Use the upstream as last fetched.")
@click.option("--limit", type=int, default=40, show_default=True, help="Commits to show.")
@json_option
@click.pass_obj
def status(directory: Path, until: str | None, no_fetch: bool, limit: int) -> None:
    """Where the pin is, what is carried, what is ahead (the next commit last)."""
    from mlir_release.integrate.open import open_observer
    from mlir_release.integrate.status import collect, render

    data = collect(open_observer(directory), until=until, fetch=not no_fetch)
    console.result(render(data, limit=limit), data)


@click.command()
@json_option
@click.pass_obj
def page(directory: Path) -> None:
    """The picture of this branch's walk, in Markdown: what was tested in which order, where it is, what it cost."""
    from mlir_release.integrate.open import open_project
    from mlir_release.integrate.page import picture

    project = open_project(directory)
    drawn = picture(project, project.branch())
    console.result(drawn.as_markdown(), drawn.as_json())
    console.summary(drawn.as_markdown())


@click.command()
@json_option
@click.pass_obj
def stats(directory: Path) -> None:
    """How often upstream breaks this project, where, and what its walks have cost: from the history of HEAD."""
    from mlir_release.integrate.open import open_project
    from mlir_release.integrate.status import collect_stats

    counted = collect_stats(open_project(directory))
    console.result(counted.as_text(), vars(counted))


@click.command("range")
@click.argument("a")
@click.argument("b")
@json_option
@click.pass_obj
def range_(directory: Path, a: str, b: str) -> None:
    """List the affecting upstream commits after A up to B, oldest first."""
    from mlir_release.integrate.open import open_project

    upstream = open_project(directory).upstream
    commits = upstream.affecting(upstream.commit(a).sha, upstream.commit(b).sha)
    text = "\n".join(f"{commit.sha[:12]} {commit.title}" for commit in commits)
    console.result(text, [commit.as_json() for commit in commits])


@click.command("next")
@click.option("--advance-to", metavar="REV", help="Exactly this upstream commit.")
@click.option("--resolved", metavar="COMMIT", help="The carried stack, rebased by hand onto --advance-to.")
@push_option
@json_option
@click.pass_obj
def next_(directory: Path, advance_to: str | None, resolved: str | None, push: bool) -> None:
    """Advance once, without a test."""
    from mlir_release.integrate.open import open_walk

    commit = open_walk(directory, push=push).next(to=advance_to, resolved=resolved)
    console.result(f"committed {commit[:12]}" if commit else "at head: nothing to do", {"commit": commit})


@click.command()
@strategy_option
@width_option
@until_option
@click.option("--no-probes", is_flag=True, help="Only use verdicts that are recorded; stop where a test is needed.")
@click.option("--wait", is_flag=True, help="At head, wait for the upstream to move, then continue.")
@click.option("--every", type=int, default=600, show_default=True, metavar="SECONDS", help="How often to look.")
@click.option("--next-round", metavar="WORKFLOW", help="With --no-probes: dispatch it if more probes are needed.")
@push_option
@json_option
@click.pass_obj
def run(directory: Path, /, no_probes: bool, **options: Any) -> None:
    """Probe, advance, narrow: to head (exit 0), or until a person is needed (exit 7, with a report)."""
    from mlir_release.integrate import loop

    for end in loop.run(directory, probing=not no_probes, **options):
        show_end(end, quiet=options["wait"])


def show_end(end: WalkEnd, *, quiet: bool = False) -> None:
    """Print how far a walk came that needs nobody. ``quiet``: at head, only as JSON."""
    from mlir_release.integrate.state import told_retries

    if end.outcome == "untested":
        console.result(f"{end.remaining} commits ahead; more probes are needed", end.as_json())
    else:
        told = told_retries(end.retried, end.tested)
        console.result("" if quiet else f"{end.upstream} is at head, {end.base}\n{told}".rstrip(), end.as_json())


@click.command()
@push_option
@json_option
@click.pass_obj
def sync(directory: Path, push: bool) -> None:
    """After a fix was pushed: pull, update submodules, merge main."""
    from mlir_release.integrate import branch
    from mlir_release.integrate.open import open_walk

    changed = branch.sync(open_walk(directory, push=push))
    console.result("brought up to date" if changed else "nothing new", {"changed": changed})


@click.command()
@click.option("--squash/--keep", default=True, show_default=True, help="One commit, or the walk as it was.")
@json_option
@click.pass_obj
def land(directory: Path, squash: bool) -> None:
    """Check that everything can be fetched, push, write the pull request, mark it ready."""
    from mlir_release.forge.open import open_pulls
    from mlir_release.integrate import branch
    from mlir_release.integrate.open import open_walk

    walk, opened = open_walk(directory), open_pulls()
    commit = branch.land(walk, squash=squash, pulls=opened)
    if opened is None:
        console.say("    no pull request was changed: that needs GITHUB_REPOSITORY and GITHUB_TOKEN")
    console.result(f"{walk.branch} is ready at {commit[:12]}", {"branch": walk.branch, "commit": commit})


@click.command()
@json_option
@click.pass_obj
def export(directory: Path) -> None:
    """Make every carried state that HEAD points at reachable for others."""
    from mlir_release.integrate.export import export_all
    from mlir_release.integrate.open import open_project

    heads = export_all(open_project(directory))
    lines = [f"{path}: {head}" for path, head in heads.items()]
    console.result("\n".join(lines) or "nothing is carried", heads)


@click.command()
@click.option("--log", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A build log to read.")
@click.option("--send", is_flag=True, help="Comment on the pull request, and notify.")
@json_option
@click.pass_obj
def report(directory: Path, log: Path | None, send: bool) -> None:
    """What the last failed test says: errors, culprit, suspects. With --log, of any build log."""
    from mlir_release.forge.open import open_pulls
    from mlir_release.host.files import read_document
    from mlir_release.integrate.deliver import deliver
    from mlir_release.integrate.open import open_observer
    from mlir_release.integrate.report import report_known, report_log
    from mlir_release.model.decode import BUILD_LIMIT

    observer = open_observer(directory)
    made = report_log(observer, read_document(log, limit=BUILD_LIMIT)) if log else report_known(observer)
    text = made.as_markdown()
    console.result(text, made.as_json())
    console.summary(text)
    if send:
        variable = observer.project.config.notify.variable
        for failure in deliver(made, text=text, variable=variable, pulls=open_pulls()):
            raise failure
