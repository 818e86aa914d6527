"""The ledger of carried patches: each one's origin, its reason, when to drop it, and whether it can go already.

It is in the trailers of each patch's own commit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import NeedsPersonError, UsageError
from mlir_release.ground.foreign import code, markdown
from mlir_release.ground.git.reverts import as_reverting, land_again, pull_request, read_reverts, reverted_by, standing
from mlir_release.integrate.upstream import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.ground.git.repository import Git
    from mlir_release.ground.git.reverts import Reverting
    from mlir_release.integrate.upstream import UpstreamCommit, UpstreamRepository

T_KIND = "Carried-Kind"
T_OF = "Carried-Of"
T_WHY = "Carried-Why"
T_LINK = "Carried-Upstream"
T_DROP = "Carried-Drop-When"
T_UNTIL = "Carried-Until-Dependency"

_PICKED = re.compile(r"^\(cherry picked from commit ([0-9a-f]{40})\)", re.MULTILINE)


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
    until: str = ""  #: the dependency that has to follow first: its path, or an upstream's name


def _patch(sha: str, message: str) -> Patch:
    """Read the ledger of a carried commit, and git's own lines for picks and reverts."""
    message = shown(message)
    trailers = parse_trailers(message)
    reverted, picked = reverted_by(message), _PICKED.search(message)
    return Patch(
        sha=sha,
        subject=message.partition("\n")[0],
        kind=trailers.get(T_KIND) or ("revert" if reverted else "cherry-pick" if picked else "local"),
        of=trailers.get(T_OF, "") or (reverted[0] if reverted else picked[1] if picked else ""),
        why=trailers.get(T_WHY, ""),
        link=trailers.get(T_LINK, ""),
        drop_when=trailers.get(T_DROP, ""),
        until=trailers.get(T_UNTIL, ""),
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
    reverts = standing(_reverting(git, base, target))
    found = {}
    for patch in patches:
        of, subject = known.get(patch.of, ("", ""))
        names = sorted({patch.of, of, pull_request(subject)} & reverts.keys())
        reverted = reverts[names[0]][0].sha if names else ""
        if patch.kind == "revert":
            if reverted:
                found[patch.sha] = f"upstream reverts it too, in {reverted[:12]}"
            elif of in came_later:
                found[patch.sha] = f"what it reverts came later: {of[:12]}"
        elif of and of not in missing and not reverted:
            found[patch.sha] = f"upstream has it: {of[:12]}"
    return found


@lru_cache(maxsize=64)
def _reverting(git: Git, base: str, target: str) -> list[Reverting]:
    """The commits after ``base`` up to ``target`` that revert others, newest first. Both are ids: nothing changes."""
    return read_reverts(git, f"{base}..{target}")


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


# -- the revert watch --------------------------------------------------------------------------------------------------

#: How many commits below the pin are looked at, along first parents: more than a week of llvm-project.
_TAKEN = 1000


@dataclass(frozen=True, kw_only=True)
class Reverted:
    """An upstream commit that the branch has and that upstream has reverted ahead of it."""

    commit: str
    subject: str
    by: str  #: upstream commit
    patch: str  #: the carried commit that picks it; empty: the branch took it from upstream

    def text(self) -> str:
        """A line for the terminal."""
        has = f"carried as {self.patch[:12]}" if self.patch else "taken"
        return f"{self.commit[:12]} {self.subject} ({has}): upstream reverts it in {self.by[:12]}"

    def markdown(self) -> str:
        """A line for a pull request."""
        has = f"carried as {code(self.patch[:12])}" if self.patch else "taken"
        name = f"{code(self.commit[:12])} {markdown(self.subject)}"
        return f"{name} ({has}): upstream reverts it in {code(self.by[:12])}"


def reverted_since(
    upstream: UpstreamRepository,
    base: str,
    patches: Sequence[Patch],
    head: str,
    *,
    ahead: Sequence[UpstreamCommit] | None = None,
) -> list[Reverted]:
    """The revert watch: commits that the branch has, and that upstream has reverted after ``base`` up to ``head``.

    They are the picks among ``patches``, and the last commits up to ``base`` that touch tracked paths. What was landed
    again counts as not reverted, and so does what a carried patch reverts, and a revert, whose revert lands the change
    again.

    :param ahead: the affecting commits after ``base`` up to ``head``, if they are known; only these revert what the
        branch has taken
    """
    if ahead is not None and not patches:
        told = [commit for commit in reversed(ahead) if reverted_by(commit.body)]
        reverting = as_reverting(upstream, [(one.sha, 0, f"{one.subject}\n\n{one.body}") for one in told])
    else:
        reverting = _reverting(upstream, base, head)
    by = {name: reverts[-1].sha for name, reverts in standing(reverting).items()}
    found: list[Reverted] = []
    if not by:
        return found
    known = _resolved(upstream, (patch.of for patch in patches if patch.of))
    for patch in patches:
        of, subject = known.get(patch.of, (patch.of, patch.subject if patch.kind == "cherry-pick" else ""))
        names = sorted({patch.of, of, pull_request(subject)} & by.keys())
        if names and patch.kind == "cherry-pick":
            found.append(Reverted(commit=of, subject=subject, by=by[names[0]], patch=patch.sha))
        for name in names:  # a carried revert undoes it here, too
            del by[name]
    for commit in ahead or ():  # what is ahead itself is not here yet
        by.pop(commit.sha, None)
        by.pop(pull_request(commit.subject), None)
    if not by:
        return found
    listing = ("log", "-z", "--no-mailmap", "--first-parent", f"-n{_TAKEN}", "--format=%H%x00%s", base, "--")
    fields = iter(upstream.run(*listing).stdout.decode(errors="replace").split("\0"))
    taken = {
        sha: (subject, by[name])
        for sha, subject in zip(fields, fields, strict=False)
        for name in (sha, pull_request(subject))
        if name in by
    }
    if taken:
        only = ("--format=%H", "-m", "--first-parent", "--no-walk=unsorted", *taken)
        tracked = upstream.text("log", *only, "--", *upstream.config.paths).split()
        taken = {sha: taken[sha] for sha in tracked}
    if taken:
        lands = land_again(read_reverts(upstream, "--no-walk=unsorted", *taken))
        found += [
            Reverted(commit=sha, subject=subject, by=reverting_commit, patch="")
            for sha, (subject, reverting_commit) in taken.items()
            if lands.get(sha, True)
        ]
    return found
