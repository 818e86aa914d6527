"""Resolve a person's request (head, a sha, a tag, a branch) to one llvm-project commit, by asking the upstream itself.

Only refs and single commit objects are fetched, never a history: a selection costs one or two round trips. The facts of
the commit's tree (:meth:`Revision.facts`) cost two more, for trees and a few small files.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mlir_release.ground.documents.times import format_time
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import UsageError
from mlir_release.ground.git.repository import Git, GitError
from mlir_release.ground.git.shared import SharedGit
from mlir_release.ground.llvm.llvm_facts import TRAILER_VERSION, FactsError, LlvmFacts, fact_files
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.ground.llvm.remote import Remote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

#: Commits that a window reaches back where dates don't say how far: half a year of llvm-project.
DEPTH = 20_000

#: Seconds.
_HALF_A_YEAR = 183 * 86_400

_SHORT_SHA = re.compile(r"[0-9a-f]{4,39}")

#: A file in the folder of the repository that a rehearsal makes as its upstream: each of its commits represents a
#: release of LLVM, which a trailer names. It lies beside the refs, where no commit and no push can put it.
REPRESENTS_RELEASES = "represents-releases"


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One upstream commit. ``epoch``: committer time in seconds since 1970, the SOURCE_DATE_EPOCH of its wheels."""

    sha: str
    epoch: int
    subject: str
    represents: str = ""  #: the LLVM release that a rehearsal's commit stands for; empty: none
    facts: Callable[[], LlvmFacts] = field(compare=False, repr=False)  #: reads the commit's tree: fetches a little

    @property
    def date(self) -> str:
        """:attr:`epoch` as our files write times; empty if it is none that they can write."""
        try:
            return format_time(datetime.fromtimestamp(self.epoch, UTC))
        except (ValueError, OverflowError, OSError):
            return ""


class UpstreamSettings(Protocol):
    """The settings that name an upstream: those of ``[release]``."""

    @property
    def upstream(self) -> str:
        """The address of its repository."""

    @property
    def upstream_branch(self) -> str:
        """The branch that is followed."""

    @property
    def base(self) -> str:
        """The address of the llvm-project that it is a fork of; empty: it is llvm-project itself."""

    @property
    def most_carried(self) -> int:
        """The most commits of its own that a fork's commit may have."""


class Upstream(Remote):
    """An upstream llvm-project repository: ``url`` is anything that git can fetch from.

    :param base: the llvm-project that it is a fork of; None: it is llvm-project itself
    :param most: commits of its own that a fork's commit may have
    """

    def __init__(
        self,
        url: str,
        *,
        branch: str = "main",
        base: Upstream | None = None,
        most: int = 0,
        cache: Path | None = None,
    ) -> None:
        super().__init__(url, cache=cache)
        self.branch = branch
        self.base = base
        self.most = most
        self._window = SharedGit(self.git.directory.with_suffix(".window"))

    @classmethod
    def of(cls, config: UpstreamSettings) -> Upstream:
        """The upstream that ``targets.toml`` names."""
        base = cls(config.base) if config.base else None
        return cls(config.upstream, branch=config.upstream_branch, base=base, most=config.most_carried)

    def resolve(self, selector: str) -> Revision:
        """The commit that ``selector`` names now.

        :param selector: ``head`` (the newest commit of the branch), a full sha, a tag or a branch
        :raises UsageError: if there is no such commit, or the selector is abbreviated or ambiguous
        :raises MachineError: if the upstream can't be reached
        """
        if SHA_PATTERN.fullmatch(selector):
            return self._revision(selector)
        head = selector == "head"
        name = self.branch if head else selector
        found = self.named(name, tags=not head)
        if found:
            return self._revision(found)
        what, why = f"the upstream has no branch or tag called {name!r}", ""
        remedy = "give head, a full sha, a tag or a branch (git ls-remote lists what there is)"
        if _SHORT_SHA.fullmatch(selector):
            what, remedy = f"{selector!r} is an abbreviated commit", "give all 40 digits"
            why = "an abbreviation can't be resolved without the whole history, and may be ambiguous"
        raise UsageError("revision-unknown", what, where=self.url, why=why, remedy=remedy)

    def dates(self, commits: Iterable[str]) -> dict[str, int]:
        """When commits were made, in seconds since 1970, without those that the upstream does not have.

        :raises MachineError: if the upstream can't be reached
        """
        asked = list(dict.fromkeys(commits))
        try:
            self.fetch(*asked)
        except UsageError:  # one of them is not there
            for sha in asked:
                with suppress(UsageError):
                    self.fetch(sha)
            asked = [sha for sha in asked if self.git.resolve(sha) is not None]
        rows = self.git.text("log", "--no-walk=unsorted", "--format=%H %ct", *asked).split() if asked else []
        return dict(zip(rows[::2], map(int, rows[1::2]), strict=True))

    def whole(self, digits: str) -> str:
        """The commit of the last half year that an abbreviation names. :raises UsageError: ``revision-unknown``"""
        found = self.window(time.time() - _HALF_A_YEAR)[0].resolve(digits)
        if found is None:
            what = f"{digits!r} names no commit of the last half year"
            raise UsageError("revision-unknown", what, where=self.url, remedy="give all 40 digits")
        return found

    def contains(self, sha: str, ref: str = "--all") -> bool:
        """Whether a branch or a tag leads to a commit. Fetches their history into the cache: commits alone.

        :param ref: this one alone
        """
        # Asked about a commit that it does not have (for-each-ref --contains), git would fetch it, with its folders.
        return sha in self.history().text("rev-list", ref).split("\n")

    def window(self, since: float, *commits: str) -> tuple[Git, str]:
        """The newest history of the branch, and of ``commits``: without trees and files, by one fetch into the cache.

        What was fetched before stays, so the repository may reach farther back than ``since``.

        :param since: seconds since 1970; but :data:`DEPTH` commits where the branch has none of that age
        :returns: the repository, and the branch's head
        :raises MachineError: if the upstream can't be reached
        """
        self._ready(self._window)
        ref = f"refs/heads/{self.branch}"
        if self._window.resolve(ref) is not None:
            ends = self._window.text("log", "--no-mailmap", "--max-parents=0", "--format=%ct", ref).split()
            since = min(since, *map(float, ends))
        options = ("--quiet", "--no-tags", "--no-auto-gc", "--no-write-fetch-head", "--filter=tree:0")
        for limit in (f"--shallow-since=@{int(since)}", f"--depth={DEPTH}"):
            wanted = (f"+{ref}:{ref}", *commits)
            done = self._window.run("fetch", *options, limit, "origin", *wanted, remote="origin", check=False)
            if done.returncode == 0 or b"no commits selected" not in done.stderr:
                break
        if done.returncode != 0:
            raise self.unreachable(self._window.failure(("fetch", *options), done))
        return self._window, self._window.resolve(ref) or ""

    def fetch_folders(self, git: Git, trees: Collection[str]) -> None:
        """Fetch the top two levels of some commits' folders, without files, in one request. ``trees``: their ids

        :param git: of :meth:`window`
        :raises MachineError: if the upstream can't be reached
        """
        # See Remote.objects for the setting.
        silent = ("-c", "fetch.negotiationAlgorithm=noop")
        options = ("--quiet", "--no-tags", "--no-auto-gc", "--no-write-fetch-head", "--filter=tree:2", "--stdin")
        asked = "".join(f"{tree}\n" for tree in trees).encode()
        try:
            Git(git.directory).run(*silent, "fetch", *options, "origin", input=asked, remote="origin")
        except GitError as error:
            raise self.unreachable(error) from error

    def _revision(self, sha: str) -> Revision:
        self.fetch(sha)
        epoch, message = self.git.text("log", "-1", "--format=%ct%x00%B", "--end-of-options", sha).split("\0", 1)
        return Revision(
            sha=sha,
            epoch=int(epoch),
            subject=message.splitlines()[0] if message else "",
            represents=parse_trailers(message).get(TRAILER_VERSION, "") if self._is_rehearsed() else "",
            facts=partial(self.facts, sha),
        )

    def _is_rehearsed(self) -> bool:
        """Whether a rehearsal made this upstream. Elsewhere, a commit message must not choose the sources."""
        place = Path(self.url)
        return place.is_absolute() and (place / REPRESENTS_RELEASES).is_file()

    def facts(self, sha: str) -> LlvmFacts:
        """Read the facts from the tree of a commit that was resolved.

        :raises UsageError: ``revision-unsuitable``
        :raises MachineError: if the upstream can't be reached
        """
        try:
            # The commit came without its tree. git fetches that as soon as it is read: all its folders, in one request.
            listed = self.git.text("ls-tree", "-z", "--full-tree", sha, "--", *fact_files(), remote="origin")
            rows = [row.partition("\t") for row in listed.split("\0") if row]
            blobs = {path: entry.split()[2] for entry, _, path in rows if entry.split()[1] == "blob"}
            self.objects(blobs.values())
            shown = {path: self.git.run("cat-file", "blob", oid).stdout for path, oid in blobs.items()}
        except GitError as error:
            raise self.unreachable(error) from error
        try:
            return LlvmFacts.read({path: content.decode(errors="replace") for path, content in shown.items()}.get)
        except FactsError as error:
            what, remedy = _UNREADABLE.get(error.what, _UNREADABLE["requirements"])
            where, why = f"{self.url} at {sha}", str(error)
            raise UsageError("revision-unsuitable", what, where=where, why=why, remedy=remedy) from None


#: What a revision lacks that it must say: what happened, and what helps.
_UNREADABLE = {
    "projects": (
        "this revision has no project that wheels can be released of",
        "choose a newer revision (MLIR's bindings came with LLVM 12), or an upstream that is llvm-project",
    ),
    "version": (
        "this revision does not say which LLVM version it is",
        "choose another revision; if upstream moved the file, this toolkit must learn where it is now",
    ),
    "requirements": (
        "the requirements of this revision's MLIR Python bindings cannot be read",
        "choose another revision, and report it to llvm-project",
    ),
}
