"""The release repository's own files, read through the forge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.errors import UsageError
from mlir_release.model.targets import TARGETS_FILE, Matrix

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge

#: Where the matrix, and with it the configuration, is read from when no tag says otherwise.
DEFAULT_BRANCH = "main"


def matrix_at(forge: Forge, commit: str) -> Matrix:
    """The build matrix at a commit. :raises UsageError: if there is none, or it has a mistake"""
    content = forge.read(TARGETS_FILE, commit=commit)
    where = f"{TARGETS_FILE} at {commit[:12]}, {forge.description}"
    if content is None:
        raise UsageError(
            "targets-missing",
            f"there is no {TARGETS_FILE} in the release repository",
            where=where,
            remedy=f"commit a {TARGETS_FILE} there (mlir-release forge init makes a repository that has one)",
        )
    return Matrix.parse(content.decode("utf-8", errors="replace"), where=where)


def matrix_of_branch(forge: Forge, branch: str = DEFAULT_BRANCH) -> Matrix:
    """The build matrix at the head of a branch. :raises UsageError: if there is no such branch"""
    return matrix_at(forge, head_of(forge, branch))


def head_of(forge: Forge, branch: str) -> str:
    """The commit at the head of a branch. :raises UsageError: ``branch-missing``"""
    head = forge.head(branch)
    if head is None:
        raise UsageError(
            "branch-missing",
            f"the release repository has no branch {branch}",
            where=forge.description,
            remedy="create it, or name the branch that holds targets.toml with --branch",
        )
    return head
