"""Carried patches: a stack of commits on an upstream commit, each with a ledger in its trailers.

Rebasing is done on objects only and is a function of the stack and its target: the same on every machine, whatever was
interrupted before. No work tree, no index and no ref takes part, so a conflict has nothing that could be lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlir_release.ground.errors import NeedsPersonError, UsageError
from mlir_release.ground.git.trees import (
    Merge,
    commit_tree,
    merge_each,
    merge_trees,
    pick_each,
    replay_commit,
    tree_of,
)
from mlir_release.integrate.patches.ledger import Asleep, landed_as, superseded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.ground.git.patch import Patch
    from mlir_release.ground.git.repository import Git, Signature
    from mlir_release.integrate.upstream import UpstreamCommit

#: How the fate of a patch begins that does not apply.
REFUSED = "does not apply on"

_NOTHING_LEFT = "upstream has it: nothing is left of the patch"


@dataclass(frozen=True)
class Stack:
    """Carried patches on an upstream commit. Without patches, ``tip`` is ``base`` itself."""

    base: str
    tip: str
    kept: tuple[Patch, ...]
    dropped: tuple[tuple[Patch, str], ...] = ()  #: with the reason
    asleep: tuple[Asleep, ...] = ()  #: those of them, and of earlier ones, that upstream may make necessary again
    awake: tuple[Patch, ...] = ()  #: those that it has: they are among ``kept``, too


class PatchConflict(NeedsPersonError):
    """A carried patch does not apply. Nothing was changed."""

    by: tuple[UpstreamCommit, ...] = ()  #: that brought it, if it is known

    def __init__(self, patch: Patch, target: str, files: Sequence[str], landed: str = "") -> None:
        super().__init__(
            "patch-conflict",
            f"the carried patch {patch.sha[:12]} ({patch.subject}) does not apply on {target[:12]}",
            where=", ".join(files),
            why=(
                "it is a merge that people have resolved"
                if patch.kind == "merge"
                else landed or "upstream changed the same lines"
            )
            + (f"; it is carried because: {patch.why}" if patch.why else ""),
            remedy=(
                "one of three: (1) mlir-release integrate next --advance-to an earlier commit; "
                f"(2) rebase the stack by hand onto {target} in the upstream checkout, then mlir-release "
                f"integrate next --advance-to {target} --resolved YOUR-COMMIT; "
                f"(3) mlir-release integrate patches drop {patch.sha[:12]}, if it is not needed any more"
            ),
        )
        self.patch, self.files, self.landed = patch, tuple(files), landed


def _same_changes(git: Git, patches: Sequence[Patch], base: str, target: str) -> dict[str, str]:
    """The upstream commits in ``base..target`` that have the same patch-id as a patch, by the patch's id."""
    shas = "\n".join(patch.sha for patch in patches)
    own = _patch_ids(git, shas)
    listing = ("diff-tree", "--stdin", "--no-commit-id", "--name-only", "-r", "-z")
    listed = git.run(*listing, input=f"{shas}\n".encode()).stdout
    spec = [":(literal)" + path.decode(errors="surrogateescape") for path in dict.fromkeys(listed.split(b"\0")[:-1])]
    commits = git.text("rev-list", f"{base}..{target}", "--", *spec) if spec else ""
    theirs = {identifier: sha for sha, identifier in _patch_ids(git, commits).items()} if commits else {}
    return {sha: theirs[identifier] for sha, identifier in own.items() if identifier in theirs}


def _patch_ids(git: Git, commits: str) -> dict[str, str]:
    """By commit, for those that change anything."""
    diff = git.run("diff-tree", "--stdin", "-p", input=(commits + "\n").encode()).stdout
    fields = git.run("patch-id", "--stable", input=diff).stdout.decode().split()
    return dict(zip(fields[1::2], fields[0::2], strict=True))


def _apply(git: Git, patch: Patch, tree: str) -> Merge:
    if patch.kind == "merge":  # somebody resolved conflicts there: no single change says how
        return Merge("", (patch.sha,))
    return merge_trees(git, f"{patch.sha}^", tree, tree_of(git, patch.sha))


def rebase(
    git: Git, patches: Sequence[Patch], base: str, target: str, *, asleep: Sequence[Asleep] = (), until: str = ""
) -> Stack:
    """``patches``, carried on ``base``, replayed onto ``target``, which may be older.

    Patches whose change is in effect there are left out, and so are reverts of what is not. They come back where
    upstream has changed its mind. So the stack does not depend on where the walk has stopped before.

    :param asleep: those that were left out earlier
    :param until: see :func:`~mlir_release.integrate.patches.ledger.superseded`
    :raises PatchConflict: for the first that does not apply
    """
    tip, tree = target, tree_of(git, target)
    kept: list[Patch] = []
    awake: list[Patch] = []
    dropped: list[tuple[Patch, str]] = []
    sleeping: list[Asleep] = []
    before = {each.patch.sha for each in asleep}
    line = _in_order(patches, asleep)
    unneeded = superseded(git, line, base, target, until=until)
    for patch in line:
        reason, left_out = unneeded.get(patch.sha, ""), patch
        if not reason:
            merge = _apply(git, patch, tree)
            if merge.conflicts or merge.tree == tree:
                same = _same_changes(git, [patch], base, target).get(patch.sha, "")
                left_out = replace(patch, of=same, kind="cherry-pick", same=True) if same else patch
                in_effect = same and superseded(git, [left_out], base, target, until=until)
                reason = _NOTHING_LEFT if not merge.conflicts else _same(same) if in_effect else ""
                if not reason:
                    raise PatchConflict(patch, target, merge.conflicts, landed_as(git, patch, base, target))
        if reason:
            dropped += [] if patch.sha in before else [(patch, reason)]
            sleeping += [Asleep(len(kept), left_out)] if left_out.of else []
            continue
        tip, tree = replay_commit(git, patch.sha, merge.tree, tip), merge.tree
        kept.append(replace(patch, sha=tip))
        awake += kept[-1:] if patch.sha in before else []
    return Stack(target, tip, tuple(kept), tuple(dropped), tuple(sleeping), tuple(awake))


def _in_order(patches: Sequence[Patch], asleep: Sequence[Asleep]) -> list[Patch]:
    """All in the order in which they were carried."""
    line: list[Patch] = []
    for number in range(len(patches) + 1):
        line += [each.patch for each in asleep if min(each.place, len(patches)) == number]
        line += patches[number : number + 1]
    return line


def fates(
    git: Git, patches: Sequence[Patch], base: str, target: str, *, asleep: Sequence[Asleep] = (), until: str = ""
) -> dict[str, str]:
    """The fate of each patch in a rebase onto ``target``, by its id.

    It is why the patch would be dropped, that it does not apply, or an empty string. This takes a few git processes,
    whatever the number of patches. The states of the stack are merged with ``target``. From the first patch that would
    be dropped on, each patch is merged alone. One that conflicts there may depend on another patch: only then, or if a
    dropped patch comes back, the stack is replayed patch by patch, as :func:`rebase` does.
    """
    found = {patch.sha: "" for patch in patches}
    unneeded = superseded(git, _in_order(patches, asleep), base, target, until=until)
    if any(each.patch.sha not in unneeded for each in asleep):
        return found | _replayed(git, patches, base, target, asleep)
    found |= {sha: reason for sha, reason in unneeded.items() if sha in found}
    tree = tree_of(git, target)
    merges = merge_each(git, [(target, patch.sha) for patch in patches])
    numbered = enumerate(zip(patches, merges, strict=True))
    first = next((i for i, (patch, merge) in numbered if merge.conflicts or found[patch.sha]), len(patches))
    before = [tree, *(merge.tree for merge in merges[:first])]
    if first < len(patches):
        alone = pick_each(git, tree, [base, *(patch.sha for patch in patches)][first:])
        rest = list(zip(patches[first:], [merges[first], *alone[1:]], strict=True))
        unclear = [patch for patch, merge in rest if merge.conflicts and not found[patch.sha]]
        same = _same_changes(git, unclear, base, target) if unclear else {}
        here = [replace(patch, of=same[patch.sha], kind="cherry-pick") for patch in unclear if patch.sha in same]
        in_effect = superseded(git, here, base, target, until=until)
        found |= {sha: _same(commit) for sha, commit in same.items() if sha in in_effect}
        if not found[patches[first].sha]:
            landed = landed_as(git, patches[first], base, target)
            return found | {patches[first].sha: _refusal(target, merges[first].conflicts, landed)}
        merges[first:], before[first:] = alone, [tree] * len(alone)
    for patch, merge, unchanged in zip(patches, merges, before, strict=False):
        if merge.conflicts and not found[patch.sha]:
            return found | _replayed(git, patches, base, target, asleep)
        if merge.tree == unchanged:
            found[patch.sha] = found[patch.sha] or _NOTHING_LEFT
    return found


def _replayed(git: Git, patches: Sequence[Patch], base: str, target: str, asleep: Sequence[Asleep]) -> dict[str, str]:
    """What a rebase says of those that are not kept."""
    try:
        return {patch.sha: reason for patch, reason in rebase(git, patches, base, target, asleep=asleep).dropped}
    except PatchConflict as conflict:
        return {conflict.patch.sha: _refusal(target, conflict.files, conflict.landed)}


def _refusal(target: str, files: Sequence[str], landed: str) -> str:
    return f"{REFUSED} {target[:12]}: {', '.join(files)}{landed and f'; {landed}'}"


def _same(commit: str) -> str:
    return f"upstream has the same change: {commit[:12]}"


def add_patch(git: Git, tip: str, commit: str, *, revert: bool, ledger: Mapping[str, str], signature: Signature) -> str:
    """A new tip: ``commit`` picked, or reverted, on ``tip``, with the ledger's trailers. No ref moves.

    :param ledger: trailer -> value; empty values are left out
    :raises NeedsPersonError: if it does not apply
    :raises UsageError: if nothing would change, or the commit is a merge
    """
    parents = git.text("rev-list", "-1", "--parents", commit).split()[1:]
    if len(parents) != 1:
        raise UsageError(
            "revision-unsuitable",
            f"{commit[:12]} has {len(parents)} parents; only a commit with one can be picked or reverted",
            remedy="name the single commit that you need",
        )
    base, changed = (commit, parents[0]) if revert else (parents[0], commit)
    tree = tree_of(git, tip)
    merge = merge_trees(git, base, tree, tree_of(git, changed))
    if merge.conflicts:
        raise NeedsPersonError(
            "patch-conflict",
            f"{commit[:12]} can't be {'reverted' if revert else 'picked'} here",
            where=", ".join(merge.conflicts),
            why="these files conflict",
            remedy=f"do it by hand on top of {tip} in {git.directory}, then mlir-release integrate next --advance-to "
            "the same base --resolved YOUR-COMMIT",
        )
    if merge.tree == tree:
        raise UsageError(
            "nothing-to-do",
            f"{'reverting' if revert else 'picking'} {commit[:12]} changes nothing: it is "
            f"{'not in' if revert else 'already in'} the carried stack",
            remedy="mlir-release integrate patches list shows what is carried",
        )
    trailers = "\n".join(f"{key}: {' '.join(value.split())}" for key, value in ledger.items() if value)
    if not revert:
        raw = git.run("cat-file", "commit", commit).stdout.partition(b"\n\n")[2].rstrip(b"\n")
        return replay_commit(git, commit, merge.tree, tip, message=raw + b"\n\n" + trailers.encode() + b"\n")
    subject = git.message(commit).partition("\n")[0]
    message = f'Revert "{subject}"\n\nThis reverts commit {commit}.\n\n{trailers}\n'
    return commit_tree(git, merge.tree, [tip], message, signature)


def without(git: Git, patches: Sequence[Patch], base: str, unwanted: Patch) -> Stack:
    """The stack on ``base`` without one of its patches. :raises PatchConflict: if a later patch needs it"""
    tip, tree, kept = base, tree_of(git, base), []
    for patch in patches:
        if patch is unwanted:
            continue
        merge = _apply(git, patch, tree)
        if merge.conflicts:
            raise PatchConflict(patch, base, merge.conflicts)
        tip, tree = replay_commit(git, patch.sha, merge.tree, tip), merge.tree
        kept.append(replace(patch, sha=tip))
    return Stack(base, tip, tuple(kept), ((unwanted, "dropped by hand"),))
