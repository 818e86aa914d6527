"""Bring other people's work into an integrate branch: what was pushed to it, and main."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.errors import ConflictError, NeedsPersonError
from mlir_release.git.trees import commit_tree, is_ancestor, merge_commits
from mlir_release.integrate.submodules import update

if TYPE_CHECKING:
    from mlir_release.integrate.walk import Walk


def sync(walk: Walk) -> bool:
    """Fast-forward the branch to what others pushed, and merge main into it. Returns whether anything changed.

    :raises ConflictError: if the branch diverged from the remote's
    :raises NeedsPersonError: if main does not merge cleanly; nothing was changed then
    """
    project, branch, outer = walk.project, walk.branch, walk.project.outer
    downstream = project.config.downstream
    project.refuse_dirty()
    before = outer.text("rev-parse", "HEAD")
    theirs = project.fetch_branch(branch)
    if theirs is not None and not is_ancestor(outer, theirs, before):
        if not is_ancestor(outer, before, theirs):
            raise ConflictError(
                "branch-diverged",
                f"{branch} here and at {downstream.remote} have different commits",
                where=f"{before} and {theirs}",
                remedy=f"git rebase (or merge) onto {downstream.remote}/{branch} by hand, then sync again",
            )
        project.move_branch(branch, theirs)
    main = project.fetch_branch(downstream.branch)
    head = outer.text("rev-parse", "HEAD")
    if main is not None and not is_ancestor(outer, main, head):
        merge = merge_commits(outer, head, main)
        if merge.conflicts:
            raise NeedsPersonError(
                "patch-conflict",
                f"{downstream.branch} does not merge into {branch} without conflicts",
                where=", ".join(merge.conflicts),
                remedy=f"git merge {downstream.remote}/{downstream.branch}, resolve, commit and push by hand",
            )
        message = f"Merge {downstream.branch} into {branch}\n"
        project.move_branch(branch, commit_tree(outer, merge.tree, [head, main], message, project.signature()))
    update(project)
    project.follow()
    walk.store.pull(downstream.remote)
    if walk.publish:
        walk.push_branch()
    return outer.text("rev-parse", "HEAD") != before
