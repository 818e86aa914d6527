"""Refs of a repository on GitHub: read, created and moved, each as a compare-and-swap.

A token without *workflows: write*, such as every job's, may let a ref name only commits whose workflow files are those
of the default branch's head, whatever the branch or tag. GitHub answers 403 otherwise, and gives no reason
(vercel/next.js#94596, mkb79/Audible#882). That is a lost race here: the commit was made before a change was merged.

A ref that was made just now is not shown by every read (:meth:`Refs.awaited`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mlir_release.release.forge.base import BranchMoved
from mlir_release.release.forge.github.client import PAUSES, GitHubClient
from mlir_release.release.forge.github.refusals import Forbidden, NotFound, Refused
from mlir_release.release.forge.refusals import branch_moved

if TYPE_CHECKING:
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
