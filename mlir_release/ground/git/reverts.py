"""Which commits of a history revert others, by their messages: what git writes, and what GitHub's button writes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mlir_release.ground.git.repository import Git

#: At the begin of a line: a relanding quotes the message of the revert that it reverts (``> This reverts commit …``).
_REVERTED = re.compile(r"^This reverts commits? ([0-9a-f]{7,40}(?:(?:, and|,| and) [0-9a-f]{7,40})*)\b", re.MULTILINE)
#: The subject that GitHub's merge button writes: it ends with the pull request's number.
_REVERTED_PULL = re.compile(r"^Reverts (?:[\w.-]+/[\w.-]+)?(#\d+)\b", re.MULTILINE)
_PULL = re.compile(r"\((#\d+)\)$")
#: For ``git log``: lets through every message that the two expressions above find something in.
_SEARCH = ("--extended-regexp", "--grep=^This reverts commits? [0-9a-f]", "--grep=^Reverts [^ ]*#[0-9]")

#: Subjects of commits that land a change again.
_RELANDS = re.compile(r"(?:\[[^\]]*\] ?)*(?:Re-?(?:apply|commit|land)|Revert \"Revert)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Reverting:
    """A commit that reverts others. ``reverted``: their names, a full id or a pull request (``#123``)."""

    sha: str
    seconds: int  #: when it was committed, since 1970
    subject: str
    reverted: tuple[str, ...]

    @property
    def names(self) -> set[str]:
        """Its id, and its pull request."""
        return {self.sha, pull_request(self.subject)} - {""}


def reverted_by(message: str) -> list[str]:
    """The commits that a commit with this message reverts: ids, perhaps abbreviated, or pull requests (``#123``)."""
    ids = [name for found in _REVERTED.findall(message) for name in re.findall(r"[0-9a-f]{7,40}", found)]
    return ids + _REVERTED_PULL.findall(message)


def pull_request(subject: str) -> str:
    """``#123``, the pull request that a commit with this subject was; empty if it does not say."""
    found = _PULL.search(subject)
    return found[1] if found else ""


def read_reverts(git: Git, *revisions: str) -> list[Reverting]:
    """The commits of a range that revert others, newest first.

    :param revisions: for ``git log``: a range, and limits of it
    """
    # Without mailmap: in a bare repository, git would read that file at HEAD, which a partial clone may lack.
    output = git.run(
        "log", "-z", "--no-mailmap", "--topo-order", "--format=%H%x00%ct%x00%B", *_SEARCH, *revisions
    ).stdout
    fields = iter(output.decode(errors="replace").split("\0"))
    return as_reverting(
        git, ((sha, int(seconds), message) for sha, seconds, message in zip(fields, fields, fields, strict=False))
    )


def as_reverting(git: Git, commits: Iterable[tuple[str, int, str]]) -> list[Reverting]:
    """What ``commits``, all of which revert others, revert; in the same order.

    :param commits: id, seconds and message of each
    """
    rows = [(sha, seconds, message, reverted_by(message)) for sha, seconds, message in commits]
    short = sorted({name for *_, names in rows for name in names if name[0] != "#" and len(name) < 40})
    objects = git.objects([f"{name}^{{commit}}" for name in short])
    full = {name: found[0] for name, found in zip(short, objects, strict=True) if found is not None}
    return [
        Reverting(
            sha=sha,
            seconds=seconds,
            subject=message.partition("\n")[0],
            reverted=tuple(dict.fromkeys(full.get(name, name) for name in names)),
        )
        for sha, seconds, message, names in rows
    ]


def standing(commits: Iterable[Reverting]) -> dict[str, list[Reverting]]:
    """The reverts that no later commit has reverted, by the names of what they revert, newest first.

    A commit can revert older ones only, whatever its message says: a revert of itself, and two that revert each other,
    mean nothing.

    :param commits: newest first
    """
    found: dict[str, list[Reverting]] = {}
    for commit in commits:
        if not commit.names & found.keys():
            for name in commit.reverted:
                if name not in commit.names:
                    found.setdefault(name, []).append(commit)
    return found


def land_again(commits: Iterable[Reverting]) -> Mapping[str, bool]:
    """For each commit that reverts something, whether that was a revert: then it lands a change again.

    Its subject tells where what it reverts is not among the commits.

    :param commits: newest first
    """
    lands: dict[str, bool] = {}
    for commit in reversed(list(commits)):
        known = [lands[name] for name in commit.reverted if name in lands]
        again = not all(known) if known else _RELANDS.match(commit.subject) is not None
        lands |= dict.fromkeys(commit.names, again)
    return lands
