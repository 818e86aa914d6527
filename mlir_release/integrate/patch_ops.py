"""Change what is carried at the present upstream commit: add a patch, drop a patch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.foreign import in_commit
from mlir_release.integrate import ledger
from mlir_release.integrate import patches as pt
from mlir_release.integrate.export import export_stack
from mlir_release.integrate.state import T_PATCHES, T_PIN
from mlir_release.model.trailers import format_message

if TYPE_CHECKING:
    from mlir_release.integrate.observe import Observation
    from mlir_release.integrate.walk import Walk


def add(walk: Walk, revision: str, *, revert: bool, why: str, link: str, drop_when: str) -> str:
    """Pick (or revert) an upstream commit on top of what is carried, and commit that. Returns the patch's id."""
    project = walk.project
    project.refuse_dirty()
    seen = walk.observer.look()
    commit = project.upstream.commit(revision)
    recorded = {
        ledger.T_KIND: "revert" if revert else "cherry-pick",
        ledger.T_OF: commit.sha,
        ledger.T_WHY: why,
        ledger.T_LINK: link,
        ledger.T_DROP: drop_when or ("upstream reverts it too" if revert else "upstream has it"),
    }
    tip = pt.add_patch(
        project.upstream, seen.pin, commit.sha, revert=revert, ledger=recorded, signature=project.signature()
    )
    patch = ledger.read_patch(project.upstream, tip)
    _commit_stack(walk, seen, tip, len(seen.patches) + 1, f"Carry {in_commit(repr(patch.subject))}", f"Why: {why}")
    return tip


def drop(walk: Walk, unwanted: str) -> ledger.Patch:
    """Stop carrying the patch whose id begins with ``unwanted``, and commit that. Returns the patch."""
    walk.project.refuse_dirty()
    seen = walk.observer.look()
    patch = ledger.named(seen.patches, unwanted)
    stack = pt.without(walk.project.upstream, seen.patches, seen.base, patch)
    _commit_stack(
        walk, seen, stack.tip, len(stack.kept), f"Drop {in_commit(repr(patch.subject))}", f"It was {patch.sha}."
    )
    return patch


def _commit_stack(walk: Walk, seen: Observation, tip: str, count: int, subject: str, body: str) -> None:
    project = walk.project
    if tip != seen.base:
        export_stack(project, tip)
    project.commit_pin(walk.branch, seen.head, tip, format_message(subject, body, {T_PIN: tip, T_PATCHES: count}))
    if walk.publish:
        walk.push_branch()
