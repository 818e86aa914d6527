"""The ledger of carried patches: each one's origin, its reason, when to drop it, and whether it can go already.

It is in the trailers of each patch's own commit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.errors import NeedsPersonError, UsageError
from mlir_release.integrate.upstream import shown
from mlir_release.model.trailers import parse_trailers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mlir_release.git.repository import Git

T_KIND = "Carried-Kind"
T_OF = "Carried-Of"
T_WHY = "Carried-Why"
T_LINK = "Carried-Upstream"
T_DROP = "Carried-Drop-When"

#: At the begin of a line: a relanding quotes the message of the revert that it reverts (``> This reverts commit …``).
_REVERTED = re.compile(r"^This reverts commit ([0-9a-f]{40})", re.MULTILINE)
#: The subject that GitHub's merge button writes: it ends with the pull request's number.
_REVERTED_PULL = re.compile(r"^Reverts (?:[\w.-]+/[\w.-]+)?(#\d+)\b", re.MULTILINE)
_PULL = re.compile(r"\((#\d+)\)$")
_PICKED = re.compile(r"^\(cherry picked from commit ([0-9a-f]{40})\)", re.MULTILINE)
#: How often a revert may be reverted again before we stop asking.
_DEPTH = 8


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A carried commit. ``of`` is the commit or pull request (``#123``) that it picks or reverts, if known."""

    sha: str
    subject: str
    kind: str  #: cherry-pick, revert or local
    of: str
    why: str
    link: str
    drop_when: str


def _reverts(message: str) -> list[str]:
    """The commits that a commit with this message reverts: ids, as git writes it, or ``#123``, as GitHub does."""
    return _REVERTED.findall(message) + _REVERTED_PULL.findall(message)


def _pull_request(subject: str) -> str:
    """``#123``, the pull request that a commit with this subject was; empty if it does not say."""
    found = _PULL.search(subject)
    return found[1] if found else ""


def _patch(sha: str, message: str) -> Patch:
    """Read the ledger of a carried commit, and git's own lines for picks and reverts."""
    message = shown(message)
    trailers = parse_trailers(message)
    reverted, picked = _reverts(message), _PICKED.search(message)
    return Patch(
        sha=sha,
        subject=message.partition("\n")[0],
        kind=trailers.get(T_KIND) or ("revert" if reverted else "cherry-pick" if picked else "local"),
        of=trailers.get(T_OF, "") or (reverted[0] if reverted else picked[1] if picked else ""),
        why=trailers.get(T_WHY, ""),
        link=trailers.get(T_LINK, ""),
        drop_when=trailers.get(T_DROP, ""),
    )


def carried(git: Git, base: str, pin: str) -> list[Patch]:
    """The commits that ``pin`` has on top of ``base``, oldest first; one ``git log``.

    :raises NeedsPersonError: if one of them is a merge, which can't be replayed as a patch
    """
    patches: list[Patch] = []
    if base == pin:
        return patches
    output = git.text("log", "-z", "--reverse", "--topo-order", "--format=%H%x00%P%x00%B", f"{base}..{pin}")
    fields = iter(output.split("\0"))
    for sha, parents, message in zip(fields, fields, fields, strict=False):
        if len(parents.split()) != 1:
            raise NeedsPersonError(
                "patch-conflict",
                f"the carried commit {sha[:12]} is a merge",
                where=f"{base[:12]}..{pin[:12]} in {git.directory}",
                why="a merge can't be replayed onto another upstream commit as one patch",
                remedy="make the carried commits a straight line (git rebase), then mlir-release integrate next "
                "--advance-to the same base --resolved YOUR-COMMIT",
            )
        patches.append(_patch(sha, message.rstrip("\n")))
    return patches


def named(patches: Sequence[Patch], prefix: str) -> Patch:
    """The patch whose id begins with ``prefix``. :raises UsageError: unless exactly one does; if it is too short"""
    matching = [patch for patch in patches if patch.sha.startswith(prefix)]
    if len(matching) != 1 or len(prefix) < 4:
        raise UsageError(
            "option-invalid",
            f"{prefix!r} names {len(matching)} of the carried patches",
            remedy="mlir-release integrate patches list shows them; give at least four digits of one",
        )
    return matching[0]


# -- patches that upstream makes unnecessary ---------------------------------------------------------------------------


def superseded(git: Git, patches: Sequence[Patch], base: str, target: str) -> dict[str, str]:
    """Why patches that are carried on ``base`` are not needed at ``target``, by id; the others are left out.

    The commits that the patches name decide. ``target`` may be older than ``base``: a revert means nothing where what
    it reverts came later. The number of git processes is the same for any number of patches.
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
        reverted = _effective_revert(reverters, {patch.of, of, _pull_request(subject)} - {""})
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
        names = {commit.decode(), _pull_request(message.partition("\n")[0])} - {""}
        for reverted in _reverts(message):
            found.setdefault(reverted, []).append(names)
    return found


def _effective_revert(reverters: Mapping[str, Sequence[set[str]]], names: set[str], depth: int = 0) -> str:
    """The id of a commit that reverts the one with these names and is not itself reverted; or an empty string."""
    for name in sorted(names):
        for found in reverters.get(name, ()):
            if depth > _DEPTH or not _effective_revert(reverters, found, depth + 1):
                return max(found, key=len)
    return ""
