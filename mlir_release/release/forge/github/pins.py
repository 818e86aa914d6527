"""The facts about a commit that may be a pin commit: seven requests, or six if its base is the branch's head.

Trees are compared by their root folders alone: the object id of a folder tells of all that is in it, whereas the list
of files in GitHub's comparison ends at 300.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mlir_release.ground.errors import ForgeError
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.release.forge.github.refusals import NotFound
from mlir_release.release.model.pin_commit import PARENTS, PLAIN, PinFacts, TreeEntry, changed_names

if TYPE_CHECKING:
    from mlir_release.release.forge.github.client import GitHubClient


class PinReader:
    """Reads the facts about commits of ``client``'s repository."""

    def __init__(self, client: GitHubClient) -> None:
        self._client = client

    def read(self, commit: str) -> PinFacts | None:
        """The facts about a commit; None if the repository has no such commit."""
        try:
            found = self._get(f"/git/commits/{commit}")
        except NotFound:
            return None
        parents = tuple(str(parent["sha"]) for parent in found["parents"])
        told = len(parents) in PARENTS
        entries = self._entries(commit) if told else []
        entry = next((entry for entry in entries if entry.name == PIN_FILE), None)
        return PinFacts(
            commit=commit,
            parents=parents,
            branch=self._client.default_branch,
            base_on_branch=told and self._on_branch(parents[-1]),
            changed=changed_names(entries, self._entries(parents[-1])) if told else (),
            entry=entry,
            pin=self._content(entry.oid) if entry is not None and entry.mode == PLAIN else None,
        )

    def folder(self, commit: str, path: str) -> str:
        """The object id of a folder at a commit; empty if the folder does not exist."""
        oid = commit
        for name in path.split("/"):
            oid = next((entry.oid for entry in self._entries(oid) if entry.name == name), "")
            if not oid:
                break
        return oid

    def files(self, commit: str, folder: str) -> list[TreeEntry]:
        """The entries of a folder of the root at a commit, named by their paths; none if the folder does not exist."""
        found = next((entry for entry in self._entries(commit) if (entry.name, entry.kind) == (folder, "tree")), None)
        entries = self._entries(found.oid) if found is not None else []
        return [replace(entry, name=f"{folder}/{entry.name}") for entry in entries]

    def _get(self, path: str, **parameters: str) -> Any:
        client = self._client
        return client.read(lambda: client.request("GET", path, parameters=parameters), about=path)[1]

    def _on_branch(self, commit: str) -> bool:
        """Whether a commit is reachable from the default branch, asked for as a branch: a tag may have its name."""
        head = self._get(f"/git/ref/heads/{quote(self._client.default_branch)}")["object"]["sha"]
        return self._client.is_reachable(commit, head)

    def _entries(self, commit: str) -> list[TreeEntry]:
        found = self._get(f"/git/trees/{commit}")
        if found["truncated"]:
            raise ForgeError(
                "forge-refused",
                f"GitHub does not list the whole root folder of {commit}",
                where=self._client.where,
                why="it has more than 100,000 entries, and what is not listed can't be checked",
                remedy="keep fewer files in the root folder of the release repository",
            )
        return [
            TreeEntry(name=row["path"], mode=row["mode"], kind=row["type"], oid=row["sha"]) for row in found["tree"]
        ]

    def _content(self, oid: str) -> bytes:
        return base64.b64decode(self._get(f"/git/blobs/{oid}")["content"])
