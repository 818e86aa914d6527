"""Change what is carried at the present upstream commit, and bring a person's work in: patches add and drop, sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, NeedsPersonError
from mlir_release.git.remotes import fetch
from mlir_release.git.trees import commit_tree, is_ancestor, merge_commits
from mlir_release.integrate import patches as pt
from mlir_release.integrate.export import export_others, export_stack
from mlir_release.integrate.state import T_PATCHES, T_PIN
from mlir_release.integrate.submodules import listed
from mlir_release.model.trailers import format_message

if TYPE_CHECKING:
    from mlir_release.integrate.observe import Observation
    from mlir_release.integrate.project import Project
    from mlir_release.integrate.walk import Walk


def add(walk: Walk, revision: str, *, revert: bool, why: str, link: str, drop_when: str) -> str:
    """Pick (or revert) an upstream commit on top of what is carried, and commit that. Returns the patch's id."""
    project = walk.project
    project.refuse_dirty()
    seen = walk.observer.look()
    commit = project.upstream.commit(revision)
    ledger = {
        pt.T_KIND: "revert" if revert else "cherry-pick",
        pt.T_OF: commit.sha,
        pt.T_WHY: why,
        pt.T_LINK: link,
        pt.T_DROP: drop_when or ("upstream reverts it too" if revert else "upstream has it"),
    }
    tip = pt.add_patch(
        project.upstream, seen.pin, commit.sha, revert=revert, ledger=ledger, signature=project.signature()
    )
    patch = pt.read_patch(project.upstream, tip)
    _commit_stack(walk, seen, tip, len(seen.patches) + 1, f"Carry {patch.subject!r}", f"Why: {why}")
    return tip


def drop(walk: Walk, unwanted: str) -> pt.Patch:
    """Stop carrying the patch whose id begins with ``unwanted``, and commit that. Returns the patch."""
    walk.project.refuse_dirty()
    seen = walk.observer.look()
    patch = pt.named(seen.patches, unwanted)
    stack = pt.without(walk.project.upstream, seen.patches, seen.base, patch)
    _commit_stack(walk, seen, stack.tip, len(stack.kept), f"Drop {patch.subject!r}", f"It was {patch.sha}.")
    return patch


def _commit_stack(walk: Walk, seen: Observation, tip: str, count: int, subject: str, body: str) -> None:
    project = walk.project
    if tip != seen.base:
        export_stack(project, tip)
    message = format_message(subject, body, {T_PIN: tip, T_PATCHES: str(count)})
    commit = commit_tree(
        project.outer, project.tree_with_pin(seen.head, tip), [seen.head], message, project.signature()
    )
    project.move_branch(walk.branch, commit)
    if walk.publish:
        walk.push_branch()


def export(project: Project) -> dict[str, str]:
    """Make every carried state that HEAD points at reachable, in all submodules. Path -> export branch's head."""
    pin = project.pin()
    base = project.upstream.base_of(pin, project.upstream.fetch())
    heads = export_others(project)
    if pin != base:
        heads[project.config.downstream.carrier] = export_stack(project, pin)
    return heads


def sync(walk: Walk) -> bool:
    """Take what others pushed to the branch, and merge main into it. Returns whether anything came.

    :raises ConflictError: if the branch diverged from the remote's
    :raises NeedsPersonError: if main does not merge cleanly; nothing was changed then
    """
    project, branch, outer = walk.project, walk.branch, walk.project.outer
    downstream = project.config.downstream
    project.refuse_dirty()
    before = outer.text("rev-parse", "HEAD")
    theirs = _fetch(project, branch)
    if theirs is not None and not is_ancestor(outer, theirs, before):
        if not is_ancestor(outer, before, theirs):
            raise ConflictError(
                "branch-diverged",
                f"{branch} here and at {downstream.remote} have different commits",
                where=f"{before} and {theirs}",
                remedy=f"git rebase (or merge) onto {downstream.remote}/{branch} by hand, then sync again",
            )
        project.move_branch(branch, theirs)
    main = _fetch(project, downstream.branch)
    if main is not None and not is_ancestor(outer, main, "HEAD"):
        merge = merge_commits(outer, outer.text("rev-parse", "HEAD"), main)
        if merge.conflicts:
            raise NeedsPersonError(
                "main-conflicts",
                f"{downstream.branch} does not merge into {branch} by itself",
                where=", ".join(merge.conflicts),
                remedy=f"git merge {downstream.remote}/{downstream.branch}, resolve, commit and push by hand",
            )
        head = outer.text("rev-parse", "HEAD")
        message = f"Merge {downstream.branch} into {branch}\n"
        project.move_branch(branch, commit_tree(outer, merge.tree, [head, main], message, project.signature()))
    others = [path for path in listed(outer) if path != downstream.submodule]
    if others:
        outer.run("submodule", "--quiet", "update", "--init", "--", *others)
    project.follow()
    walk.store.pull(downstream.remote)
    if walk.publish:
        walk.push_branch()
    return outer.text("rev-parse", "HEAD") != before


def _fetch(project: Project, branch: str) -> str | None:
    """The remote's ``branch``, fetched; None if it is not there. :raises MachineError: if the remote can't be read."""
    remote = project.config.downstream.remote
    tracking = f"refs/remotes/{remote}/{branch}"
    found = fetch(project.outer, remote, f"+refs/heads/{branch}:{tracking}")
    return project.outer.resolve(tracking) if found else None
