"""``mlir-release integrate``: walk a downstream's LLVM forward."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlir_release.cli.common import json_option
from mlir_release.console import console
from mlir_release.errors import ExitCode, NeedsPersonError, UsageError

if TYPE_CHECKING:
    from mlir_release.integrate.pulls import PullRequests
    from mlir_release.integrate.report import Report
    from mlir_release.integrate.strategy import Strategy
    from mlir_release.integrate.walk import Walk, WalkEnd


@click.group()
@click.option(
    "-C", "directory", type=click.Path(path_type=Path), default=Path(), help="The downstream's checkout.  [default: .]"
)
@click.pass_context
def integrate(ctx: click.Context, directory: Path) -> None:
    """Walk a downstream's LLVM forward (configured in its integrate.toml; see docs/integrate.md)."""
    ctx.obj = directory


_push = click.option("--push", is_flag=True, help="Push the branch and the verdicts as they come.")
_until = click.option("--until", metavar="REV", help="Go no farther than this upstream commit.")
_strategy = click.option("--strategy", metavar="NAME", help="linear, head, adaptive or parallel.")
_width = click.option("--width", type=click.IntRange(1, 256), help="Probes side by side.")


def _project(directory: Path) -> Any:
    from mlir_release.integrate.project import open_project

    return open_project(directory)


def _walk(directory: Path, *, push: bool = False, anywhere: bool = False) -> Walk:
    from mlir_release.integrate.walk import Walk
    from mlir_release.integrate.weights import weigher
    from mlir_release.worktree import current_branch

    project = _project(directory)
    if anywhere:  # only looks: reading what every commit touches would cost more than all the rest
        return Walk(project, branch=current_branch(project.outer) or "HEAD")
    return Walk(project, publish=push, weigh=weigher(project))


def _choose(walk: Walk, strategy: str | None, width: int | None) -> tuple[Strategy, int]:
    from mlir_release.integrate.strategy import make_strategy

    config = walk.project.config
    name = strategy or config.strategy
    wide = width or (8 if name == "parallel" and config.width == 1 else config.width)
    return make_strategy(name, wide), wide


def _pulls() -> PullRequests | None:
    """The downstream's pull requests, in GitHub Actions or wherever its two variables are set."""
    repository, token = os.environ.get("GITHUB_REPOSITORY"), os.environ.get("GITHUB_TOKEN")
    if not repository or not token:
        return None
    from mlir_release.forge.github_client import GitHubClient
    from mlir_release.integrate.pulls_github import GitHubPullRequests

    return GitHubPullRequests(GitHubClient.of_environment(repository))


@integrate.command()
@_push
@json_option
@click.pass_obj
def start(directory: Path, push: bool) -> None:
    """Begin: main up to date, and a dated branch."""
    from mlir_release.integrate.start import start as begin

    name = begin(_project(directory), publish=push)
    pulls = _pulls() if push else None
    if pulls is not None:
        _update_pull_request(_walk(directory), pulls)
    console.result(f"on {name}", {"branch": name})


def _update_pull_request(walk: Walk, pulls: PullRequests) -> None:
    from mlir_release.integrate.land import pull_request_text

    config = walk.project.config
    title, body = pull_request_text(walk.project, walk.branch)
    pulls.ensure_draft(branch=walk.branch, base=config.main, title=title, body=body)
    if config.ci_workflow:
        pulls.dispatch(workflow=config.ci_workflow, branch=walk.branch)


@integrate.command()
@_until
@click.option("--no-fetch", is_flag=True, help="Use the upstream as last fetched.")
@click.option("--limit", type=int, default=40, show_default=True, help="Commits to show.")
@json_option
@click.pass_obj
def status(directory: Path, until: str | None, no_fetch: bool, limit: int) -> None:
    """Where the pin is, what is carried, what is ahead (the next commit last)."""
    from mlir_release.integrate.status import render
    from mlir_release.integrate.status import status as collect

    data = collect(_walk(directory, anywhere=True), until=until, fetch=not no_fetch)
    console.result(render(data, limit=limit), data)


@integrate.command("range")
@click.argument("a")
@click.argument("b")
@json_option
@click.pass_obj
def range_(directory: Path, a: str, b: str) -> None:
    """List the affecting upstream commits after A up to B, oldest first."""
    from mlir_release.integrate.report import shown

    project = _project(directory)
    commits = project.affecting(project.upstream_commit(a).sha, project.upstream_commit(b).sha)
    text = "\n".join(f"{commit.sha[:12]} {shown(commit.subject)}" for commit in commits)
    console.result(text, [{"commit": commit.sha, "subject": shown(commit.subject)} for commit in commits])


@integrate.command("next")
@click.option("--advance-to", metavar="REV", help="Exactly this upstream commit.")
@click.option("--resolved", metavar="COMMIT", help="The carried stack, rebased by hand onto --advance-to.")
@_push
@json_option
@click.pass_obj
def next_(directory: Path, advance_to: str | None, resolved: str | None, push: bool) -> None:
    """Advance once, without a test."""
    if resolved and not advance_to:
        raise UsageError(
            "resolved-without-target", "--resolved needs --advance-to", remedy="say where the stack stands"
        )
    commit = _walk(directory, push=push).next(to=advance_to, resolved=resolved)
    console.result(f"committed {commit[:12]}" if commit else "at head: nothing to do", {"commit": commit})


@integrate.command()
@_strategy
@_width
@_until
@click.option("--no-probes", is_flag=True, help="Only use verdicts that are recorded; stop where a test is needed.")
@click.option("--wait", is_flag=True, help="At head, wait for the upstream and go on.")
@click.option("--every", type=int, default=600, show_default=True, metavar="SECONDS", help="How often to look.")
@click.option("--next-round", metavar="WORKFLOW", help="With --no-probes: dispatch it if more probes are needed.")
@_push
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
    while True:
        walk = _walk(directory, push=push)
        chosen, wide = _choose(walk, strategy, width)
        end = walk.run(chosen, width=wide, until=until, probing=not no_probes)
        pulls = _pulls() if push else None
        if pulls is not None:
            _update_pull_request(walk, pulls)
        if end.outcome == "untested":
            if next_round:
                _dispatch_round(pulls, next_round, walk.branch, strategy, width)
            console.result(f"{end.remaining} commits ahead; more probes are needed", end.as_json())
            return
        if end.outcome != "head":
            _report_end(walk, end, pulls)
        console.result(f"LLVM is at head, {end.base}" if not wait else "", end.as_json())
        if not wait:
            return
        console.say(f"    at head; looking again in {every} seconds")
        time.sleep(every)


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


def _report_end(walk: Walk, end: WalkEnd, pulls: PullRequests | None) -> None:
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
    _publish(walk, report, pulls)
    raise conflict or NeedsPersonError(
        "walk-needs-person",
        f"the walk stopped: {end.outcome}",
        where=end.bad,
        why=f"the branch {end.branch} stands at {end.base}",
        remedy=report.advice,
    )


def _publish(walk: Walk, report: Report, pulls: PullRequests | None) -> None:
    """Print the report, and send it wherever it is wanted."""
    from mlir_release.notify import notify

    url = walk.project.config.upstream_url.removesuffix(".git")
    markdown = report.as_markdown(commit_url=f"{url}/commit/" if url.startswith("https://github.com/") else "")
    console.result(markdown, report.as_json())
    console.summary(markdown)
    if pulls is not None:
        pulls.comment(branch=walk.branch, key="report", body=markdown)
    attachments = [Path(report.log)] if report.log else []
    notify(
        walk.project.config.notify_variable,
        title=f"{walk.branch}: {report.outcome}",
        body=markdown,
        attachments=attachments,
    )


@integrate.command()
@click.argument("rev")
@click.option("--record-to", type=click.Path(path_type=Path), help="Write the record there, too.")
@click.option("--verdict-is-success", is_flag=True, help="Exit 0 whatever the verdict (it is in the record).")
@_push
@json_option
@click.pass_obj
def probe(directory: Path, rev: str, record_to: Path | None, verdict_is_success: bool, push: bool) -> None:
    """One smoke test at upstream commit REV (exit 0: good, 6: bad, 125: untestable)."""
    walk = _walk(directory, push=push)
    seen = walk.observe()
    record = walk.probe(seen, walk.project.upstream_commit(rev).sha)
    walk.store.record(record)
    if push:
        walk.store.push(walk.project.config.remote)
    if record_to is not None:
        temporary = record_to.with_name(record_to.name + ".tmp")
        temporary.write_text(json.dumps(record.as_json(), indent=1), encoding="utf-8")
        temporary.replace(record_to)
    console.result(f"{record.upstream[:12]} is {record.verdict}", record.as_json())
    codes = {"good": ExitCode.OK, "bad": ExitCode.VERIFICATION, "untestable": ExitCode.UNTESTABLE}
    if not verdict_is_success:
        sys.exit(int(codes[str(record.verdict)]))


@integrate.command()
@_strategy
@_width
@_until
@json_option
@click.pass_obj
def plan(directory: Path, strategy: str | None, width: int | None, until: str | None) -> None:
    """Name the next round's probes, for machines that run side by side; sets the outputs probes, head and branch."""
    from mlir_release.integrate.fanout import plan as make

    walk = _walk(directory)
    walk.store.pull(walk.project.config.remote)
    data = make(walk, _choose(walk, strategy, width)[0], until=until)
    for name in ("probes", "head", "branch"):
        console.output(name, data[name])
    console.result("\n".join(data["probes"]) or "nothing to probe", data)


@integrate.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@_push
@json_option
@click.pass_obj
def gather(directory: Path, folder: Path, push: bool) -> None:
    """Record what probe jobs wrote into FOLDER (probe --record-to)."""
    from mlir_release.integrate.fanout import gather as collect

    walk = _walk(directory, push=push)
    count = collect(walk, folder)
    if push:
        walk.store.push(walk.project.config.remote)
    console.result(f"recorded {count}", {"records": count})


@integrate.command()
@json_option
@click.pass_obj
def export(directory: Path) -> None:
    """Make every carried state that HEAD points at reachable for others."""
    from mlir_release.integrate.carry import export as push_out

    heads = push_out(_project(directory))
    lines = [f"{path}: {head}" for path, head in heads.items()]
    console.result("\n".join(lines) or "nothing is carried", heads)


@integrate.command()
@click.option("--log", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A build log to read.")
@click.option("--send", is_flag=True, help="Comment on the pull request, and notify.")
@json_option
@click.pass_obj
def report(directory: Path, log: Path | None, send: bool) -> None:
    """What the last failed test says: errors, culprit, suspects. With --log, of any build log."""
    from mlir_release.integrate import strategy as st
    from mlir_release.integrate.report import findings_in, make_report

    walk = _walk(directory, anywhere=log is not None)
    seen = walk.observe(fetch=False)
    records = walk.verdicts(seen)
    known = walk.knowledge(seen, records)
    here = st.bracket(known)
    record = records.get(here.high) if here.high is not None else None
    findings = [finding.as_json() for finding in findings_in(log.read_bytes())] if log else []
    exact = here.high == here.low + 1 and known.verdicts.get(here.low) is st.Verdict.GOOD if here.high else False
    made = make_report(
        walk.project,
        outcome="culprit" if exact else "range" if here.high else "bad",
        branch=walk.branch,
        good=seen.upstream_at(here.low),
        bad=seen.upstream_at(here.high or 0),
        commits=seen.ahead[here.low : here.high or len(seen.ahead)],
        findings=findings or (record.findings if record else ()),
        key=record.key if record else "",
    )
    if send:
        _publish(walk, made, _pulls())
    else:
        console.result(made.as_markdown(), made.as_json())


@integrate.command()
@_push
@json_option
@click.pass_obj
def sync(directory: Path, push: bool) -> None:
    """After somebody pushed a fix: pull, update submodules, merge main in."""
    from mlir_release.integrate.carry import sync as bring

    changed = bring(_walk(directory, push=push))
    console.result("brought up to date" if changed else "nothing new", {"changed": changed})


@integrate.group()
def bisect() -> None:
    """Bisect without touching the checkout. CMD: exit 0 good, 125 untestable, else bad."""


def _ends(function: Any) -> Any:
    function = click.argument("command", nargs=-1, required=True, metavar="-- CMD…")(function)
    function = click.option("--bad", required=True, metavar="REV", help="A commit that fails.")(function)
    return click.option("--good", required=True, metavar="REV", help="A commit that passes.")(json_option(function))


@bisect.command("upstream")
@_ends
@click.pass_obj
def bisect_upstream(directory: Path, good: str, bad: str, command: tuple[str, ...]) -> None:
    """Upstream commits, each with the carried patches on top."""
    from mlir_release.integrate.bisect import bisect_upstream as search

    _bisected(search(_project(directory), good, bad, command))


@bisect.command("branch")
@_ends
@click.pass_obj
def bisect_branch(directory: Path, good: str, bad: str, command: tuple[str, ...]) -> None:
    """Commits of this repository, submodules updated at each."""
    from mlir_release.integrate.bisect import bisect_branch as search

    _bisected(search(_project(directory), good, bad, command))


def _bisected(result: Any) -> None:
    if result.skipped:
        text = f"first bad is one of: {' '.join([*result.skipped, result.first_bad])}"
    else:
        text = f"first bad: {result.first_bad} {result.subject}"
    console.result(f"{text}\n{result.steps} steps", result.as_json())


@integrate.group()
def patches() -> None:
    """The carried patches and their ledger."""


@patches.command("list")
@json_option
@click.pass_obj
def patches_list(directory: Path) -> None:
    """What is carried."""
    found = _walk(directory, anywhere=True).observe(fetch=False).patches
    text = "\n".join(f"{patch.sha[:12]} {patch.subject} [{patch.kind}]" for patch in found)
    console.result(text or "nothing is carried", [patch.as_json() for patch in found])


@patches.command("explain")
@click.argument("patch")
@json_option
@click.pass_obj
def patches_explain(directory: Path, patch: str) -> None:
    """One patch: why, where upstream, when to drop it, and whether upstream has it."""
    from mlir_release.integrate.status import status as collect

    data = collect(_walk(directory, anywhere=True), fetch=False)
    found = [item for item in data["patches"] if item["sha"].startswith(patch)]
    if len(found) != 1:
        raise UsageError("patch-unknown", f"{patch!r} names {len(found)} of the carried patches", remedy="patches list")
    console.result("\n".join(f"{key}: {value}" for key, value in found[0].items() if value), found[0])


@patches.command("add")
@click.argument("commit")
@click.option("--revert", is_flag=True, help="Revert it instead of picking it.")
@click.option("--why", required=True, help="Why this is carried.")
@click.option("--link", default="", metavar="URL", help="Where it is discussed upstream.")
@click.option("--drop-when", default="", help="When it can go.  [default: once upstream has it, or reverts it, too]")
@_push
@json_option
@click.pass_obj
def patches_add(directory: Path, commit: str, revert: bool, why: str, link: str, drop_when: str, push: bool) -> None:
    """Carry an upstream COMMIT, or its revert."""
    from mlir_release.integrate.carry import add

    tip = add(_walk(directory, push=push), commit, revert=revert, why=why, link=link, drop_when=drop_when)
    console.result(f"carrying {tip[:12]}", {"commit": tip})


@patches.command("drop")
@click.argument("patch")
@_push
@json_option
@click.pass_obj
def patches_drop(directory: Path, patch: str, push: bool) -> None:
    """Stop carrying PATCH."""
    from mlir_release.integrate.carry import drop

    dropped = drop(_walk(directory, push=push), patch)
    console.result(f"dropped {dropped.sha[:12]} {dropped.subject}", dropped.as_json())


@integrate.command()
@click.option("--squash/--keep", default=True, show_default=True, help="One commit, or the walk as it was.")
@json_option
@click.pass_obj
def land(directory: Path, squash: bool) -> None:
    """Check that everything can be fetched, push, write the pull request, mark it ready."""
    from mlir_release.integrate.land import land as finish

    walk = _walk(directory)
    commit = finish(walk, squash=squash, pulls=_pulls())
    console.result(f"{walk.branch} is ready at {commit[:12]}", {"branch": walk.branch, "commit": commit})


@integrate.command()
@click.option("--walks", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Recorded walks (JSON).")
@click.option(
    "--commits",
    help="Generated walks: affecting commits in each.",
    type=click.IntRange(1),
    default=150,
    show_default=True,
)
@click.option(
    "--break-rate",
    help="Generated walks: how likely each commit breaks the downstream.",
    type=click.FloatRange(0, 1),
    default=0.02,
    show_default=True,
)
@click.option(
    "--flaky",
    help="How likely a smoke test fails though nothing is broken.",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
)
@click.option("--seeds", help="Generated walks: how many.", type=click.IntRange(1), default=100, show_default=True)
@click.option("--strategy", "name", default="adaptive", show_default=True, help="The strategy to count for.")
@click.option("--width", type=click.IntRange(1, 256), default=1, show_default=True, help="Probes side by side.")
@click.option("--retries", type=click.IntRange(0), default=1, show_default=True, help="Of a failed smoke test.")
@json_option
def simulate(
    walks: Path | None,
    commits: int,
    break_rate: float,
    flaky: float,
    seeds: int,
    name: str,
    width: int,
    retries: int,
) -> None:
    """Replay recorded or generated walks through a strategy, counting smoke tests and rounds."""
    from mlir_release.integrate.simulate import generate_walks, load_walks, summarize

    worlds = (
        load_walks(walks) if walks else generate_walks(commits=commits, break_rate=break_rate, flaky=flaky, seeds=seeds)
    )
    summary = summarize(worlds, name, width=width, retries=retries if flaky else 0).as_json()
    console.result("\n".join(f"{key}: {value}" for key, value in summary.items()), summary)
