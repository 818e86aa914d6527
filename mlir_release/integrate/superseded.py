"""Which carried patches upstream makes unnecessary, judged by the commits that they name.

The number of git processes is the same for any number of patches: a stack is judged as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.integrate.ledger import pull_request, reverts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mlir_release.git.repository import Git
    from mlir_release.integrate.ledger import Patch

#: How often a revert may be reverted again before we stop asking.
_DEPTH = 8


def superseded(git: Git, patches: Sequence[Patch], base: str, target: str) -> dict[str, str]:
    """Why patches that are carried on ``base`` are not needed at ``target``, by id; the others are left out.

    ``target`` may be older than ``base``: a revert means nothing where what it reverts came later.
    """
    if not any(patch.of for patch in patches):
        return {}
    known = _resolved(git, (patch.of for patch in patches if patch.of))
    missing = _missing(git, {base, *(commit for commit, _ in known.values())}, target)
    came_later = missing - _missing(git, missing, base) if base in missing else set()
    reverters = _reverters(git, base, target)
    found = {}
    for patch in patches:
        of, subject = known.get(patch.of, ("", ""))
        reverted = _effective_revert(reverters, {patch.of, of, pull_request(subject)} - {""})
        if patch.kind == "revert":
            if reverted:
                found[patch.sha] = f"upstream reverts it too, in {reverted[:12]}"
            elif of in came_later:
                found[patch.sha] = f"what it reverts came later: {of[:12]}"
        elif of and of not in missing and not reverted:
            found[patch.sha] = f"upstream has it: {of[:12]}"
    return found


def _resolved(git: Git, revisions: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Id and subject of the commits that ``revisions`` name, for those that exist here."""
    names = list(dict.fromkeys(name for name in revisions if not name.startswith("-")))
    objects = git.objects([f"{name}^{{commit}}" for name in names])
    found = {}
    for name, commit in zip(names, objects, strict=True):
        if commit:
            message = commit[1].partition(b"\n\n")[2].decode(errors="replace")
            found[name] = commit[0], message.partition("\n")[0]
    return found


def _missing(git: Git, commits: set[str], target: str) -> set[str]:
    """Those of ``commits`` that ``target`` does not contain."""
    output = git.run("rev-list", "--stdin", input="\n".join([*commits, f"^{target}", ""]).encode()).stdout
    return commits & set(output.decode().split())


def _reverters(git: Git, base: str, target: str) -> dict[str, list[set[str]]]:
    """The commits in ``base..target`` that revert one, by what they revert, newest first; each by all its names.

    A commit's names are its id, which is the longest, and its pull request.
    """
    search = ("--extended-regexp", "--grep=^This reverts commit [0-9a-f]", "--grep=^Reverts [^ ]*#[0-9]")
    fields = git.run("log", "-z", "--format=%H%x00%B", *search, f"{base}..{target}").stdout.split(b"\0")
    found: dict[str, list[set[str]]] = {}
    for commit, text in zip(fields[0::2], fields[1::2], strict=False):
        message = text.decode(errors="replace")
        names = {commit.decode(), pull_request(message.partition("\n")[0])} - {""}
        for reverted in reverts(message):
            found.setdefault(reverted, []).append(names)
    return found


def _effective_revert(reverters: Mapping[str, Sequence[set[str]]], names: set[str], depth: int = 0) -> str:
    """The id of a commit that reverts the one with these names and is not itself reverted; or an empty string."""
    for name in sorted(names):
        for found in reverters.get(name, ()):
            if depth > _DEPTH or not _effective_revert(reverters, found, depth + 1):
                return max(found, key=len)
    return ""
