"""The ports of a hosting service: jobs and logs of workflow runs, issues, pull requests, settings, attestations.

A forge has :class:`Services` or it has none; the adapters are in ``forge/github/``. :class:`Checks` is about any
repository there, such as upstream's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from mlir_release.forge.observations import Observations


@dataclass(frozen=True, kw_only=True)
class Run:
    """A workflow run. ``status``: ``queued``, ``in_progress`` or ``completed``; ``conclusion`` only when completed."""

    id: str
    workflow: str
    ref: str
    status: str
    conclusion: str | None
    created_at: datetime
    inputs: Mapping[str, str] = field(default_factory=dict)
    url: str = ""  #: of its page, for people; empty on a forge that has none
    commit: str = ""  #: that it ran at; empty where the forge does not tell


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


#: The conclusions of jobs that failed. A job that runs out of time is ``cancelled``.
BAD_ENDS = frozenset({"failure", "timed_out", "cancelled"})


class WorkflowRuns(Protocol):
    """Runs of all workflows: the start, end and log of their jobs."""

    def since(self, start: datetime) -> Sequence[Run]:
        """Runs of every workflow that were created at ``start`` or later, newest first."""

    def jobs(self, run: Run) -> Sequence[RunJob]:
        """The jobs of a run that were assigned to a runner, including those of its earlier attempts."""

    def log(self, job: RunJob, destination: Path) -> None:
        """Write the whole log of a job into a file, as UTF-8 text. :raises ForgeError: also if it has expired"""


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


class Services(Protocol):
    """The services of a repository beside its releases."""

    @property
    def address(self) -> str:
        """The repository for ``--forge``, for example ``github:OWNER/NAME``."""

    @property
    def location(self) -> str:
        """The repository for ``gh --repo``: ``HOST/OWNER/NAME``."""

    @property
    def url(self) -> str:
        """The repository's address, ``https://HOST/OWNER/NAME``."""

    @property
    def tracker(self) -> Tracker:
        """Its issues."""

    @property
    def pulls(self) -> PullRequests:
        """Its pull requests."""

    @property
    def runs(self) -> WorkflowRuns:
        """Its workflow runs."""

    def settings(self, files: Iterable[str], branch: str | None) -> Observations:
        """How the repository is set up, as far as the token may see it.

        :param files: to read at the head of the branch
        :param branch: None: the default branch
        """

    def file_of(self, repository: str, path: str, *, ref: str) -> bytes | None:
        """A file of any repository; None if it has none, or the token may not see it.

        :param repository: ``OWNER/NAME``
        :param ref: a commit, branch or tag of it
        """

    def keep_attestation(self, bundle: bytes) -> bool:
        """Store a Sigstore bundle with the repository's attestations, where ``gh attestation verify`` looks for it.

        :returns: False, with a warning, if the service does not take it: only the bundle in the release counts
        """


#: States of a check. Any other state is how it failed, in the service's words.
SUCCESS, PENDING = "success", "pending"


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One commit of a branch. ``when``: committed, with its time zone."""

    sha: str
    when: datetime
    subject: str


class Checks(Protocol):
    """The checks of a repository's commits: check runs, and statuses that buildbots set."""

    def newest(self, branch: str, count: int) -> Sequence[Commit]:
        """The last ``count`` commits of a branch, newest first."""

    def states(self, commit: str, names: Collection[str]) -> Mapping[str, str]:
        """States of a commit's checks: :data:`SUCCESS`, :data:`PENDING`, else how they failed.

        A check of ``names`` that the commit does not have is left out; others that were seen are in it, too.
        """
