"""Resolve a person's request (head, a sha, a tag, a branch) to one llvm-project commit, by asking the upstream itself.

Only refs and single commit objects are fetched, never a history: a selection costs one or two round trips. The facts of
the commit's tree (:meth:`Revision.facts`) cost two more, for trees and a few small files.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import MachineError, UsageError
from mlir_release.git.remotes import upstream_unreachable
from mlir_release.git.repository import Git, GitError
from mlir_release.git.shared import SharedGit
from mlir_release.host.cache import cache_directory, locked
from mlir_release.model.digests import sha256_of
from mlir_release.model.llvm_facts import FACT_FILES, TRAILER_VERSION, FactsError, LlvmFacts
from mlir_release.model.manifest import format_time
from mlir_release.model.pin import SHA_PATTERN
from mlir_release.model.trailers import parse_trailers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from mlir_release.model.targets import ReleaseConfig

#: Commits that a window reaches back where dates don't say how far: half a year of llvm-project.
DEPTH = 20_000

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


class Upstream:
    """An upstream llvm-project repository: ``url`` is anything that git can fetch from."""

    def __init__(self, url: str, *, branch: str = "main", cache: Path | None = None) -> None:
        self.url = url
        self.branch = branch
        folder = cache if cache is not None else cache_directory()
        # One bare repository an upstream: it holds the few commits that were ever selected.
        place = folder / "revisions" / sha256_of(url)[:16]
        self._git = SharedGit(place)
        self._history = SharedGit(place.with_suffix(".history"))
        self._window = SharedGit(place.with_suffix(".window"))

    @classmethod
    def of(cls, config: ReleaseConfig) -> Upstream:
        """The upstream that ``targets.toml`` names."""
        return cls(config.upstream, branch=config.upstream_branch)

    def resolve(self, selector: str) -> Revision:
        """The commit that ``selector`` names now.

        :param selector: ``head`` (the newest commit of the branch), a full sha, a tag or a branch
        :raises UsageError: if there is no such commit, or the selector is abbreviated or ambiguous
        :raises MachineError: if the upstream can't be reached
        """
        if SHA_PATTERN.fullmatch(selector):
            return self._fetch(selector)
        name = self.branch if selector == "head" else selector
        refs = self._list(f"refs/heads/{name}", f"refs/tags/{name}", f"refs/tags/{name}^{{}}")
        branch = refs.get(f"refs/heads/{name}")
        tag = refs.get(f"refs/tags/{name}^{{}}") or refs.get(f"refs/tags/{name}")
        if selector == "head":
            tag = None
        if branch and tag and branch != tag:
            raise UsageError(
                "revision-unknown",
                f"{selector!r} is a branch and a tag upstream, at different commits",
                where=self.url,
                why=f"branch {branch}, tag {tag}",
                remedy="give the full sha of the one that you mean",
            )
        found = tag or branch
        if found:
            return self._fetch(found)
        if _SHORT_SHA.fullmatch(selector):
            raise UsageError(
                "revision-unknown",
                f"{selector!r} is an abbreviated commit",
                where=self.url,
                why="an abbreviation can't be resolved without the whole history, and may be ambiguous",
                remedy="give all 40 digits",
            )
        raise UsageError(
            "revision-unknown",
            f"the upstream has no branch or tag called {name!r}",
            where=self.url,
            remedy="give head, a full sha, a tag or a branch (git ls-remote lists what there is)",
        )

    def _list(self, *patterns: str) -> dict[str, str]:
        self._ready()
        try:
            output = self._git.text("ls-remote", "--", self.url, *patterns, remote=self.url)
        except GitError as error:
            raise self._unreachable(error) from error
        pairs = (line.split("\t", 1) for line in output.splitlines())
        return {name: sha for sha, name in pairs}

    def tips(self) -> dict[str, str]:
        """All branches and tags, and where annotated tags lead (``refs/tags/…^{}``), with their objects' ids."""
        return self._list("refs/heads/*", "refs/tags/*")

    def contains(self, sha: str) -> bool:
        """Whether a branch or a tag leads to a commit. Fetches their history into the cache: commits alone."""
        self._ready(self._history)
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        options = ("--quiet", "--prune", "--no-tags", "--no-auto-gc", "--no-write-fetch-head", "--filter=tree:0")
        try:
            self._history.run("fetch", *options, "origin", *refs, remote="origin")
        except GitError as error:
            raise self._unreachable(error) from error
        # Asked about a commit that it does not have (for-each-ref --contains), git would fetch it, with its folders.
        return sha in self._history.text("rev-list", "--all").split("\n")

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
            raise self._unreachable(self._window.failure(("fetch", *options), done))
        return self._window, self._window.resolve(ref) or ""

    def fetch_folders(self, git: Git, trees: Collection[str]) -> None:
        """Fetch the top two levels of some commits' folders, without files, in one request. ``trees``: their ids

        :param git: of :meth:`window`
        :raises MachineError: if the upstream can't be reached
        """
        # See _texts for the setting.
        silent = ("-c", "fetch.negotiationAlgorithm=noop")
        options = ("--quiet", "--no-tags", "--no-auto-gc", "--no-write-fetch-head", "--filter=tree:2", "--stdin")
        asked = "".join(f"{tree}\n" for tree in trees).encode()
        try:
            Git(git.directory).run(*silent, "fetch", *options, "origin", input=asked, remote="origin")
        except GitError as error:
            raise self._unreachable(error) from error

    def _fetch(self, sha: str) -> Revision:
        self._ready()
        if self._git.resolve(sha) is None:
            options = ("--quiet", "--depth=1", "--filter=tree:0", "--no-tags")
            try:
                self._git.run("fetch", *options, "origin", sha, remote="origin")
            except GitError as error:
                missing = ("not our ref", "couldn't find remote ref", "unadvertised object", "bad object")
                if any(text in error.stderr for text in missing):
                    raise UsageError(
                        "revision-unknown",
                        f"the upstream has no commit {sha}",
                        where=self.url,
                        remedy="check the sha; a commit of a fork or of a deleted branch can't be pinned",
                    ) from None
                raise self._unreachable(error) from error
            if self._git.resolve(sha) is None:
                raise UsageError(
                    "revision-unknown",
                    f"{sha} is no commit, but a file or a folder of the upstream",
                    where=self.url,
                    remedy="give the sha of a commit",
                )
        epoch, message = self._git.text("log", "-1", "--format=%ct%x00%B", "--end-of-options", sha).split("\0", 1)
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
            return LlvmFacts.read(self._texts(sha).get)
        except GitError as error:
            raise self._unreachable(error) from error
        except FactsError as error:
            raise _unreadable(f"{self.url} at {sha}", error) from None

    def _texts(self, sha: str) -> dict[str, str]:
        """The files of a commit that facts are read from, by path."""
        # The commit came without its tree. git fetches that as soon as it is read: all its folders, in one request.
        listed = self._git.text("ls-tree", "-z", "--full-tree", sha, "--", *FACT_FILES, remote="origin")
        rows = [row.partition("\t") for row in listed.split("\0") if row]
        blobs = {path: entry.split()[2] for entry, _, path in rows if entry.split()[1] == "blob"}
        if blobs:  # in one request, too: git would fetch each of them by itself when it is read
            # As git does: after "we have this commit", a server would leave out the files of it that we ask for.
            silent = ("-c", "fetch.negotiationAlgorithm=noop")
            options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none")
            Git(self._git.directory).run(*silent, "fetch", *options, "origin", *blobs.values(), remote="origin")
        shown = {path: self._git.run("cat-file", "blob", oid).stdout for path, oid in blobs.items()}
        return {path: content.decode(errors="replace") for path, content in shown.items()}

    def _ready(self, git: SharedGit | None = None) -> None:
        folder = (git or self._git).directory
        with locked(folder.with_name(f"{folder.name}.lock")):
            if not folder.is_dir():
                staging = folder.with_name(f"{folder.name}.new")
                shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed
                staging.mkdir(parents=True)
                made = Git(staging)
                made.run("init", "--quiet", "--bare")
                # The remote's name lets git find objects that a fetch left out.
                made.run("config", "remote.origin.url", self.url)
                staging.rename(folder)

    def _unreachable(self, error: GitError) -> MachineError:
        return upstream_unreachable(self.url, why=error.why, configured_in="targets.toml")


def _unreadable(where: str, error: FactsError) -> UsageError:
    if error.what == "bindings":
        return UsageError(
            "revision-unsuitable",
            "this revision has no MLIR Python bindings",
            where=where,
            why=str(error),
            remedy="choose a newer revision (the bindings came with LLVM 12), or an upstream that is llvm-project",
        )
    if error.what == "version":
        return UsageError(
            "revision-unsuitable",
            "this revision does not say which LLVM version it is",
            where=where,
            why=str(error),
            remedy="choose another revision; if upstream moved the file, this toolkit must learn where it is now",
        )
    return UsageError(
        "revision-unsuitable",
        "the requirements of this revision's MLIR Python bindings cannot be read",
        where=where,
        why=str(error),
        remedy="choose another revision, and report it to llvm-project",
    )
