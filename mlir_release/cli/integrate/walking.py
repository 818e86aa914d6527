"""The commands of a walk: start, look, advance, report, bring to an end."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.integrate import common
from mlir_release.cli.integrate.common import (
    chosen,
    looking,
    opened,
    push_option,
    strategy_option,
    until_option,
    walking,
    width_option,
)
from mlir_release.cli.options import json_option
from mlir_release.console import console
from mlir_release.errors import MachineError, NeedsPersonError, ReleaseError, UsageError

if TYPE_CHECKING:
    from mlir_release.integrate.observe import Observer
    from mlir_release.integrate.pulls import PullRequests
    from mlir_release.integrate.report import Report
    from mlir_release.integrate.walk import Walk, WalkEnd


@click.command()
@push_option
@json_option
@click.pass_obj
def start(directory: Path, push: bool) -> None:
    """Begin: main up to date, and a dated branch."""
    from mlir_release.integrate.start import start as begin

    name = begin(opened(directory), publish=push)
    if push:
        pulls = common.open_pulls()
        if pulls is None:
            console.say("    no pull request opened: that needs GITHUB_REPOSITORY and GITHUB_TOKEN")
        else:
            _update_pull_request(walking(directory), pulls)
    console.result(f"on {name}", {"branch": name})


def _update_pull_request(walk: Walk, pulls: PullRequests) -> None:
    from mlir_release.integrate.land import pull_request_text

    config = walk.project.config
    title, body = pull_request_text(walk.project, walk.branch)
    pulls.ensure_draft(branch=walk.branch, base=config.downstream.branch, title=title, body=body)
    if config.ci.workflow:
        head = walk.project.outer.text("rev-parse", "--verify", f"refs/heads/{walk.branch}")
        pulls.ensure_ci(workflow=config.ci.workflow, branch=walk.branch, head=head)


@click.command()
@until_option
@click.option("--no-fetch", is_flag=True, help="Use the upstream as last fetched.")
@click.option("--limit", type=int, default=40, show_default=True, help="Commits to show.")
@json_option
@click.pass_obj
def status(directory: Path, until: str | None, no_fetch: bool, limit: int) -> None:
    """Where the pin is, what is carried, what is ahead (the next commit last)."""
    from mlir_release.integrate.status import render
    from mlir_release.integrate.status import status as collect

    data = collect(looking(directory), until=until, fetch=not no_fetch)
    console.result(render(data, limit=limit), data)


@click.command("range")
@click.argument("a")
@click.argument("b")
@json_option
@click.pass_obj
def range_(directory: Path, a: str, b: str) -> None:
    """List the affecting upstream commits after A up to B, oldest first."""
    from mlir_release.integrate.upstream import shown

    project = opened(directory)
    commits = project.upstream.affecting(project.upstream.commit(a).sha, project.upstream.commit(b).sha)
    text = "\n".join(f"{commit.sha[:12]} {shown(commit.subject)}" for commit in commits)
    console.result(text, [{"commit": commit.sha, "subject": shown(commit.subject)} for commit in commits])


@click.command("next")
@click.option("--advance-to", metavar="REV", help="Exactly this upstream commit.")
@click.option("--resolved", metavar="COMMIT", help="The carried stack, rebased by hand onto --advance-to.")
@push_option
@json_option
@click.pass_obj
def next_(directory: Path, advance_to: str | None, resolved: str | None, push: bool) -> None:
    """Advance once, without a test."""
    if resolved and not advance_to:
        raise UsageError(
            "resolved-without-target", "--resolved needs --advance-to", remedy="say where the stack stands"
        )
    commit = walking(directory, push=push).next(to=advance_to, resolved=resolved)
    console.result(f"committed {commit[:12]}" if commit else "at head: nothing to do", {"commit": commit})


@click.command()
@strategy_option
@width_option
@until_option
@click.option("--no-probes", is_flag=True, help="Only use verdicts that are recorded; stop where a test is needed.")
@click.option("--wait", is_flag=True, help="At head, wait for the upstream and go on.")
@click.option("--every", type=int, default=600, show_default=True, metavar="SECONDS", help="How often to look.")
@click.option("--next-round", metavar="WORKFLOW", help="With --no-probes: dispatch it if more probes are needed.")
@push_option
@json_option
@click.pass_obj
def run(
    directory: Path,
    next_round: str | None,
    strategy: str | None,
    width: int | None,
    until: str | None,
    no_probes: bool,
    wait: bool,
    every: int,
    push: bool,
) -> None:
    """Probe, advance, narrow: to head (exit 0), or until a person is needed (exit 7, with a report)."""
    waiting = False
    while True:
        walk = walking(directory, push=push)
        chosen_strategy, wide = chosen(walk, strategy, width)
        try:
            end = walk.run(chosen_strategy, width=wide, until=until, probing=not no_probes)
        except MachineError as error:
            if not waiting or error.id not in ("upstream-unreachable", "remote-unreachable"):
                raise
            console.warn(str(error))  # a network that fails at night is no reason to stop waiting
            time.sleep(every)
            continue
        pulls = common.open_pulls() if push else None
        failures = _pull_request_failures(walk, pulls)
        if end.outcome not in ("head", "untested"):
            raise _reported(walk, end, pulls, failures)
        if failures:
            raise failures[0]
        if end.outcome == "untested":
            if next_round:
                _dispatch_round(pulls, next_round, walk.branch, strategy, width)
            console.result(f"{end.remaining} commits ahead; more probes are needed", end.as_json())
            return
        console.result(f"LLVM is at head, {end.base}" if not wait else "", end.as_json())
        if not wait:
            return
        console.say(f"    at head; looking again in {every} seconds")
        waiting = True
        time.sleep(every)


def _pull_request_failures(walk: Walk, pulls: PullRequests | None) -> list[ReleaseError]:
    """Bring the pull request up to date; why that failed, if it did: a report goes out all the same."""
    try:
        if pulls is not None:
            _update_pull_request(walk, pulls)
    except ReleaseError as error:
        return [error]
    return []


def _dispatch_round(
    pulls: PullRequests | None, workflow: str, branch: str, strategy: str | None, width: int | None
) -> None:
    """Start the run that makes the next round of probes; the workflow's own branch is the one this run is on."""
    if pulls is None:
        raise UsageError(
            "round-not-dispatched",
            "the next round can't be started from here",
            where=workflow,
            why="--next-round needs --push, GITHUB_REPOSITORY and GITHUB_TOKEN",
            remedy="run it in GitHub Actions, or go on by hand: mlir-release integrate run --push",
        )
    given = {"branch": branch, "strategy": strategy or "", "width": str(width or "")}
    inputs = {key: value for key, value in given.items() if value}
    pulls.dispatch(workflow=workflow, branch=os.environ.get("GITHUB_REF_NAME", "main"), inputs=inputs)


def _reported(walk: Walk, end: WalkEnd, pulls: PullRequests | None, failures: list[ReleaseError]) -> NeedsPersonError:
    """Report a walk that stopped. Returns what ends the process: what could not be delivered is only warned of."""
    from mlir_release.integrate.report import make_report

    conflict = end.conflict
    report = make_report(
        walk.project,
        outcome=end.outcome,
        branch=end.branch,
        good=end.good,
        bad=end.bad,
        commits=end.suspects,
        findings=end.record.findings if end.record else (),
        key=end.record.key if end.record else "",
        advice=conflict.remedy if conflict else "",
    )
    markdown = _markdown(walk, report)
    if not console.json_mode:  # there the error has the report in it: one document
        console.result(markdown, {})
    console.summary(markdown)
    for failure in [*failures, *_delivered(walk, report, markdown, pulls)]:
        console.warn(str(failure))
    return WalkStopped(
        conflict
        or NeedsPersonError(
            "walk-needs-person",
            f"the walk stopped: {end.outcome}",
            where=end.bad,
            why=f"the branch {end.branch} stands at {end.base}",
            remedy=report.advice,
        ),
        {**end.as_json(), "report": report.as_json()},
    )


class WalkStopped(NeedsPersonError):
    """A walk that needs a person, with what ``--json`` says of it beside the error."""

    def __init__(self, error: NeedsPersonError, details: dict[str, object]) -> None:
        super().__init__(error.id, error.what, where=error.where, why=error.why, remedy=error.remedy)
        self.details = details

    def as_json(self) -> dict[str, object]:
        """The error, the walk's end, and the report."""
        return {**super().as_json(), **self.details}


def _markdown(walk: Observer, report: Report) -> str:
    url = walk.project.config.upstream.url.removesuffix(".git")
    return report.as_markdown(commit_url=f"{url}/commit/" if url.startswith("https://github.com/") else "")


def _delivered(walk: Observer, report: Report, markdown: str, pulls: PullRequests | None) -> list[ReleaseError]:
    """Send the report wherever it is wanted. Returns what could not be delivered."""
    from mlir_release.integrate.deliver import deliver

    return deliver(report, markdown=markdown, variable=walk.project.config.notify.variable, pulls=pulls)


@click.command()
@json_option
@click.pass_obj
def export(directory: Path) -> None:
    """Make every carried state that HEAD points at reachable for others."""
    from mlir_release.integrate.patch_ops import export as push_out

    heads = push_out(opened(directory))
    lines = [f"{path}: {head}" for path, head in heads.items()]
    console.result("\n".join(lines) or "nothing is carried", heads)


@click.command()
@click.option("--log", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A build log to read.")
@click.option("--send", is_flag=True, help="Comment on the pull request, and notify.")
@json_option
@click.pass_obj
def report(directory: Path, log: Path | None, send: bool) -> None:
    """What the last failed test says: errors, culprit, suspects. With --log, of any build log."""
    from mlir_release.integrate.report import report_known, report_log

    seen = looking(directory)
    made = report_log(seen, log.read_bytes()) if log else report_known(seen)
    markdown = _markdown(seen, made)
    console.result(markdown, made.as_json())
    console.summary(markdown)
    for failure in _delivered(seen, made, markdown, common.open_pulls()) if send else ():
        raise failure


@click.command()
@push_option
@json_option
@click.pass_obj
def sync(directory: Path, push: bool) -> None:
    """After somebody pushed a fix: pull, update submodules, merge main in."""
    from mlir_release.integrate.patch_ops import sync as bring

    changed = bring(walking(directory, push=push))
    console.result("brought up to date" if changed else "nothing new", {"changed": changed})


@click.command()
@click.option("--squash/--keep", default=True, show_default=True, help="One commit, or the walk as it was.")
@json_option
@click.pass_obj
def land(directory: Path, squash: bool) -> None:
    """Check that everything can be fetched, push, write the pull request, mark it ready."""
    from mlir_release.integrate.land import land as finish

    walk, pulls = walking(directory), common.open_pulls()
    commit = finish(walk, squash=squash, pulls=pulls)
    if pulls is None:
        console.say("    no pull request was changed: that needs GITHUB_REPOSITORY and GITHUB_TOKEN")
    console.result(f"{walk.branch} is ready at {commit[:12]}", {"branch": walk.branch, "commit": commit})
