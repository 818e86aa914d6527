"""Refs of a repository on GitHub: read, created and moved, each as a compare-and-swap.

A token without *workflows: write*, such as every job's, may let a ref name only commits whose workflow files are those
of the default branch's head, whatever the branch or tag. GitHub answers 403 otherwise, and gives no reason
(vercel/next.js#94596, mkb79/Audible#882). That is a lost race here: the commit was made before a change was merged.

A ref that was made just now is not shown by every read (:meth:`Refs.awaited`).
"""

from __future__ import annotations

import re
import weakref
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mlir_release.ground.git.repository import Git, GitError
from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.release.forge.base import BranchMoved, Tag, tag_of
from mlir_release.release.forge.github import client
from mlir_release.release.forge.github.client import PAUSES, GitHubClient
from mlir_release.release.forge.github.refusals import (
    WAIT_FOR_SECONDARY_LIMIT,
    Forbidden,
    NotFound,
    Refused,
    refused,
    translated,
)
from mlir_release.release.forge.refusals import branch_moved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.ground.errors import ForgeError
    from mlir_release.release.forge.github.pins import PinReader

#: Where GitHub looks for workflows.
WORKFLOWS = ".github/workflows"


class Refs:
    """The refs of ``client``'s repository, by their names without ``refs/``."""

    def __init__(self, client: GitHubClient, pins: PinReader) -> None:
        self._client = client
        self._pins = pins

    def object(self, name: str) -> dict[str, Any] | None:
        """``sha`` and ``type`` of the object that a ref names; None if the ref does not exist."""
        try:
            _, data = self._client.read(lambda: self._client.request("GET", f"/git/ref/{quote(name)}"), about=name)
        except NotFound:
            return None
        found: dict[str, Any] = data["object"]
        return found

    def id(self, name: str) -> str | None:
        """The id of the object that a ref names; None if the ref does not exist."""
        found = self.object(name)
        return None if found is None else str(found["sha"])

    def awaited(self, name: str) -> str | None:
        """As :meth:`id`, of a ref that should be there: one that is not is looked for again for half a minute."""
        found = self.id(name)
        for seconds in PAUSES:
            if found is not None:
                break
            self._client.pause(seconds)
            found = self.id(name)
        return found

    def create(self, name: str, object: str, *, commit: str) -> bool:
        """Create a ref; False if it exists. One that points at ``object`` after a lost answer is taken for ours.

        :param commit: that the object is, or that the tag ``object`` names
        :raises BranchMoved: if the token may not let a ref name that commit (any more)
        """

        def create() -> bool:
            self._client.request("POST", "/git/refs", input={"ref": f"refs/{name}", "sha": object})
            return True

        def created() -> bool | None:
            return True if self.id(name) == object else None

        try:
            return self._client.write(create, done=created, about=name)
        except Forbidden as error:
            raise self._explained(error, commit) from error
        except Refused:
            if self.awaited(name) is None:
                raise
            return False

    def forward(self, branch: str, expected: str, made: str) -> None:
        """Move a branch to a commit on top of ``expected``. :raises BranchMoved:"""
        client, name = self._client, f"heads/{branch}"
        if self.id(name) != expected:  # cheaper than a refused update, and the usual way to lose a race
            raise branch_moved(branch, expected, where=client.where)
        update = {"sha": made, "force": False}
        try:
            # Asked for twice, the update to the same commit answers the same.
            client.write(lambda: client.request("PATCH", f"/git/refs/{quote(name)}", input=update), about=branch)
        except Forbidden as error:
            raise self._explained(error, made) from error
        except Refused as error:
            if self.id(name) != expected:
                raise branch_moved(branch, expected, where=client.where) from error
            raise

    def _explained(self, error: Forbidden, commit: str) -> Forbidden | BranchMoved:
        """Why no ref may name a commit: the token, or the workflow files, which a new commit may have."""
        branch = self._client.default_branch
        head = self.id(f"heads/{branch}")
        if head is None or self._pins.folder(head, WORKFLOWS) == self._pins.folder(commit, WORKFLOWS):
            return error
        return BranchMoved(
            "lost-race",
            f"{branch} no longer has the workflow files of {commit[:12]}",
            where=self._client.where,
            why=error.why,
            remedy="run this again: it looks at the forge anew; a token with workflows: write needs no second try",
        )


#: Git's words if GitHub asks it for a user name, because the token is missing or wrong.
_NOT_LET_IN = ("Authentication failed", "could not read Username", "could not read Password")
_NOT_FOUND = ("not found", "returned error: 404")
_STATUS = re.compile(r"The requested URL returned error: (?P<status>\d+)")

#: GitHub's own words before git's. Where it refuses for good, it says why (single sign-on, a suspended account, …);
#: where it limits, it is silent or speaks of limits.
_SAID = re.compile(r"^remote: (?P<words>.+)$", re.MULTILINE)
_OF_LIMITS = re.compile(r"limit|too many|abuse|later", re.IGNORECASE)


class TagReader:
    """Reads the tags of ``client``'s repository with their messages, and at each further time fetches only new ones.

    REST answers with one tag object a request, and there are two releases a day for years; git sends them all at once.
    Only tag objects and the commits that they name are fetched, into a folder that ends with the process.
    """

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
