"""The ports of a hosting service: jobs of workflow runs, settings, attestations.

Issues and pull requests are ports of their own, in :mod:`mlir_release.ground.hosting`.

Every forge has :class:`Services`; what a folder can't have is empty. :class:`Checks` is about any repository, such as
upstream's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from mlir_release.ground.hosting import RunJob, Tracker
    from mlir_release.release.forge.observations import Observations


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


#: The conclusions of jobs that failed. A job that runs out of time is ``cancelled``.
BAD_ENDS = frozenset({"failure", "timed_out", "cancelled"})


class WorkflowRuns(Protocol):
    """Runs of all workflows: the start and end of their jobs."""

    def since(self, start: datetime) -> Sequence[Run]:
        """Runs of every workflow that were created at ``start`` or later, newest first."""

    def jobs(self, run: Run) -> Sequence[RunJob]:
        """The jobs of a run that were assigned to a runner, including those of its earlier attempts."""


class Services(Protocol):
    """The services of a repository beside its releases."""

    @property
    def address(self) -> str:
        """The repository for ``--forge``, for example ``github:OWNER/NAME``; empty for a folder."""

    @property
    def location(self) -> str:
        """The repository for ``gh --repo``: ``HOST/OWNER/NAME``; empty for a folder."""

    @property
    def url(self) -> str:
        """The repository's address, ``https://HOST/OWNER/NAME``. Empty for a folder, which no signature can name."""

    @property
    def tracker(self) -> Tracker:
        """Its issues."""

    @property
    def runs(self) -> WorkflowRuns:
        """Its workflow runs."""

    def settings(self, files: Iterable[str], branch: str | None) -> Observations:
        """How the repository is set up, as far as the token may see it; of a folder, the files alone.

        :param files: to read at the head of the branch
        :param branch: None: the default branch
        """

    def file_of(self, repository: str, path: str, *, ref: str) -> bytes | None:
        """A file of any repository; None if it has none, or the token may not see it.

        :param repository: ``OWNER/NAME``
        :param ref: a commit, branch or tag of it
        """

    def tidy_caches(self, branch: str) -> Sequence[str]:
        """Delete each compiler cache of a branch that has a newer one for the same SDK; returns their keys."""

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
