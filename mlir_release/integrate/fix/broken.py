"""The broken state at the remote: ``BRANCH-broken`` is the integrate branch with the culprit on top.

CI and colleagues see there what breaks. Nobody is asked to merge it: there is no pull request for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import ReleaseError
from mlir_release.ground.git.remotes import push
from mlir_release.ground.git.trees import alike, is_ancestor
from mlir_release.ground.programs.races import Races
from mlir_release.ground.strategy import Verdict
from mlir_release.integrate.pins.generated import NONE_GENERATED
from mlir_release.integrate.state import T_UPSTREAM, T_VERDICT, of_upstream

if TYPE_CHECKING:
    from mlir_release.ground.hosting import PullRequests
    from mlir_release.integrate.report import WalkEnd
    from mlir_release.integrate.walk.walk import Walk


def show_broken(walk: Walk, end: WalkEnd, pulls: PullRequests | None) -> str:
    """Push the branch with the commit that broke it, and start the downstream's checks there; else remove the last one.

    What fails is only warned about.

    :returns: the branch's name; empty if there is nothing to show
    """
    config, name = walk.project.config, f"{walk.branch}-broken"
    if not config.ci.broken:
        return ""
    if end.outcome not in ("culprit", "range"):
        remove_broken(walk)
        return ""
    try:
        head = _push(walk, name, end)
        if not head:
            return ""
        if pulls is not None and config.ci.workflow:
            pulls.ensure_ci(workflow=config.ci.workflow, branch=name, head=head)
    except ReleaseError as error:
        console.warn(f"the broken state is not at the remote: {error}")
        return ""
    return name


def _push(walk: Walk, name: str, end: WalkEnd) -> str:
    """Push it, unless people have committed there. Returns its head at the remote."""
    project, remote = walk.project, walk.project.config.downstream.remote
    seen = walk.observer.look(fetch=False)
    commit = next((commit for commit in seen.ahead if commit.sha == end.bad), None)
    if commit is None:  # another process has advanced the branch meanwhile
        return ""
    stack = walk.observer.stack_at(seen, end.bad)
    generated = end.record.generated if end.record is not None else NONE_GENERATED
    made = walk.advance_commit(seen, commit, stack, str(Verdict.BAD), generated)
    races = Races(where=f"{name} at {remote}")
    while True:
        there = project.fetch_branch(name) or ""
        if there and alike(project.outer, there, made):
            return there
        if there and not _may_go(walk, there):
            console.warn(f"{name} at {remote} was left as it is: people have committed there")
            return there
        if push(project.outer, remote, f"{made}:refs/heads/{name}", leases={f"refs/heads/{name}": there}):
            console.say(f"    the broken state is at {name}")
            return made
        races.retry("push the broken state")


def remove_broken(walk: Walk) -> None:
    """Delete the broken branch at the remote, unless people have committed there. A failure is only a warning."""
    name, remote = f"{walk.branch}-broken", walk.project.config.downstream.remote
    if not walk.project.config.ci.broken:
        return
    try:
        there = walk.project.fetch_branch(name)
        if there is not None and _may_go(walk, there):
            push(walk.project.outer, remote, f":refs/heads/{name}", leases={f"refs/heads/{name}": there})
        elif there is not None:
            console.warn(f"{name} at {remote} was left as it is: it has commits that are not on {walk.branch}")
    except ReleaseError as error:
        console.warn(f"{name} could not be removed at {remote}: {error}")


def _may_go(walk: Walk, there: str) -> bool:
    """Whether nobody's work is lost with it: it ends with the culprit, or the integrate branch has all of it."""
    outer = walk.project.outer
    trailers = of_upstream(parse_trailers(outer.message(there)), walk.project.names)
    ours = T_UPSTREAM in trailers and trailers.get(T_VERDICT) == Verdict.BAD
    heads = (f"refs/{kind}/{walk.branch}" for kind in ("heads", "mlir-release/landed"))
    return ours or any(is_ancestor(outer, there, head) for head in heads)
