"""What a repository in a folder says about a commit that may be a pin commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.git.trees import is_ancestor, root_entries
from mlir_release.model.pin import PARENTS, PIN_FILE, PLAIN, PinFacts, TreeEntry, changed_names

if TYPE_CHECKING:
    from mlir_release.git.repository import Git


def read_pin_facts(git: Git, commit: str) -> PinFacts | None:
    """The facts about a commit; None if the repository has no such commit."""
    if git.resolve(commit) != commit:
        return None
    parents = tuple(git.text("rev-list", "-n1", "--parents", commit).split()[1:])
    entries = _entries(git, commit)
    entry = next((entry for entry in entries if entry.name == PIN_FILE), None)
    told = len(parents) in PARENTS
    return PinFacts(
        commit=commit,
        parents=parents,
        branch=default_branch(git),
        base_on_branch=told and is_ancestor(git, parents[-1], "HEAD"),
        changed=changed_names(entries, _entries(git, parents[-1])) if told else (),
        entry=entry,
        pin=git.read(commit, PIN_FILE) if entry is not None and entry.mode == PLAIN else None,
    )


def default_branch(git: Git) -> str:
    """The protected branch: what ``HEAD`` names."""
    return git.text("symbolic-ref", "HEAD").removeprefix("refs/heads/")


def _entries(git: Git, commit: str) -> list[TreeEntry]:
    found = root_entries(git, commit)
    return [TreeEntry(name=name, mode=entry.mode, kind=entry.kind, oid=entry.oid) for name, entry in found.items()]
