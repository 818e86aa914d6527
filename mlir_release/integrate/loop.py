"""``integrate run``: walk to the end, keep the pull request up to date, and report where a person is needed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.errors import NeedsPersonError, ReleaseError, UsageError
from mlir_release.ground.foreign import markdown
from mlir_release.ground.git.remotes import UnreachableError
from mlir_release.integrate.deliver.branch import warn_of_taken_back
from mlir_release.integrate.deliver.deliver import deliver, update_pull_request
from mlir_release.integrate.deliver.page import pictures
from mlir_release.integrate.fix.broken import show_broken
from mlir_release.integrate.open import open_joint
from mlir_release.integrate.patches.ledger import reverted_since
from mlir_release.integrate.report import WalkEnd, WalkReport
from mlir_release.integrate.walk.roll import Orders, read_orders, rehearsal
from mlir_release.integrate.walk.walk import Allowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mlir_release.ground.hosting import PullRequests
    from mlir_release.integrate.walk.together import JointWalk


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What is asked of ``integrate run``."""

    strategy: str | None = None  #: its name; for None, and for a width of None, ``integrate.toml`` decides
    width: int | None = None
    until: str | None = None  #: an upstream commit; where there are several upstreams, ``NAME@REV``
    probing: bool = True  #: False: use recorded verdicts only
    push: bool = False
    wait: bool = False  #: at head, begin again when the upstream has moved
    every: float = 600  #: seconds between two looks at it
    next_round: str | None = None  #: workflow to dispatch if more probes are needed
    #: Heed the roller's orders (:func:`~mlir_release.integrate.walk.roll.read_orders`): walk nothing while it is
    #: stopped; in a dry run, move no branch. A dry run's own branch never moves.
    roll: bool = False


def run(
    directory: Path,
    upstream: str,
    request: RunRequest,
    *,
    pulls: PullRequests | None = None,
    opened: Callable[..., JointWalk] = open_joint,
) -> Iterator[WalkEnd]:
    """Walk; yields each arrival at head, or the one end where more probes are needed.

    :param upstream: its name; empty: all that the branch walks
    :param pulls: of the downstream, which are kept up to date; None without ``push``
    :param opened: opens what is walked
    :raises NeedsPersonError: with the walk's end and the report, which has been delivered then
    :raises UnreachableError: if a remote can't be read; while waiting, that is retried
    """
    waiting = False
    while True:
        walk = opened(directory, upstream, push=request.push)
        if not waiting:
            warn_of_taken_back(each.project for each in walk.walks)
        orders = read_orders(walk.project) if request.roll else Orders(mode="running")
        rehearsing = walk.branch == rehearsal(walk.project)  # on a dry run's own branch
        moves = not (orders.dry or rehearsing)
        # If the roller runs again, the next scheduled run goes on.
        dispatches = orders.dry or not rehearsing
        allowed = Allowed(moves=moves, pushes=request.push and moves, probes=request.probing, dispatches=dispatches)
        walk.publish = allowed.pushes
        for each in walk.walks:
            each.publish = allowed.pushes
        chosen, side_by_side = walk.strategy(request.strategy, request.width)
        try:
            if orders.mode == "stopped":
                console.say(f"    {orders.text()}")
                console.summary(f"Nothing was done: {markdown(orders.text())}.")
                observer = walk.walks[0].observer
                end = WalkEnd.of(observer, observer.look(), outcome="stopped")
            else:
                end = walk.run(chosen, width=side_by_side, until=request.until, allowed=allowed)
        except UnreachableError as error:
            if not waiting:
                raise
            console.warn(str(error))  # a network failure at night must not end the wait
        else:
            if end.outcome != "stopped":
                for each in walk.walks:
                    seen, followed = each.observer.look(fetch=False), each.project.upstream
                    for undone in reverted_since(followed, seen.base, seen.patches, seen.until, ahead=seen.ahead):
                        console.warn(f"{walk.branch} has a commit that upstream has reverted: {undone.text()}")
                _follow_up(walk, end, pulls if allowed.moves else None, push=allowed.pushes)
            if end.outcome == "untested" and request.next_round:
                inputs = {"branch": walk.branch, "strategy": request.strategy, "width": request.width}
                if not allowed.dispatches:
                    console.say(f"    no round is dispatched: {orders.text()}")
                elif pulls is None:
                    raise UsageError(
                        "needs-github",
                        "the next round can't be started from here",
                        where=request.next_round,
                        why="--next-round needs --push, GITHUB_REPOSITORY and GITHUB_TOKEN",
                        remedy="run this in GitHub Actions, or probe on this machine: mlir-release integrate run "
                        "--push",
                    )
                else:  # on the branch whose workflow this run is of
                    begun = os.environ.get("GITHUB_REF_NAME", "main")
                    given = {key: str(value) for key, value in inputs.items() if value}
                    pulls.dispatch(workflow=request.next_round, branch=begun, inputs=given)
            yield end
            if end.outcome == "untested" or not request.wait:
                return
            console.say(f"    {end.outcome}; checking again in {request.every:g} seconds")
            waiting = True
        time.sleep(request.every)


def _follow_up(walk: JointWalk, end: WalkEnd, pulls: PullRequests | None, *, push: bool) -> None:
    """Update the pull request, and show what is broken; report a walk that stopped, for each upstream that did.

    Failed deliveries of that report are only warned about.
    """
    failures: list[ReleaseError] = []
    first = next((each for each in end.everywhere() if each.stopped), end)
    broken = show_broken(walk.walk_of(first.upstream), first, pulls) if push else ""
    if pulls is not None or "GITHUB_STEP_SUMMARY" in os.environ:
        try:
            walked = pictures(walk.project, walk.branch)
            console.summary(walked)
            if pulls is not None:
                update_pull_request(walk.project, walk.branch, pulls, walked=walked)
        except ReleaseError as refused:  # a report is delivered all the same
            failures.append(refused)
    if failures and not end.stopped:
        raise failures[0]
    if not end.stopped:
        return
    reports = [
        WalkReport.of(walk.walk_of(each.upstream).project, each, broken=broken)
        for each in end.everywhere()
        if each.stopped
    ]
    report, conflict = reports[0], end.conflict
    text = "\n".join(each.as_markdown() for each in reports)
    if not console.json_mode:  # there the report is part of the error: one document
        shown = replace(report, advice="").as_markdown()  # the error that follows ends with it
        console.result("\n".join([*(each.as_markdown() for each in reports[1:]), shown]), {})
    console.summary(text)
    undelivered = deliver(report, text=text, variable=walk.project.config.notify.variable, pulls=pulls)
    for failure in [*failures, *undelivered]:
        console.warn(str(failure))
    where = [f"{each.upstream} is at {each.base[:12]} ({each.outcome})" for each in end.everywhere()]
    error = conflict or NeedsPersonError(
        "walk-needs-person",
        f"the walk stopped: {end.outcome}",
        where=end.bad,
        why=("\n".join(where) if end.others else f"the branch {end.branch} is at {end.base}")
        + walk.project.config.smoke.withheld,
        remedy=report.advice,
    )
    error.details = {**end.as_json(), "report": report.as_json()}
    raise error
