"""Which commits of a history revert others, by their messages: what git writes, and what GitHub's button writes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mlir_release.ground.git.repository import Git

#: At the begin of a line: a relanding quotes the message of the revert that it reverts (``> This reverts commit …``).
_REVERTED = re.compile(r"^This reverts commits? ([0-9a-f]{7,40}(?:(?:, and|,| and) [0-9a-f]{7,40})*)\b", re.MULTILINE)
#: What GitHub's button writes below the title: a pull request of this repository, or of the one that is named.
_REVERTED_PULL = re.compile(r"^Reverts (?:[\w.-]+/([\w.-]+))?(#\d+)\b", re.MULTILINE)
#: What people write of a change that they land again: its commit, or its pull request.
_AGAIN = r"^(?:This )?re-?(?:land|appl(?:y|ie)|commit)s? (?:of )?(?:commit )?"
_LANDED = re.compile(rf"{_AGAIN}([0-9a-f]{{7,40}})\b", re.MULTILINE | re.IGNORECASE)
_LANDED_PULL = re.compile(rf"{_AGAIN}(?:[\w.-]+/([\w.-]+))?(#\d+)\b", re.MULTILINE | re.IGNORECASE)
_PULL = re.compile(r"\((#\d+)\)$")
_ON_GITHUB = re.compile(r"(?:https://|ssh://git@|git@)github\.com[/:][\w.-]+/([\w.-]+?)(?:\.git)?/?")

#: A subject that takes a change away or lands it again, with the subject of that change.
_SUBJECT = re.compile(r"(?:\[[^\]]*\] ?)*(Revert|Re-?(?:apply|commit|land))[: ]+(.*)", re.IGNORECASE)
#: For ``git log``: lets through every message that these expressions find something in.
_SEARCH = (
    "--extended-regexp",
    "--regexp-ignore-case",
    "--grep=^This reverts commits? [0-9a-f]",
    "--grep=^Reverts [^ ]*#[0-9]",
    "--grep=^(This )?re-?(land|appl(y|ie)|commit)s? (of )?(commit )?([^ ]*#[0-9]|[0-9a-f]{7})",
    r"--grep=^(\[[^]]*\] ?)*Re(vert|-?(apply|commit|land))[: ].*\(#[0-9]+\)",
)


@dataclass(frozen=True, kw_only=True)
class Reverting:
    """A commit that reverts others, or lands them again. Names: an id, a pull request (``#123``), a title (``"…``)."""

    sha: str
    seconds: int  #: when it was committed, since 1970
    subject: str
    reverted: tuple[str, ...]  #: names of commits that it reverts, which may be reverts themselves
    landed: tuple[str, ...] = ()  #: names of changes that it lands again
    pulls: tuple[tuple[str, str], ...] = ()  #: pull requests with their ids, of those that it reverts

    @property
    def names(self) -> set[str]:
        """Its id, its pull request, and its title."""
        return {self.sha, pull_request(self.subject), _title(self.subject)} - {""}


def reverted_by(message: str, *, url: str = "", landed: bool = False) -> list[str]:
    """The commits that a commit with this message reverts: ids, perhaps abbreviated, or pull requests (``#123``).

    :param url: of its repository. On GitHub, pull requests of repositories with another name don't count
    :param landed: those that it lands again, instead
    """
    by_id, by_pull = (_LANDED, _LANDED_PULL) if landed else (_REVERTED, _REVERTED_PULL)
    ids = [name for found in by_id.findall(message) for name in re.findall(r"[0-9a-f]{7,40}", found)]
    own = _ON_GITHUB.fullmatch(url)
    return ids + [number for name, number in by_pull.findall(message) if not (own and name) or name == own[1]]


def pull_request(subject: str) -> str:
    """``#123``, the pull request that a commit with this subject was; empty if it does not say."""
    found = _PULL.search(subject)
    return found[1] if found else ""


def _title(subject: str) -> str:
    return f'"{_PULL.sub("", subject[:1000]).rstrip()}'


def aliases(commits: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The ids of commits, from ids and subjects, by their pull requests, and by titles that only one of them has."""
    named = [(name, sha) for sha, subject in commits for name in (pull_request(subject), _title(subject)) if name]
    times = Counter(name for name, _ in named)
    return {name: sha for name, sha in named if name[0] == "#" or times[name] == 1}


def _told_by(subject: str) -> tuple[str, bool | None]:
    """What names the change that a subject tells of, or nothing; and whether it lands that again. None: neither."""
    lands, text = None, _title(subject)[1:]
    while found := _SUBJECT.fullmatch(text):
        lands = (lands is not False) is (found[1].lower() != "revert")
        text = found[2].strip().removeprefix('"').removesuffix('"')
        if number := pull_request(text):
            return number, lands
    return ("" if lands is None else f'"{text}'), lands


def read_reverts(git: Git, *revisions: str, url: str = "") -> list[Reverting]:
    """The commits of a range that revert others or land them again, newest first.

    :param revisions: for ``git log``: a range, and limits of it
    :param url: see :func:`reverted_by`
    """
    # Without mailmap: in a bare repository, git would read that file at HEAD, which a partial clone may lack.
    output = git.run(
        "log", "-z", "--no-mailmap", "--topo-order", "--format=%H%x00%ct%x00%B", *_SEARCH, *revisions
    ).stdout
    fields = iter(output.decode(errors="replace").split("\0"))
    rows = ((sha, int(seconds), message) for sha, seconds, message in zip(fields, fields, fields, strict=False))
    return as_reverting(git, rows, url=url)


def as_reverting(
    git: Git, commits: Iterable[tuple[str, int, str]], *, url: str = "", whole: bool = True
) -> list[Reverting]:
    """Those of ``commits`` that revert others or land them again, in the same order.

    :param commits: id, seconds and message of each
    :param whole: find the pull requests of what is reverted. Without, only abbreviated ids cost a process
    """
    rows = []
    for sha, seconds, message in commits:
        subject = message.partition("\n")[0]
        name, lands = _told_by(subject)
        names, landed = (reverted_by(message, url=url, landed=again) for again in (False, True))
        told = [name] if name and (name[0] == "#" or not (names or landed)) else []  # a title alone says least
        names, landed = (names, told + landed) if lands else (names + told, landed)
        if names or landed:
            rows.append((sha, seconds, subject, names, tuple(dict.fromkeys(landed))))
    ids = {name for row in rows for name in (*row[3], *row[4]) if name[0] not in '#"'}
    # One digit less: git looks for an abbreviated id here only, and would fetch a whole one that a partial clone lacks.
    asked = {name: name[:39] for name in sorted(ids) if whole or len(name) < 40}
    objects = git.objects([f"{short}^{{commit}}" for short in asked.values()]) if asked else []
    found = {name: commit for name, commit in zip(asked, objects, strict=True) if commit is not None}
    full = {name: commit[0] for name, commit in found.items()}
    subjects = {name: commit[1].partition(b"\n\n")[2].partition(b"\n")[0] for name, commit in found.items()}
    numbers = {name: pull_request(subject.decode(errors="replace")) for name, subject in subjects.items()}
    return [
        Reverting(
            sha=sha,
            seconds=seconds,
            subject=subject,
            reverted=tuple(dict.fromkeys(full.get(name, name) for name in names)),
            landed=tuple(dict.fromkeys(full.get(name, name) for name in landed)),
            pulls=tuple((numbers[name], full[name]) for name in names if numbers.get(name)),
        )
        for sha, seconds, subject, names, landed in rows
    ]


class Effects:
    """Which changes are in effect after some commits, as far as their messages tell: the last one counts.

    Each commit that reverts or relands turns changes off or on; the revert of a revert turns on what that turned off.
    A commit can turn older ones only: what its message says of itself and of later ones means nothing.

    :param commits: newest first
    :param aliases: the ids of commits, by their pull requests and titles (:func:`aliases`)
    """

    def __init__(self, commits: Iterable[Reverting], aliases: Mapping[str, str] = MappingProxyType({})) -> None:
        ordered = list(commits)[::-1]
        order = {name: place for place, commit in reversed([*enumerate(ordered)]) for name in commit.names}
        self._ids = dict(aliases)
        self._turns: dict[str, dict[str, bool]] = {}  # a commit -> changes, and whether it turns each on
        self._last: dict[str, tuple[bool, str, Reverting]] = {}  # a change -> whether it is on, and who turned it so
        self._next: dict[str, Reverting] = {}  # a commit -> the first one that turned its change the other way
        for place, commit in enumerate(ordered):
            reverted, landed = (
                [name for name in names if order.get(name, -1) < place and (name[0] != '"' or name in self._ids)]
                for names in (commit.reverted, commit.landed)
            )
            for number, sha in commit.pulls:
                self._ids.setdefault(number, sha)
            self._ids.update((name, commit.sha) for name in commit.names if name[0] == "#")
            self._ids.setdefault(_title(commit.subject), commit.sha)
            # What lands a change again reverts a revert, though that may be older than these commits.
            unknown = _told_by(commit.subject)[1] is not True
            turns: dict[str, bool] = {}
            for name in map(self._id, reverted):
                turns |= {change: not on for change, on in self._turns.get(name, {name: unknown}).items()}
            for name in map(self._id, landed):
                turns |= self._turns.get(name, {name: True})
            self._turns |= {commit.sha: turns} if turns else {}
            for change, on in turns.items():
                was_on, by = self._last[change][:2] if change in self._last else (True, change)
                if was_on is not on:
                    self._next.setdefault(by, commit)
                    self._last[change] = on, commit.sha, commit

    def _id(self, name: str) -> str:
        return self._ids.get(name, name)

    def _changes(self, name: str) -> dict[str, bool]:
        return self._turns.get(self._id(name), {self._id(name): True})

    def lands(self, name: str) -> bool:
        """Whether a commit lands changes, rather than takes them away."""
        return any(self._changes(name).values())

    def undone(self, name: str, *, wholly: bool = False) -> Reverting | None:
        """Who undid the change of a commit, which is then not in effect. ``wholly``: all that it reverts or relands."""
        changes = self._changes(name)
        by = [last[2] for change, on in changes.items() if (last := self._last.get(change)) and last[0] is not on]
        return by[-1] if by and (len(by) == len(changes) or not wholly) else None

    def next(self, name: str) -> Reverting | None:
        """The first commit that undid the change of a commit, whatever came later."""
        return self._next.get(self._id(name))

    def taken(self) -> dict[str, Reverting]:
        """The commits that landed a change which is not in effect any more, each with the one that undid it."""
        return {name: by for name, by in self._next.items() if self.lands(name) and self.undone(name)}
