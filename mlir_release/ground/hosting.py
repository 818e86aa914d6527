"""What more than releases need of a hosting service: issues, pull requests, and what jobs tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class RunStep:
    """A step of a job. The times are None before it starts and ends, and for one that was skipped."""

    name: str
    conclusion: str | None
    started_at: datetime | None
    completed_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class RunJob:
    """A job of a workflow run on one runner. ``labels``: the requested ones, such as ``ubuntu-24.04-arm``."""

    id: str
    name: str
    run_id: str
    labels: tuple[str, ...]
    status: str  #: as of a :class:`Run`
    conclusion: str | None
    started_at: datetime
    completed_at: datetime | None
    steps: tuple[RunStep, ...]
    url: str = ""  #: of its page, for people


@dataclass(frozen=True, kw_only=True)
class Issue:
    """An open issue that the toolkit maintains. ``key``: its subject, recorded in an invisible comment."""

    number: int
    key: str
    title: str
    body: str  #: Markdown, without the key
    url: str


class Tracker(Protocol):
    """The issues that the toolkit itself maintains; it does not list anyone else's."""

    def open_issues(self) -> Sequence[Issue]:
        """Those that are open, oldest first. Two runs at once may have opened two of one key."""

    def open(self, key: str, title: str, body: str) -> Issue:
        """Open an issue."""

    def find(self, key: str) -> Issue | None:
        """The oldest issue of a key, open or closed; None without one."""

    def update(self, issue: Issue, title: str, body: str, *, reopen: bool = False) -> Issue:
        """Replace an issue's title and body, and open it again if it was closed."""

    def comment(self, issue: Issue, key: str, body: str) -> None:
        """Comment on an issue; nothing if it has a comment with that ``key``."""

    def close(self, issue: Issue, comment: str) -> None:
        """Close an issue with a comment; nothing if it is closed already."""


@dataclass(frozen=True, kw_only=True)
class Pull:
    """A pull request. ``state``: ``draft``, ``ready`` (for review), ``merged`` or ``closed``."""

    url: str
    state: str


class PullRequests(Protocol):
    """Pull requests of one repository, by branch. Every method is idempotent."""

    def newest(self, *, branch: str) -> Pull | None:
        """The open pull request of ``branch``, else the last one that it had; None without one."""

    def ensure_draft(self, *, branch: str, base: str, title: str, body: str) -> str:
        """Open a draft for ``branch``, or set title and body of the open one. Returns its address."""

    def comment(self, *, branch: str, key: str, body: str) -> None:
        """Comment on the open pull request; a comment with the same ``key`` is replaced, not repeated."""

    def mark_ready(self, *, branch: str) -> None:
        """Turn the draft into one that asks for review."""

    def ensure_ci(self, *, workflow: str, branch: str, head: str) -> None:
        """Start a workflow on ``branch`` unless it has run, or runs, at its commit ``head``."""

    def dispatch(self, *, workflow: str, branch: str, inputs: Mapping[str, str] | None = None) -> None:
        """Start a workflow as it is on ``branch`` (pushes with a job's own token start none)."""
