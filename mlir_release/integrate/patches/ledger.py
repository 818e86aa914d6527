"""The carried patches of a branch: which there are, which of them can go already, and which upstream has reverted."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from mlir_release.ground.console import console
from mlir_release.ground.errors import UsageError
from mlir_release.ground.git.patch import Patch, read_patch
from mlir_release.ground.git.reverts import (
    Effects,
    Reverting,
    aliases,
    as_reverting,
    pull_request,
    read_reverts,
    reverted_by,
)
from mlir_release.ground.git.trees import merge_commits
from mlir_release.integrate.credentials import fetch_export
from mlir_release.integrate.upstream import UpstreamCommit, UpstreamRepository, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mlir_release.ground.git.repository import Git


def carried(git: Git, base: str, pin: str) -> list[Patch]:
    """The commits that ``pin`` has on top of ``base``, oldest first; one ``git log``.

    A merge that git makes alike by itself brings nothing of its own, and is left out. Another one can't be replayed: it
    is a patch of the kind ``merge``.
    """
    patches: list[Patch] = []
    if base == pin:
        return patches
    output = git.text("log", "-z", "--reverse", "--topo-order", "--format=%H%x00%T%x00%P%x00%B", f"{base}..{pin}")
    fields = iter(output.split("\0"))
    for sha, tree, parents, message in zip(fields, fields, fields, fields, strict=False):
        patch, sides = read_patch(sha, shown(message.rstrip("\n"))), parents.split()
        if len(sides) == 1:
            patches.append(patch)
        elif len(sides) != 2 or merge_commits(git, *sides).tree != tree:
            patches.append(replace(patch, kind="merge"))
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


# -- patches that were dropped, and come back if upstream takes back what made them unnecessary ------------------------


class Asleep(NamedTuple):
    """A dropped patch. ``place``: so many carried patches stand before it."""

    place: int
    patch: Patch


#: One in a trailer: place, commit, and the upstream commit with the same change, where the ledger does not name it.
_ASLEEP = re.compile(r"(\d{1,4}):([0-9a-f]{40})(?::([0-9a-f]{40}))?")

#: How many are remembered, and for how long after the commit that made them unnecessary: in seconds.
MOST_ASLEEP, SLEEP = 20, 60 * 86_400

_COMMITTED = re.compile(rb"^committer .* (\d{1,12}) [+-]\d{4}$", re.MULTILINE)


def remembered(git: Git, text: str, base: str) -> tuple[Asleep, ...]:
    """The dropped patches in a trailer, unless what made them unnecessary is much older than ``base``.

    On another machine they are fetched from the export branch, which keeps them.
    """
    rows = [found.groups("") for word in text.split() if (found := _ASLEEP.fullmatch(word))][-MOST_ASLEEP:]
    if not rows:
        return ()
    # One digit less: git would look for a whole id that is not here at the upstream, which never had it.
    asked = [base, *(sha[:39] for _, sha, _ in rows)]
    contents = git.objects(asked)
    if None in contents and isinstance(git, UpstreamRepository) and git.config.export is not None:
        fetch_export(git, git.config.export)
        contents = git.objects(asked)
    patches = []
    for (place, sha, same), content in zip(rows, contents[1:], strict=True):
        header, _, message = content[1].partition(b"\n\n") if content is not None else (b"", b"", b"")
        if content is None:
            console.warn(f"the dropped patch {sha[:12]} is nowhere to be found: it would not come back")
        elif header.count(b"\nparent ") == 1:
            patch = read_patch(sha, shown(message.decode(errors="replace")))
            patches.append((int(place), replace(patch, kind="cherry-pick", of=same, same=True) if same else patch))
    since = _seconds(contents[0]) - SLEEP
    causes = git.objects([patch.of or patch.sha for _, patch in patches])
    return tuple(
        Asleep(place, patch)
        for (place, patch), cause in zip(patches, causes, strict=True)
        if cause is None or _seconds(cause) > since
    )


def _seconds(content: tuple[str, bytes] | None) -> int:
    found = _COMMITTED.search(content[1].partition(b"\n\n")[0]) if content else None
    return int(found[1]) if found else 0


def as_trailer(asleep: Iterable[Asleep]) -> str:
    """What :func:`remembered` reads."""
    return " ".join(f"{place}:{patch.sha}{f':{patch.of}' if patch.same else ''}" for place, patch in asleep)


# -- patches that upstream makes unnecessary ---------------------------------------------------------------------------


def superseded(git: Git, patches: Sequence[Patch], base: str, target: str, *, until: str = "") -> dict[str, str]:
    """Why patches that are carried on ``base`` are not needed at ``target``, by id; the others are left out.

    What counts is whether the change that a patch picks or reverts is in effect there. ``target`` may be older than
    ``base``: a revert means nothing where what it reverts came later. The number of git processes is the same for any
    number of patches.

    :param until: a commit that has the ``target`` and others that will be asked about: upstream is read once for all
    """
    if not any(patch.of for patch in patches):
        return {}
    known = _resolved(git, patches)
    commits = {commit for commit, _ in known.values()}
    reverting = _reverting(git, _before(git, frozenset({base, *commits})) or base, until or target)
    missing = _missing(git, {base, *commits, *(each.sha for each in reverting)}, target)
    effects = Effects((each for each in reverting if each.sha not in missing), aliases(known.values()))
    came_later = missing - _missing(git, missing, base) if base in missing else set()
    found = {}
    for patch in patches:
        of, _ = known.get(patch.of, ("", ""))
        undone = effects.undone(of or patch.of, wholly=patch.kind == "revert")
        if patch.kind == "revert":
            if undone is not None:
                found[patch.sha] = f"upstream reverts it too, in {undone.sha[:12]}"
            elif of in came_later:
                found[patch.sha] = f"what it reverts came later: {of[:12]}"
        elif of and of not in missing and undone is None:
            found[patch.sha] = f"upstream has it: {of[:12]}"
    return found


@lru_cache(maxsize=64)
def _reverting(git: Git, base: str, target: str) -> list[Reverting]:
    """The commits after ``base`` up to ``target`` that revert or reland others, newest first. Both are ids."""
    return read_reverts(git, f"{base}..{target}", url=_url(git))


def _reverting_among(upstream: UpstreamRepository, commits: Sequence[UpstreamCommit]) -> list[Reverting]:
    rows = ((one.sha, 0, f"{one.subject}\n\n{one.body}") for one in reversed(commits))
    return as_reverting(upstream, rows, url=upstream.config.url, whole=False)


def undone_at(upstream: UpstreamRepository, commits: Sequence[UpstreamCommit], position: int) -> int:
    """The position of the first of ``commits`` that undoes the one at ``position``, counted from 1; 0: none does."""
    effects = Effects(_reverting_among(upstream, commits), aliases((one.sha, one.subject) for one in commits))
    by = effects.next(commits[position - 1].sha)
    return next((place for place, one in enumerate(commits, 1) if by and one.sha == by.sha and place > position), 0)


_PULL_LINK = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/pull/(\d{1,9})\b")


def landed_as(git: Git, patch: Patch, base: str, target: str) -> str:
    """A clause: the commit after ``base`` up to ``target`` that is the pull request of the patch's link, or nothing."""
    if not (link := _PULL_LINK.match(patch.link)):
        return ""
    # As a message would name it, so that one of another repository is none.
    numbers = reverted_by(f"Reverts {link[1]}#{link[2]}", url=_url(git))
    asked = ("log", "-z", "--no-mailmap", "--format=%H%x00%s", "--fixed-strings", f"--grep=(#{link[2]})")
    fields = iter(git.run(*asked, f"{base}..{target}").stdout.decode(errors="replace").split("\0"))
    found = (sha for sha, subject in zip(fields, fields, strict=False) if pull_request(subject) in numbers)
    commit = next(found, "")
    return f"its pull request {link[0]} landed with changes, as {commit[:12]}" if commit else ""


def _url(git: Git) -> str:
    return git.config.url if isinstance(git, UpstreamRepository) else ""


@lru_cache(maxsize=64)
def _before(git: Git, commits: frozenset[str]) -> str:
    """A commit that all ``commits`` come after; empty if they share no history."""
    return git.run("merge-base", "--octopus", *sorted(commits), check=False).stdout.decode().strip()


#: Ids and subjects of commits that were found, by their names, in each repository: they don't change.
_KNOWN: WeakKeyDictionary[Git, dict[str, tuple[str, str]]] = WeakKeyDictionary()


def _resolved(git: Git, patches: Iterable[Patch]) -> dict[str, tuple[str, str]]:
    """Id and subject of the commits that patches name, for those that exist here."""
    known = _KNOWN.setdefault(git, {})
    names = dict.fromkeys(patch.of for patch in patches if patch.of and not patch.of.startswith("-"))
    asked = [name for name in names if name not in known]
    objects = git.objects([f"{name}^{{commit}}" for name in asked]) if asked else []
    for name, commit in zip(asked, objects, strict=True):
        if commit:
            message = commit[1].partition(b"\n\n")[2].decode(errors="replace")
            known[name] = commit[0], message.partition("\n")[0]
    return {name: known[name] for name in names if name in known}


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

    def text(self, code: Callable[[str], str] = str, markdown: Callable[[str], str] = str) -> str:
        """A line for the terminal; for a pull request, with what Markdown makes of ids and texts."""
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
        reverting = _reverting_among(upstream, ahead)
    else:
        reverting = _reverting(upstream, base, head)
    found: list[Reverted] = []
    if not reverting:
        return found
    known = _resolved(upstream, patches)
    by = Effects(reverting, aliases(known.values())).taken()
    settled = {name for commit in ahead or () for name in (commit.sha, pull_request(commit.subject))}  # not here yet
    for patch in patches:
        of, subject = known.get(patch.of, (patch.of, patch.subject if patch.kind == "cherry-pick" else ""))
        names = sorted({patch.of, of, pull_request(subject)} & by.keys())
        if names and patch.kind == "cherry-pick":
            found.append(Reverted(commit=of, subject=subject, by=by[names[0]].sha, patch=patch.sha))
        settled |= {*names, pull_request(subject)}  # a carried revert undoes it here, too
    if not by.keys() - settled:
        return found
    listing = ("log", "-z", "--no-mailmap", "--first-parent", f"-n{_TAKEN}", "--format=%H%x00%s", base, "--")
    fields = iter(upstream.run(*listing).stdout.decode(errors="replace").split("\0"))
    subjects = dict(zip(fields, fields, strict=False))
    by = Effects(reverting, aliases(subjects.items())).taken()
    taken = [
        sha for sha, subject in subjects.items() if sha in by and not settled & {sha, pull_request(subject) or sha}
    ]
    if taken:
        only = ("--format=%H", "-m", "--first-parent", "--no-walk=unsorted", *taken)
        taken = upstream.text("log", *only, "--", *upstream.config.paths).split()
    if taken:
        here = Effects(read_reverts(upstream, "--no-walk=unsorted", *taken))
        found += [
            Reverted(commit=sha, subject=subjects[sha], by=by[sha].sha, patch="") for sha in taken if here.lands(sha)
        ]
    return found
