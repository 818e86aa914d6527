"""``integrate run``: walk to the end, keep the pull request up to date, and report where a person is needed."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import NeedsPersonError, ReleaseError, UsageError
from mlir_release.foreign import markdown
from mlir_release.forge import open as forges
from mlir_release.git.remotes import UnreachableError
from mlir_release.integrate.deliver import deliver, update_pull_request
from mlir_release.integrate.open import open_walk
from mlir_release.integrate.page import picture
from mlir_release.integrate.report import make_report
from mlir_release.integrate.roll import Orders, read_orders, rehearsal
from mlir_release.integrate.walk import WalkEnd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.forge.services import PullRequests
    from mlir_release.integrate.walk import Walk


def run(
    directory: Path,
    *,
    strategy: str | None = None,
    width: int | None = None,
    until: str | None = None,
    probing: bool = True,
    push: bool = False,
    wait: bool = False,
    every: float = 600,
    next_round: str | None = None,
    roll: bool = False,
) -> Iterator[WalkEnd]:
    """Walk; yields each arrival at head, or the one end where more probes are needed.

    :param strategy: its name; for None, and for a ``width`` of None, ``integrate.toml`` decides
    :param until: an upstream commit
    :param probing: False: use recorded verdicts only
    :param wait: at head, begin again when the upstream has moved; ``every``: seconds between two looks at it
    :param next_round: workflow to dispatch if more probes are needed
    :param roll: heed the roller's orders (:func:`~mlir_release.integrate.roll.read_orders`): walk nothing while it is
        stopped; in a dry run, move no branch; outside its hours, dispatch nothing. A dry run's own branch never moves
    :raises NeedsPersonError: with the walk's end and the report, which has been delivered then
    :raises UnreachableError: if a remote can't be read; while waiting, that is retried
    """
    pulls = forges.open_pulls() if push else None
    waiting = False
    while True:
        walk = open_walk(directory, push=push)
        orders = read_orders(walk.project) if roll else Orders(mode="running")
        rehearsing = walk.branch == rehearsal(walk.project)
        dry = orders.dry or rehearsing
        walk.publish = push and not dry
        chosen, side_by_side = walk.strategy(strategy, width)
        try:
            if orders.mode == "stopped":
                end = _stopped(walk, orders)
            else:
                end = walk.run(chosen, width=side_by_side, until=until, probing=probing, dry=dry)
        except UnreachableError as error:
            if not waiting:
                raise
            console.warn(str(error))  # a network failure at night must not end the wait
        else:
            if end.outcome != "stopped":
                _follow_up(walk, end, pulls if not dry else None)
            if end.outcome == "untested" and next_round:
                inputs = {"branch": walk.branch, "strategy": strategy, "width": width}
                if not orders.begins or (rehearsing and not orders.dry):  # the next scheduled run goes on
                    console.say(f"    no round is dispatched: {orders.text()}")
                else:
                    _dispatch(pulls, next_round, {key: str(value) for key, value in inputs.items() if value})
            yield end
            if end.outcome == "untested" or not wait:
                return
            console.say(f"    {end.outcome}; checking again in {every:g} seconds")
            waiting = True
        time.sleep(every)


def _stopped(walk: Walk, orders: Orders) -> WalkEnd:
    """The end of a walk that does not begin."""
    console.say(f"    {orders.text()}")
    console.summary(f"Nothing was done: {markdown(orders.text())}.")
    seen = walk.observer.look()
    title = walk.project.config.upstream.title
    return WalkEnd(outcome="stopped", branch=walk.branch, upstream=title, base=seen.base, remaining=len(seen.ahead))


def _follow_up(walk: Walk, end: WalkEnd, pulls: PullRequests | None) -> None:
    """Update the pull request; report a walk that stopped."""
    failures: list[ReleaseError] = []
    if pulls is not None or "GITHUB_STEP_SUMMARY" in os.environ:
        try:
            walked = picture(walk.project, walk.branch).as_markdown()
            console.summary(walked)
            if pulls is not None:
                update_pull_request(walk.project, walk.branch, pulls, walked=walked)
        except ReleaseError as error:  # a report is delivered all the same
            failures.append(error)
    if end.outcome not in ("head", "untested"):
        raise _reported(walk, end, pulls, failures)
    if failures:
        raise failures[0]


def _dispatch(pulls: PullRequests | None, workflow: str, inputs: dict[str, str]) -> None:
    """Start the run that makes the next round of probes, on the branch whose workflow this run is of."""
    if pulls is None:
        raise UsageError(
            "needs-github",
            "the next round can't be started from here",
            where=workflow,
            why="--next-round needs --push, GITHUB_REPOSITORY and GITHUB_TOKEN",
            remedy="run this in GitHub Actions, or probe on this machine: mlir-release integrate run --push",
        )
    pulls.dispatch(workflow=workflow, branch=os.environ.get("GITHUB_REF_NAME", "main"), inputs=inputs)


def _reported(walk: Walk, end: WalkEnd, pulls: PullRequests | None, failures: list[ReleaseError]) -> NeedsPersonError:
    """Report a walk that stopped. Returns the error to raise; failed deliveries are only warned about."""
    conflict = end.conflict
    report = make_report(
        walk.project,
        outcome=end.outcome,
        branch=end.branch,
        good=end.good,
        bad=end.bad,
        commits=end.suspects,
        record=end.record,
        advice=conflict.remedy if conflict else "",
    )
    text = report.as_markdown()
    if not console.json_mode:  # there the report is part of the error: one document
        console.result(replace(report, advice="").as_markdown(), {})  # the error that follows ends with it
    console.summary(text)
    undelivered = deliver(report, text=text, variable=walk.project.config.notify.variable, pulls=pulls)
    for failure in [*failures, *undelivered]:
        console.warn(str(failure))
    error = conflict or NeedsPersonError(
        "walk-needs-person",
        f"the walk stopped: {end.outcome}",
        where=end.bad,
        why=f"the branch {end.branch} is at {end.base}",
        remedy=f"{report.advice}{walk.project.config.smoke.withheld}",
    )
    error.details = {**end.as_json(), "report": report.as_json()}
    return error
