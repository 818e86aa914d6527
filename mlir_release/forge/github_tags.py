"""All tags of a repository on GitHub with their messages, in one round trip.

REST answers with one tag object a request, and there are two releases a day for years; git sends them all at once. Only
tag objects and the commits that they name are fetched, into a folder that ends with the process.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_release.errors import ForgeError
from mlir_release.forge.base import Tag
from mlir_release.forge.github_client import NotFound, Unavailable
from mlir_release.git import Git, GitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.forge.github_client import GitHubClient

#: What git says where GitHub does not let it in; it asks for a name where the token is missing or wrong.
_NOT_LET_IN = ("Authentication failed", "could not read Username", "could not read Password", "403")
_NOT_FOUND = ("not found", "404")


class TagReader:
    """Reads the tags of ``client``'s repository again and again, and fetches what is new."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client
        self._git: Git | None = None

    def read(self) -> Sequence[Tag]:
        """All tags, sorted by name."""
        git = self._repository()
        self._client.read(lambda: self._fetch(git), about="tags")
        found = [
            Tag(name=ref.name.removeprefix("refs/tags/"), commit=ref.commit, message=ref.message)
            for ref in git.refs("refs/tags/")
        ]
        return sorted(found, key=lambda tag: tag.name)

    def _repository(self) -> Git:
        if self._git is None:
            folder = tempfile.mkdtemp(prefix="mlir-release-tags-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            git = Git(Path(folder))
            git.run("init", "--quiet", "--bare")
            git.run("remote", "add", "origin", self._client.git_url)
            self._git = git
        return self._git

    def _fetch(self, git: Git) -> None:
        try:
            git.run(
                *(
                    "fetch",
                    "--quiet",
                    "--prune",
                    "--no-auto-gc",
                    "--filter=tree:0",
                    "--no-write-fetch-head",
                ),
                *("origin", "+refs/tags/*:refs/tags/*"),
                env=self._client.git_environment(),
            )
        except GitError as error:
            raise self._translated(error) from error

    def _translated(self, error: GitError) -> ForgeError:
        why = error.stderr.strip()
        if any(words in why for words in _NOT_LET_IN):
            return ForgeError(
                "github-unauthorized",
                "GitHub does not accept the token",
                where=self._client.git_url,
                why=why,
                remedy="give a valid one in GITHUB_TOKEN; it may have expired",
            )
        if any(words in why for words in _NOT_FOUND):
            return NotFound(
                "github-not-found",
                "GitHub has no such repository, or hides it from this token",
                where=self._client.git_url,
                why=why,
                remedy="check the name, and that the token may see the repository",
            )
        return Unavailable(
            "github-unreachable",
            "GitHub did not send the tags",
            where=self._client.git_url,
            why=why,
            remedy="check the network and GitHub's status page, then run this again: what is done stays done",
            wait=0,
            lost=False,
        )
