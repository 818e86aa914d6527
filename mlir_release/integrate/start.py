"""Begin an integrate: main up to date, and a dated branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, UsageError
from mlir_release.git.repository import NO_OBJECT
from mlir_release.git.trees import commit_tree, is_ancestor
from mlir_release.integrate.pull_request import update_pull_request
from mlir_release.integrate.state import T_START, T_UPSTREAM
from mlir_release.integrate.submodules import update
from mlir_release.integrate.walk import Walk
from mlir_release.model.trailers import format_message, parse_trailers

if TYPE_CHECKING:
    from mlir_release.forge.services import PullRequests
    from mlir_release.integrate.project import Project


def start(project: Project, *, publish: bool = False, pulls: PullRequests | None = None) -> str:
    """Begin an integrate: main up to date, a dated branch with one empty commit that describes it. Returns its name.

    Re-running it before the first advance finds the same branch.

    :param publish: push the branch, and open a draft pull request in ``pulls``
    """
    outer, downstream = project.outer, project.config.downstream
    project.refuse_dirty()
    main = project.fetch_branch(downstream.branch)
    if main is None:
        raise UsageError(
            "branch-missing",
            f"the remote {downstream.remote!r} has no branch {downstream.branch!r}",
            where=str(outer.directory),
            remedy="correct downstream.remote or downstream.branch in integrate.toml",
        )
    head = project.upstream.fetch()
    local = outer.resolve(f"refs/heads/{downstream.branch}")
    if local is not None and not is_ancestor(outer, local, main):
        raise ConflictError(
            "branch-diverged",
            f"the local {downstream.branch} has commits that {downstream.remote} does not have",
            where=str(outer.directory),
            remedy=f"push or move them away, so that {downstream.branch} can be fast-forwarded; nothing was changed",
        )
    name, existing = _branch_name(project, main)
    commit = existing or _start_commit(project, main, head)
    if local is None:
        outer.run("branch", "--quiet", "--track", downstream.branch, project.main_ref())
    outer.run("switch", "--quiet", downstream.branch)
    outer.run("merge", "--quiet", "--ff-only", main)
    update(project)
    if existing is None and not outer.update_ref(f"refs/heads/{name}", commit, expected=NO_OBJECT):
        raise ConflictError(
            "lost-race",
            f"another process has just made {name}",
            where=str(outer.directory),
            remedy="run start again",
        )
    outer.run("switch", "--quiet", name)
    project.follow()
    if publish:
        Walk(project).push_branch()
        if pulls is not None:
            update_pull_request(project, name, pulls)
    return name


def _start_commit(project: Project, main: str, upstream_head: str) -> str:
    base = project.upstream.base_of(project.pin(main), upstream_head)
    ahead = len(project.upstream.affecting(base, upstream_head))
    message = format_message(
        f"Start integrating {project.config.upstream.title} from {base[:12]}",
        f"{ahead} affecting commits ahead, up to {upstream_head}.\nTracked: {', '.join(project.config.track.paths)}.",
        {T_START: main, T_UPSTREAM: base},
    )
    return commit_tree(project.outer, f"{main}^{{tree}}", [main], message, project.signature())


def _branch_name(project: Project, main: str) -> tuple[str, str | None]:
    """A free name of today; or the branch of today that was started from ``main`` and has not moved since."""
    date = project.clock().strftime("%Y%m%d")
    plain = project.config.branch_pattern.replace("{date}", date)
    outer = project.outer
    remote = project.config.downstream.remote
    there = outer.text("ls-remote", "--heads", "--", remote, f"refs/heads/{plain}*", remote=remote)
    taken = {line.partition("\t")[2] for line in there.splitlines()}
    number = 0
    while True:
        name = plain if number == 0 else f"{plain}_{number}"
        local = outer.resolve(f"refs/heads/{name}")
        if local is None and f"refs/heads/{name}" not in taken:
            return name, None
        if local is not None and parse_trailers(outer.message(local)).get(T_START) == main:
            return name, local
        number += 1
