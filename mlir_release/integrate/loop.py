"""``integrate run``: walk to the end, keep the pull request up to date, and report where a person is needed."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from mlir_release.console import console
from mlir_release.errors import NeedsPersonError, ReleaseError, UsageError
from mlir_release.forge import open as forges
from mlir_release.git.remotes import UnreachableError
from mlir_release.integrate.deliver import deliver, update_pull_request
from mlir_release.integrate.ledger import reverted_since
from mlir_release.integrate.open import open_walk
from mlir_release.integrate.page import picture
from mlir_release.integrate.report import make_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mlir_release.forge.services import PullRequests
    from mlir_release.integrate.walk import Walk, WalkEnd


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
) -> Iterator[WalkEnd]:
    """Walk; yields each arrival at head, or the one end where more probes are needed.

    :param strategy: its name; for None, and for a ``width`` of None, ``integrate.toml`` decides
    :param until: an upstream commit
    :param probing: False: use recorded verdicts only
    :param wait: at head, begin again when the upstream has moved; ``every``: seconds between two looks at it
    :param next_round: workflow to dispatch if more probes are needed
    :raises NeedsPersonError: with the walk's end and the report, which has been delivered then
    :raises UnreachableError: if a remote can't be read; while waiting, that is retried
    """
    pulls = forges.open_pulls() if push else None
    waiting = False
    while True:
        walk = open_walk(directory, push=push)
        chosen, side_by_side = walk.strategy(strategy, width)
        try:
            end = walk.run(chosen, width=side_by_side, until=until, probing=probing)
        except UnreachableError as error:
            if not waiting:
                raise
            console.warn(str(error))  # a network failure at night must not end the wait
        else:
            _watch(walk)
            _follow_up(walk, end, pulls)
            if end.outcome == "untested" and next_round:
                inputs = {"branch": walk.branch, "strategy": strategy, "width": width}
                _dispatch(pulls, next_round, {key: str(value) for key, value in inputs.items() if value})
            yield end
            if end.outcome == "untested" or not wait:
                return
            console.say(f"    at head; checking again in {every:g} seconds")
            waiting = True
        time.sleep(every)


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


def _watch(walk: Walk) -> None:
    """Warn of commits that the branch has and that upstream has reverted."""
    seen, upstream = walk.observer.look(fetch=False), walk.project.upstream
    for each in reverted_since(upstream, seen.base, seen.patches, seen.until, ahead=seen.ahead):
        console.warn(f"{walk.branch} has a commit that upstream has reverted: {each.text()}")
