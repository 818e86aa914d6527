"""Bring an integrate to an end: check that everything can be fetched, squash or keep, mark the pull request ready."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from mlir_release.errors import VerificationError
from mlir_release.git.trees import commit_tree, is_ancestor, tree_of
from mlir_release.integrate.credentials import export_ref, fetch_export
from mlir_release.integrate.ledger import carried
from mlir_release.integrate.project import branch_moved_remotely, local_branch_moved
from mlir_release.integrate.pull_request import branch_commits, pull_request_text, totals
from mlir_release.integrate.state import T_BREAKS, T_COMMITS, T_PATCHES, T_PIN, T_START, T_UPSTREAM
from mlir_release.integrate.submodules import fetchable, links_made
from mlir_release.integrate.upstream import shown
from mlir_release.model.trailers import format_message

if TYPE_CHECKING:
    from mlir_release.forge.services import PullRequests
    from mlir_release.integrate.project import Project
    from mlir_release.integrate.walk import Walk


def check_reachable(project: Project, branch: str) -> None:
    """Fetch again everything that the branch's commits point at.

    :raises VerificationError: naming the first commit whose LLVM, or other submodule, others can't fetch
    """
    upstream, export = project.upstream, project.config.export.target
    public = [upstream.fetch()]
    if export is not None and fetch_export(upstream, export).returncode == 0:
        public.append(export_ref(export))
    for commit, subject, _ in branch_commits(project, branch):
        pin = project.pin(commit)
        if not any(is_ancestor(upstream, pin, head) for head in public):
            raise _unreachable(f"{commit[:12]} ({shown(subject)})", project.config.upstream.title, pin, "upstream")
    can_be_fetched = cache(partial(fetchable, project))
    for link in links_made(project, project.main_ref(), f"refs/heads/{branch}"):
        if not can_be_fetched(link.path, link.commit):
            where = f"the remote of {link.path}"
            raise _unreachable(f"{link.outer[:12]} ({link.subject})", link.path, link.commit, where)


def _unreachable(commit: str, what: str, target: str, where: str) -> VerificationError:
    return VerificationError(
        "land-unreachable",
        f"{commit} points at a commit of {what} that others can't fetch",
        where=target,
        why=f"it is neither at {where} nor on the export branch",
        remedy="mlir-release integrate export, from the machine that has it; then land again",
    )


def land(walk: Walk, *, squash: bool, pulls: PullRequests | None) -> str:
    """Check, squash if asked, push, write the pull request and mark it ready. Returns the branch's head.

    The unsquashed head stays at ``refs/mlir-release/landed/<branch>``. Re-running it after that changes nothing.
    """
    project, branch = walk.project, walk.branch
    project.refuse_dirty()
    check_reachable(project, branch)
    title, body = pull_request_text(project, branch)
    outer = project.outer
    old = outer.text("rev-parse", "--verify", f"refs/heads/{branch}")
    new = _squash(project, branch, old, title, body) if squash else old
    if new != old:
        outer.run("update-ref", f"refs/mlir-release/landed/{branch}", old)
        if not outer.update_ref(f"refs/heads/{branch}", new, expected=old):
            raise local_branch_moved(branch, outer, why="another process committed to it meanwhile")
    _push(walk, branch, new)
    if pulls is not None:
        pulls.ensure_draft(branch=branch, base=project.config.downstream.branch, title=title, body=body)
        pulls.mark_ready(branch=branch)
    return new


def _squash(project: Project, branch: str, head: str, title: str, body: str) -> str:
    commits = branch_commits(project, branch)
    if len(commits) <= 1 and all(T_START not in trailers for _, _, trailers in commits):
        return head
    fork = project.fork_point(head)
    passed, breaks = totals(commits)
    pin = project.pin(head)
    base = project.upstream.base_of(pin, project.upstream.head())
    patches = len(carried(project.upstream, base, pin))
    trailers = {T_UPSTREAM: base, T_PIN: pin, T_COMMITS: passed, T_BREAKS: breaks, T_PATCHES: patches}
    message = format_message(title, body, trailers)
    return commit_tree(project.outer, tree_of(project.outer, head), [fork], message, project.signature())


def _push(walk: Walk, branch: str, new: str) -> None:
    outer, remote = walk.project.outer, walk.project.config.downstream.remote
    walk.store.push(remote)
    there = outer.text("ls-remote", "--", remote, f"refs/heads/{branch}", remote=remote).split("\t")[0]
    kept = outer.resolve(f"refs/mlir-release/landed/{branch}")
    if there == new:
        return
    # A commit that is not here is no ancestor.
    if there and not any(is_ancestor(outer, there, ours) for ours in (new, kept) if ours is not None):
        raise branch_moved_remotely(branch, remote)
    lease = f"--force-with-lease=refs/heads/{branch}:{there}"
    outer.run("push", "--quiet", "--no-verify", lease, remote, f"{new}:refs/heads/{branch}", remote=remote)
