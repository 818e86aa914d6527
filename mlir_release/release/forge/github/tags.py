"""All tags of a repository on GitHub with their messages, in one round trip.

REST answers with one tag object a request, and there are two releases a day for years; git sends them all at once. Only
tag objects and the commits that they name are fetched, into a folder that ends with the process.
"""

from __future__ import annotations

import re
import weakref
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from mlir_release.ground.git.repository import Git, GitError
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.forge.base import Tag, tag_of
from mlir_release.release.forge.github import client
from mlir_release.release.forge.github.refusals import WAIT_FOR_SECONDARY_LIMIT, refused, translated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.errors import ForgeError
    from mlir_release.release.forge.github.client import GitHubClient

#: Git's words if GitHub asks it for a user name, because the token is missing or wrong.
_NOT_LET_IN = ("Authentication failed", "could not read Username", "could not read Password")
_NOT_FOUND = ("not found", "returned error: 404")
_STATUS = re.compile(r"The requested URL returned error: (?P<status>\d+)")

#: GitHub's own words before git's. Where it refuses for good, it says why (single sign-on, a suspended account, …);
#: where it limits, it is silent or speaks of limits.
_SAID = re.compile(r"^remote: (?P<words>.+)$", re.MULTILINE)
_OF_LIMITS = re.compile(r"limit|too many|abuse|later", re.IGNORECASE)


class TagReader:
    """Reads the tags of ``client``'s repository, and at each further time fetches only new ones."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def read(self) -> Sequence[Tag]:
        """All tags, sorted by name."""
        self._client.read(self._fetch, about="tags")
        return sorted(map(tag_of, self._git.refs("refs/tags/")), key=lambda tag: tag.name)

    @cached_property
    def _git(self) -> Git:
        stack = ExitStack()
        weakref.finalize(self, stack.close)
        git = Git(stack.enter_context(scratch_folder("tags")))
        git.run("init", "--quiet", "--bare")
        git.run("remote", "add", "origin", self._client.git_url)
        return git

    def _fetch(self) -> None:
        options = ("--quiet", "--prune", "--no-auto-gc", "--filter=tree:0", "--no-write-fetch-head")
        try:
            self._git.run(
                *("fetch", *options, "origin", "+refs/tags/*:refs/tags/*"),
                env={**self._client.git_environment(), "GIT_HTTP_LOW_SPEED_TIME": str(client.TIMEOUT)},
                remote="origin",
            )
        except GitError as error:
            why, match = error.stderr.strip(), _STATUS.search(error.stderr)
            if match is not None and match["status"] in ("403", "429"):
                raise self._refusal(why) from error
            absent = "absent" if any(words in why for words in _NOT_FOUND) else "unreachable"
            cause = "token" if any(words in why for words in _NOT_LET_IN) else absent
            raise refused(cause, where=self._client.git_url, why=why) from error

    def _refusal(self, why: str) -> ForgeError:
        """A 403 or 429. Git shows neither body nor headers, so REST is asked about the token.

        :raises ForgeError: REST's refusal, if it refuses, too; a limit of REST's own says how long to wait
        """
        said = _SAID.search(why)
        if said is not None and not _OF_LIMITS.search(said["words"]):
            return refused("forbidden", where=self._client.git_url, why=why, needed="contents: read")
        with translated(self._client.where, "tags"):
            self._client.request("GET")
        why = f"{why} (while its REST API accepts the token)"
        hint = "if it never works, give the token contents: read"
        return refused("limited", where=self._client.git_url, why=why, wait=WAIT_FOR_SECONDARY_LIMIT, hint=hint)
