"""The forge port: the release side's view of the place where the release repository lives.

Adapters: :mod:`mlir_release.release.forge.local` (a folder) and :mod:`mlir_release.release.forge.github`. Every method
is safe to repeat; the methods that decide races (``commit``, ``create_tag``, ``upload``) are atomic on the
forge and raise :class:`Taken` or :class:`BranchMoved` for the loser, which then reads the current state and retries.

Listings (``tags``, ``releases``) are for commands that need all of them. Other commands look up one tag or release, or
read the newest rows: the cost of a command must not grow with the repository's age.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mlir_release.ground.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from mlir_release.ground.git.repository import Ref
    from mlir_release.release.forge.services import Run, Services
    from mlir_release.release.model.pin_commit import PinFacts


class BranchMoved(ConflictError):
    """A branch's head is no longer the one that a commit was made for. Nothing was changed."""


class Taken(ConflictError):
    """A tag, branch or asset of that name exists already. Nothing was changed."""


@dataclass(frozen=True, kw_only=True)
class Tag:
    """A tag: ``commit`` is peeled; the rest is the annotated tag's own (a lightweight one has neither)."""

    name: str
    commit: str
    message: str
    created_at: datetime | None = None  #: by the forge's clock, UTC


def tag_of(ref: Ref) -> Tag:
    """A ref of git's below ``refs/tags``, as ours."""
    name = ref.name.removeprefix("refs/tags/")
    return Tag(name=name, commit=ref.commit, message=ref.message, created_at=ref.tagged_at)


@dataclass(frozen=True, kw_only=True)
class Asset:
    """A file of a release. ``complete`` is False for one whose upload was cut off."""

    name: str
    size: int  #: bytes
    sha256: str  #: 64 hex digits; empty while incomplete
    complete: bool
    url: str  #: where anyone can download it once the release is published
    id: str = ""  #: by which the forge finds it; empty where names are enough


@dataclass(frozen=True, kw_only=True)
class ReleaseRow:
    """A row in a list of releases and drafts. Several drafts may share a tag; ``id`` tells them apart."""

    id: str
    tag: str
    title: str
    draft: bool
    prerelease: bool
    created_at: datetime
    published_at: datetime | None

    def digest(self, name: str) -> str:
        """SHA-256 of one of its files; empty if the list does not show it, as GitHub's GraphQL does not."""
        return ""


@dataclass(frozen=True, kw_only=True)
class Release(ReleaseRow):
    """A release, or a draft of one."""

    body: str  #: Markdown
    assets: tuple[Asset, ...] = ()

    def asset(self, name: str) -> Asset | None:
        """The asset called ``name``, if there is one."""
        return next((asset for asset in self.assets if asset.name == name), None)

    def digest(self, name: str) -> str:
        """SHA-256 of one of its files; empty if it has no such file."""
        asset = self.asset(name)
        return asset.sha256 if asset is not None else ""


def parents_of(expected: str | None, base: str | None) -> list[str]:
    """The parents of the commit that :meth:`Forge.commit` makes, each once; it begins with the tree of the last."""
    return list(dict.fromkeys(commit for commit in (expected, base) if commit is not None))


class Forge(Protocol):
    """A release repository with its releases. Raises :class:`~mlir_release.ground.errors.ForgeError` when it can't
    answer.
    """

    @property
    def description(self) -> str:
        """For people: which forge, where."""

    def now(self) -> datetime:
        """The forge's clock, timezone-aware UTC (GitHub: the ``Date`` header). The clocks of machines differ."""

    def whoami(self) -> str:
        """Who acts through this forge, as decisions record it: ``Name <email>``, or GitHub's login."""

    # -- repository ---------------------------------------------------------------------------------------------

    @property
    def default_branch(self) -> str:
        """The protected branch: a setting, which no commit, tag or branch can change."""

    def head(self, branch: str) -> str | None:
        """The commit at the head of ``branch``; None if the branch does not exist."""

    def read(self, path: str, *, commit: str) -> bytes | None:
        """A file's content at a commit; None if it is not there."""

    def files(self, folder: str, *, commit: str) -> Sequence[str]:
        """The paths of the files that are right in a folder of the root, sorted; none without the folder."""

    def commit(
        self,
        branch: str,
        *,
        expected: str | None,
        files: Mapping[str, bytes],
        message: str,
        base: str | None = None,
        keep: str = "",
    ) -> str:
        """Commit ``files`` on ``branch`` if its head still is ``expected``.

        :raises BranchMoved: also if ``base`` is so old that the token may not move the branch there
        :param expected: None: the branch must not exist, and begins with this commit, which needs a ``base``
        :param base: takes the place of ``expected`` as the commit whose other files are kept, and is the last parent
        :param keep: a folder of the root whose files are kept as they are at ``expected``, whatever ``base`` has there
        """

    def pin_facts(self, commit: str) -> PinFacts | None:
        """The facts that show whether a commit is a pin commit of the default branch; None if it does not exist."""

    # -- tags ---------------------------------------------------------------------------------------------------

    def tags(self) -> Sequence[Tag]:
        """All tags of the repository, sorted by name, annotated messages included."""

    def tag(self, name: str) -> Tag | None:
        """One tag; None if it does not exist."""

    def create_tag(self, name: str, commit: str, message: str) -> Tag:
        """Create an annotated tag.

        :raises Taken: if the name exists, whatever it points at
        :raises BranchMoved: if the commit is so old that the token may not tag it
        """

    # -- releases -----------------------------------------------------------------------------------------------

    def releases(self) -> Sequence[Release]:
        """All releases and drafts, in the order of their creation."""

    def recent(self, count: int | None) -> Sequence[ReleaseRow]:
        """The newest ``count`` releases and drafts, newest first; None: all. Cheaper than :meth:`releases`."""

    def drafts(self, tag: str) -> Sequence[Release]:
        """The drafts of a tag, oldest first."""

    def refresh(self, release: ReleaseRow) -> Release | None:
        """A release or draft as it is now; None if it was deleted."""

    def published(self, tag: str) -> Release | None:
        """The published release of a tag; None if nothing is published under it."""

    def published_newest_first(self) -> Iterator[Release]:
        """All published releases, the newest first, read only as far as they are consumed."""

    def create_draft(self, tag: str, *, title: str, body: str, prerelease: bool) -> Release:
        """Create a draft for an existing tag. Forges may allow a second draft of one tag: callers check first."""

    def edit_release(self, release: Release, *, title: str, body: str) -> Release:
        """Replace a draft's title and body."""

    def delete_draft(self, release: Release) -> None:
        """Delete a draft with its assets; nothing if it is gone. :raises ForgeError: for a published release."""

    def upload(self, release: Release, name: str, source: Path) -> Asset:
        """Add ``source`` to a draft as ``name``. :raises Taken: if an asset of that name exists, complete or not."""

    def delete_asset(self, release: Release, asset: Asset) -> None:
        """Delete an asset from a draft; nothing if it is gone."""

    def download(self, release: Release, asset: Asset, destination: Path) -> None:
        """Fetch an asset through the forge's own API (so drafts work too) into the file ``destination``, atomically."""

    def file_url(self, tag: str, name: str) -> str:
        """Where anyone can download a file of the published release of ``tag``; :attr:`Asset.url` says the same."""

    def fetch_published(self, tag: str, name: str, destination: Path) -> bool:
        """Fetch a file of a published release, from its public address if it has one; False if it is not there."""

    def published_folder(self, tag: str) -> Path | None:
        """The folder on this machine that holds the published release's files; None: they are elsewhere."""

    def publish(self, release: Release) -> Release:
        """Make a draft public, once; after that it never changes. Publishing a published release does nothing."""

    def page_url(self, tag: str) -> str:
        """The published release's page, as a person would hand it to ``pip install -f``."""

    def files_page(self, tag: str) -> str:
        """A page that links every file of the published release, for ``pip install -f``; :meth:`page_url` may not."""

    # -- workflow runs ------------------------------------------------------------------------------------------

    def dispatch(self, workflow: str, *, ref: str, inputs: Mapping[str, str]) -> Run | None:
        """Start a workflow on a branch or tag. Returns its run; None if the forge does not tell which one it is."""

    def runs(self, workflow: str, *, ref: str) -> Sequence[Run]:
        """Runs of ``workflow`` on ``ref``, newest first. On GitHub, one that was just dispatched may be missing."""

    def await_runs(self, attempt: int) -> bool:
        """Wait a moment, so that a run which someone has just dispatched is listed.

        :param attempt: how often the caller has waited already
        :returns: False, without waiting, if every run is listed by now
        """

    # -- beside releases ------------------------------------------------------------------------------------------

    @property
    def services(self) -> Services:
        """Issues, jobs, settings and attestations. What a forge can't have is empty there."""


def public_name(forge: Forge) -> str:
    """How documents name a forge's repository: its address, or ``local``, because a folder's path tells nobody."""
    return forge.services.url or "local"
