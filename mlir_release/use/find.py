"""Which release is at an LLVM commit, or nearest to it: by the index, and by distances in upstream's history.

Distances come from a clone where it has both commits, else from GitHub, else from a part of the history that is
fetched into the cache. Where no source can tell, dates decide, and the answer says so.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from packaging.utils import canonicalize_name

from mlir_release.ground.documents.times import format_time, parse_time
from mlir_release.ground.errors import ReleaseError, UsageError
from mlir_release.ground.git.repository import Git, GitError, open_clone
from mlir_release.ground.git.trees import merge_base
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.ground.python.platforms import Platform, PlatformTag
from mlir_release.release.forge.files import settings_of_branch
from mlir_release.release.forge.open import github_of
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy
from mlir_release.release.latest.catalogue import Catalogue, read_index
from mlir_release.release.latest.reverts import note_of
from mlir_release.release.model.yanks import newest_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from mlir_release.ground.python.cpython import CPython
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.model.release_index import CatalogueEntry
    from mlir_release.release.model.release_tags import Kind

#: On each side, so many releases are compared with a commit until one is in its history, or has it in its own.
LOOKS = 6

#: History that is fetched to count commits reaches back no farther.
LONGEST = timedelta(days=400)

_ID = re.compile(r"[0-9a-f]{4,40}")
_TAG = re.compile(r"\w[\w.+-]*")


@dataclass(frozen=True, kw_only=True)
class Filter:
    """The releases that are asked for: those with one wheel that fits all of this."""

    platform: Platform | None = None
    python: CPython | None = None
    distribution: str = ""
    kind: Kind | None = None
    yanked: bool = False  #: also those that are yanked

    def fits(self, entry: CatalogueEntry) -> bool:
        """Whether a release is among them, apart from its yank."""
        if self.kind not in (None, entry.row.order.kind):
            return False
        if not (self.platform or self.python or self.distribution):
            return True
        for wheel in entry.wheels:
            if self.distribution:
                named = canonicalize_name(wheel.distribution) == canonicalize_name(self.distribution)
            else:  # the bindings, and not the SDK's wheels, which fit every CPython
                named = bool(wheel.pythons)
            tags = [PlatformTag.parse(tag) for tag in wheel.tags.rpartition("-")[2].split(".")]
            fitting = self.platform is None or any(t.family == "any" or t.platform == self.platform for t in tags)
            if named and fitting and (self.python is None or not wheel.pythons or self.python.tag in wheel.pythons):
                return True
        return False


@dataclass(frozen=True, kw_only=True)
class Match:
    """A release, and where it is from the commit that was asked for.

    ``ahead``: the commits that it has and the other one lacks; ``behind``: the opposite. None: not known.
    """

    entry: CatalogueEntry
    relation: Literal["exact", "before", "after"]
    ahead: int | None = None
    behind: int | None = None

    @property
    def diverged(self) -> bool:
        """Whether each of the two commits has some that the other one lacks."""
        return bool(self.ahead and self.behind)

    @property
    def distance(self) -> str:
        """For people."""
        if self.relation == "exact":
            return f"same commit, and {self.ahead} carried on it" if self.ahead else "same commit"
        if self.ahead is None or self.behind is None:
            return f"{self.relation}, by date"
        if self.diverged:
            return f"diverged: lacks {self.behind}, has {self.ahead} others"
        count = self.ahead or self.behind
        return f"{count} {'commit' if count == 1 else 'commits'} {'after' if self.ahead else 'before'}"

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        row = self.entry.row
        return {
            "tag": row.tag, "revision": row.revision, "date": row.dated, "version": row.version,
            "relation": self.relation, "ahead": self.ahead, "behind": self.behind, "yanked": self.entry.yanked,
            **({"stack": row.stack} if row.stack is not None else {}),
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Found:
    """The answer. ``matches``: the release that was asked for, if there is one, then the nearest before and after."""

    COLUMNS = ("release", "LLVM commit", "date (UTC)", "distance", "version", "install")

    asked: str
    revision: str = ""  #: the llvm-project commit that was meant; empty: no commit was
    answer: Match | None = None
    near: tuple[Match, ...] = ()
    notes: tuple[str, ...] = ()
    missing: str = ""  #: what to say if there is no answer
    where: str = ""  #: the forge

    @property
    def matches(self) -> tuple[Match, ...]:
        """All of them, from the oldest to the newest."""
        shown = (*self.near, *([self.answer] if self.answer and self.answer not in self.near else []))
        return tuple(sorted(shown, key=lambda match: ("before", "exact", "after").index(match.relation)))

    def cells(self) -> Iterator[tuple[str, ...]]:
        """For people."""
        for match in self.matches:
            row, yanked = match.entry.row, " (yanked)" if match.entry.yanked is not None else ""
            date = row.dated[:16].replace("T", " ")
            install = f"mlir-release install {row.tag}"
            yield row.tag + yanked, row.revision[:12], date, match.distance, row.version, install

    def text(self) -> str:
        """What to know of the answer, and the commands to go on with."""
        ends, lines = {match.relation: match.entry.tag for match in self.near}, [*self.notes]
        if {"before", "after"} <= ends.keys():
            lines.append(f"next: mlir-release bisect --good {ends['before']} --bad {ends['after']} -- COMMAND")
        if self.answer is not None and self.answer.entry.row.order.kind == "snapshot":
            lines.append(f"next: mlir-release release reverts {self.answer.entry.tag}")
        return "\n".join(lines)

    def need(self) -> CatalogueEntry:
        """The release that was asked for. :raises UsageError: ``release-not-published``, with the nearest ones"""
        if self.answer is not None:
            return self.answer.entry
        near = "; ".join(f"{match.entry.tag} is the nearest one {match.distance}" for match in self.near)
        raise UsageError(
            "release-not-published",
            f"no release that fits {self.missing}" + (f" ({self.revision})" if self.revision else ""),
            where=self.where,
            why="; ".join(filter(None, (near, *self.notes))),
            remedy="take one of these; --near shows them" if near else "widen the filters; --yanked shows those, too",
        )

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "asked": self.asked, "revision": self.revision, "answer": self.answer.entry.tag if self.answer else None,
            "releases": self.matches, "notes": list(self.notes),
        }  # fmt: skip


def parse_date(text: str) -> datetime:
    """A date or a time, UTC unless it says otherwise; a date alone is its midnight. :raises UsageError:"""
    try:
        when = datetime.fromisoformat(text)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        remedy = "write 2026-11-20 or 2026-11-20T12:00"
        raise UsageError("option-invalid", f"{text!r} is not a date", remedy=remedy) from None


@dataclass(frozen=True)
class Origin:
    """Where releases are from.

    :param upstream: gives llvm-project; called only if the index and a clone do not suffice
    """

    catalogue: Catalogue
    upstream: Callable[[], Upstream]
    where: str = ""  #: for errors

    @classmethod
    def of(cls, forge: Forge, signed_by: SignedBy = AS_DECLARED) -> Origin:
        """A forge. :raises VerificationError: if its index can't be trusted"""
        index = read_index(forge, signed_by)
        return cls(index, lambda: Upstream.of(settings_of_branch(forge, signed_by.branch)), forge.description)


def find(
    origin: Origin, asked: str, *, wanted: Filter = Filter(), clone: Path | None = None, near: bool = False
) -> Found:
    """The release that ``asked`` means.

    ``before:DATE`` is the newest release whose LLVM commit is not later, ``after:REVISION`` the oldest one that has
    that commit in its history. Anything else names a commit, and the release is the newest one at exactly that commit.
    An empty text means the newest snapshot, or, where none fits, the newest numbered release.

    :param clone: see :func:`~mlir_release.ground.git.repository.open_clone`
    :param near: also look for the nearest releases before and after, as is done where there is no exact one
    :raises UsageError: ``option-invalid``, ``revision-unknown``
    :raises MachineError: if a commit can only be told by upstream, which can't be reached
    """
    catalogue, where, git = origin.catalogue, origin.where, open_clone(clone)
    fitting = sorted(filter(wanted.fits, catalogue.entries), key=lambda entry: (entry.row.dated, entry.row.created_at))
    entries = [entry for entry in fitting if wanted.yanked or entry.yanked is None]
    if not asked or asked.startswith("before:"):
        if asked:
            date = asked.removeprefix("before:")
            until, missing = format_time(parse_date(date)), f"has an LLVM commit from {date} or earlier"
            older = [entry for entry in entries if entry.row.dated <= until]
        else:
            tags, missing = [entry.tag for entry in entries], "is published"
            newest = newest_tag(tags) or newest_tag(tags, kind="numbered")
            older = [entry for entry in entries if entry.tag == newest]
        answer = Match(entry=older[-1], relation="before") if older else None
        return Found(asked=asked, answer=answer, notes=_notes(catalogue, answer), missing=missing, where=where)
    name = asked.removeprefix("after:")
    git = git if git is not None and _present(git, [entry.row.revision for entry in fitting]) else None
    sha, when = _resolve(name, catalogue.entries, origin.upstream, git)
    at = [entry.row for entry in entries if entry.row.revision == sha]
    at = at or [entry.row for entry in entries if entry.row.base == sha]  # with patches on it
    exact = sorted((row.created_at, row.tag) for row in at)
    tag = exact[0 if name != asked else -1][1] if exact else ""
    answer = next((_exact(entry, sha) for entry in entries if entry.tag == tag), None)
    found, notes = list[Match](), list[str]()
    if near or answer is None:
        others = [entry for entry in entries if sha not in (entry.row.revision, entry.row.base)]
        found = _nearest(others, when, _Distances(sha, when, origin.upstream, git, notes))
    if name != asked and answer is None:
        answer = next((match for match in found if match.behind == 0), None)  # what dates say is no proof
    notes += [
        f"{entry.tag} is at that commit, but yanked: {entry.yanked}"
        for entry in fitting
        if sha in (entry.row.revision, entry.row.base) and entry not in entries
    ]
    return Found(
        asked=asked,
        revision=sha,
        answer=answer,
        near=tuple(found),
        notes=(*notes, *_notes(catalogue, answer)),
        missing=f"was built at {name}" if name == asked else f"has {name} in its history",
        where=where,
    )


def _notes(catalogue: Catalogue, answer: Match | None) -> tuple[str, ...]:
    """What is known against the answer, and the patches that it carries."""
    if answer is None:
        return ()
    quality, stack = catalogue.quality.releases.get(answer.entry.tag), answer.entry.row.stack
    note = note_of(answer.entry.tag, quality.reverted) if quality else ""
    carried = [f"{answer.entry.tag} is upstream's {stack.text()}", *stack.lines()] if stack is not None else []
    return tuple(filter(None, (note, *carried)))


def _exact(entry: CatalogueEntry, sha: str) -> Match:
    """A release at a commit, or with patches on it."""
    stack = entry.row.stack if sha != entry.row.revision else None
    return Match(entry=entry, relation="exact", ahead=len(stack.commits) if stack is not None else None)


def _resolve(
    text: str, entries: Sequence[CatalogueEntry], upstream: Callable[[], Upstream], clone: Git | None
) -> tuple[str, str]:
    """The commit that a person names, and its date (UTC): told by the releases, the clone or upstream, in this order.

    :param clone: its branches are not asked: they may be anybody's, or old
    """
    is_id = _ID.fullmatch(text) is not None
    named = {sha: entry for entry in entries for sha in (entry.row.base, entry.row.revision)} if is_id else {}
    dates = {sha: entry.row.dated for sha, entry in named.items() if sha.startswith(text)}
    if len(dates) > 1:
        raise UsageError(
            "revision-unknown",
            f"the commits of {len(dates)} releases begin with {text}",
            why=", ".join(sorted(dates)),
            remedy="give more digits",
        )
    if dates:
        return next(iter(dates.items()))
    if clone is not None and _TAG.fullmatch(text):
        try:
            sha = (clone.resolve(text) if is_id else None) or clone.resolve(f"refs/tags/{text}")
        except GitError:  # several objects begin with it
            sha = None
        if sha is not None:
            return sha, _utc(int(clone.text("log", "-1", "--no-mailmap", "--format=%ct", sha)))
    project = upstream()
    if is_id and len(text) < 40 and not project.named(text):
        client = github_of(project.url, os.environ)
        whole = client.full_id(text) if client is not None else project.whole(text)
        if whole is None:
            what, remedy = f"no commit of the upstream begins with {text}, or several do", "give all 40 digits"
            raise UsageError("revision-unknown", what, where=project.url, remedy=remedy)
        text = whole
    revision = project.resolve(text)
    return revision.sha, _utc(revision.epoch)


def _utc(seconds: int) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


def _nearest(others: Sequence[CatalogueEntry], when: str, distances: _Distances) -> list[Match]:
    """The nearest release before a commit, and the nearest one after it, as far as there are such.

    Dates give the order in which releases are looked at; the history decides. One that has diverged, because it is of a
    release branch, is taken if no other is found.

    :param others: releases of other commits, by their commits' dates
    """
    at = bisect_left([entry.row.dated for entry in others], when)
    sides: dict[Literal["before", "after"], Sequence[CatalogueEntry]]
    sides = {"before": others[:at][::-1][:LOOKS], "after": others[at:][:LOOKS]}
    distances.among = [entry for side in sides.values() for entry in side]
    found: dict[str, Match] = {}
    for side, entries in sides.items():
        matches = list[Match]()
        while side not in found and len(matches) < len(entries):
            matches.append(distances.match(entries[len(matches)], side))
            if not matches[-1].diverged:
                found[matches[-1].relation] = matches[-1]
        if side not in found and (diverged := [match for match in matches if match.diverged]):
            found[side] = diverged[0]
    return [found[side] for side in sides if side in found]


@dataclass
class _Distances:
    """Tells releases apart from a commit, by the first source that can."""

    sha: str
    when: str  #: its date, UTC
    upstream: Callable[[], Upstream]
    clone: Git | None
    notes: list[str]  #: gets a line if no source could be asked
    among: Sequence[CatalogueEntry] = ()  #: the releases that may be asked about, for one fetch

    @cached_property
    def _here(self) -> set[str]:
        """The commits that the clone has."""
        commits = [self.sha, *(entry.row.revision for entry in self.among)]
        return _present(self.clone, commits) if self.clone is not None else set()

    @cached_property
    def _beyond(self) -> Callable[[str], tuple[int, int] | None]:
        """The source to ask where the clone does not suffice."""
        try:
            upstream = self.upstream()
            client = github_of(upstream.url, os.environ)
            if client is not None:
                return lambda other: client.distance(self.sha, other)
            dates = sorted(parse_time(date) for date in (self.when, *(entry.row.dated for entry in self.among)))
            why = f"the commits are more than {LONGEST.days} days apart, and there is no clone"
            if dates[-1] - dates[0] <= LONGEST:
                since = (dates[0] - timedelta(days=1)).timestamp()
                git, _ = upstream.window(since, self.sha, *{entry.row.revision for entry in self.among})
                return lambda other: _apart(git, self.sha, other)
        except ReleaseError as error:
            why = error.what
        self.notes.append(f"the order is that of dates: {why}")
        return lambda other: None

    def match(self, entry: CatalogueEntry, side: Literal["before", "after"]) -> Match:
        """A release with its distance. ``side``: the one that its date puts it on"""
        revision, found = entry.row.revision, None
        if self.clone is not None and {self.sha, revision} <= self._here:
            found = _apart(self.clone, self.sha, revision)
        try:
            found = found or self._beyond(revision)
        except ReleaseError as error:
            self.notes.append(f"the distance of {entry.tag} is not known: {error.what}")
        ahead, behind = found or (None, None)
        relation = "before" if ahead == 0 else "after" if behind == 0 else side
        return Match(entry=entry, relation=relation, ahead=ahead, behind=behind)


def _present(git: Git, commits: Collection[str]) -> set[str]:
    """Those of some full ids that are commits of a repository; one process for all."""
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    lines = git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", input=asked).stdout.decode().splitlines()
    return {line.partition(" ")[0] for line in lines if line.endswith(" commit")}


def _apart(git: Git, one: str, other: str) -> tuple[int, int] | None:
    """The commits that only ``other`` has, and those that only ``one`` has; None: no common history is here."""
    if not merge_base(git, one, other):
        return None
    left, right = git.text("rev-list", "--left-right", "--count", f"{one}...{other}").split()
    return int(right), int(left)


def distance(old: CatalogueEntry, new: CatalogueEntry, upstream: Callable[[], Upstream]) -> Match:
    """Where a newer release is from an older one. What can't be told is None; nothing is raised."""
    distances = _Distances(old.row.revision, old.row.dated, upstream, open_clone(None), [])
    distances.among = [new]
    return distances.match(new, "after")
