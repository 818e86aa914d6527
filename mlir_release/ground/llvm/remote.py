"""A git repository of others, read without its history: its refs, single commits, and single files of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.errors import UsageError
from mlir_release.ground.git.remotes import UnreachableError, fetch_objects, make_bare, upstream_unreachable
from mlir_release.ground.git.repository import GitError
from mlir_release.ground.git.shared import SharedGit
from mlir_release.ground.storage.cache import cache_directory, locked

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


#: What git and servers say of a commit that they don't have, or don't give.
_NOT_THERE = ("not our ref", "couldn't find remote ref", "unadvertised object", "bad object")


class Remote:
    """A repository at ``url``, which is anything that git can fetch from."""

    title = "the upstream"  #: how messages call it
    named_in = "targets.toml"  #: where a person can correct its address

    def __init__(self, url: str, *, cache: Path | None = None) -> None:
        self.url = url
        folder = cache if cache is not None else cache_directory()
        # One bare repository for each address: it holds the few commits that were ever selected.
        place = folder / "revisions" / sha256_of(url)[:16]
        self.git = SharedGit(place)
        self._history = SharedGit(place.with_suffix(".history"))

    def refs(self, *patterns: str) -> dict[str, str]:
        """The refs that match, with their objects' ids; where annotated tags lead is ``refs/tags/…^{}``.

        :raises MachineError: if the repository can't be reached
        """
        self._ready(self.git)
        try:
            output = self.git.text("ls-remote", "--", self.url, *patterns, remote=self.url)
        except GitError as error:
            raise self.unreachable(error) from error
        pairs = (line.split("\t", 1) for line in output.splitlines())
        return {name: sha for sha, name in pairs}

    def tips(self) -> dict[str, str]:
        """All branches and tags."""
        return self.refs("refs/heads/*", "refs/tags/*")

    def named(self, name: str, *, tags: bool = True) -> str | None:
        """The commit of a branch or a tag.

        :raises UsageError: ``revision-unknown``: it is both, at different commits
        """
        refs = self.refs(f"refs/heads/{name}", f"refs/tags/{name}", f"refs/tags/{name}^{{}}")
        branch = refs.get(f"refs/heads/{name}")
        tag = refs.get(f"refs/tags/{name}^{{}}") or refs.get(f"refs/tags/{name}") if tags else None
        if branch and tag and branch != tag:
            raise UsageError(
                "revision-unknown",
                f"{name!r} is a branch and a tag of {self.title}, at different commits",
                where=self.url,
                why=f"branch {branch}, tag {tag}",
                remedy="give the full sha of the one that you mean",
            )
        return tag or branch

    def fetch(self, *commits: str) -> None:
        """Have commits, without their history and their files, in one request.

        :raises UsageError: ``revision-unknown``
        :raises MachineError: if the repository can't be reached
        """
        self._ready(self.git)
        missing = [sha for sha in commits if self.git.resolve(sha) is None]
        if not missing:
            return
        options = ("--quiet", "--depth=1", "--filter=tree:0", "--no-tags")
        try:
            self.git.run("fetch", *options, "origin", *missing, remote="origin")
        except GitError as error:
            if any(text in error.stderr for text in _NOT_THERE):
                raise UsageError(
                    "revision-unknown",
                    f"{self.title} has no commit {', '.join(missing)}"
                    if len(missing) == 1
                    else f"{self.title} lacks one of {len(missing)} commits",
                    where=self.url,
                    remedy="check the sha; a commit of a fork or of a deleted branch can't be pinned",
                ) from None
            raise self.unreachable(error) from error
        other = next((sha for sha in missing if self.git.resolve(sha) is None), None)
        if other is not None:
            raise UsageError(
                "revision-unknown",
                f"{other} is no commit, but a file or a folder of {self.title}",
                where=self.url,
                remedy="give the sha of a commit",
            )

    def history(self) -> SharedGit:
        """A repository with the history of all branches and tags as they are now, without folders and files.

        :raises MachineError: if the repository can't be reached
        """
        self._ready(self._history)
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        options = ("--quiet", "--prune", "--no-tags", "--no-auto-gc", "--no-write-fetch-head", "--filter=tree:0")
        try:
            self._history.run("fetch", *options, "origin", *refs, remote="origin")
        except GitError as error:
            raise self.unreachable(error) from error
        return self._history

    def objects(self, ids: Iterable[str]) -> None:
        """See :func:`~mlir_release.ground.git.remotes.fetch_objects`."""
        fetch_objects(self.git, "origin", [*ids])

    def unreachable(self, error: GitError) -> UnreachableError:
        """The error for a repository that can't be read."""
        return upstream_unreachable(self.url, why=error.why, title=self.title, configured_in=self.named_in)

    def _ready(self, git: SharedGit) -> None:
        folder = git.directory
        with locked(folder.with_name(f"{folder.name}.lock")):
            if not folder.is_dir():
                make_bare(folder, self.url)
