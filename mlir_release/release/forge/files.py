"""The release repository's own files, read through the forge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground.errors import UsageError
from mlir_release.release.forge.refusals import branch_missing
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_settings import TARGETS_FILE, ReleaseConfig, parse_settings
from mlir_release.release.model.release_tags import line_file
from mlir_release.release.model.yanks import YANKS_PATH, Yank, parse_yanks

if TYPE_CHECKING:
    from mlir_release.release.forge.base import Forge

#: Where the matrix, and with it the configuration, is read from when no tag says otherwise.
DEFAULT_BRANCH = "main"


def matrix_at(forge: Forge, commit: str, line: str | None = None) -> Matrix:
    """The build matrix at a commit: of snapshots, or of a release line, which may have a file of its own.

    :param line: as a tag has it; None: of snapshots
    :raises UsageError: if ``targets.toml`` is missing, or a file has a mistake
    """
    where = f"at {commit[:12]}, {forge.description}"
    matrix = Matrix.parse(text_at(forge, TARGETS_FILE, commit), where=f"{TARGETS_FILE} {where}")
    own = forge.read(line_file(line), commit=commit) if line is not None else None
    if line is None or own is None:
        return matrix
    return matrix.of_line(line, own.decode("utf-8", errors="replace"), where=f"{line_file(line)} {where}")


def matrix_if_there(forge: Forge, branch: str) -> Matrix | None:
    """The build matrix at the head of a branch; None without the branch or the file, as in many a mirror."""
    found = _targets_if_there(forge, branch)
    return Matrix.parse(found[0], where=found[1]) if found is not None else None


def settings_if_there(forge: Forge, branch: str) -> ReleaseConfig | None:
    """The settings of releases at the head of a branch, without its matrix; None without the branch or the file."""
    found = _targets_if_there(forge, branch)
    return parse_settings(found[0], where=found[1]) if found is not None else None


def _targets_if_there(forge: Forge, branch: str) -> tuple[str, str] | None:
    """The text of ``targets.toml`` at the head of a branch, and its place for errors; None without one of both."""
    head = forge.head(branch)
    content = forge.read(TARGETS_FILE, commit=head) if head is not None else None
    if head is None or content is None:
        return None
    return content.decode("utf-8", errors="replace"), f"{TARGETS_FILE} at {head[:12]}, {forge.description}"


def settings_of_branch(forge: Forge, branch: str = DEFAULT_BRANCH) -> ReleaseConfig:
    """:func:`settings_if_there`. :raises UsageError: ``branch-missing``, ``input-missing``"""
    head = head_of(forge, branch)
    where = f"{TARGETS_FILE} at {head[:12]}, {forge.description}"
    return parse_settings(text_at(forge, TARGETS_FILE, head), where=where)


def text_at(forge: Forge, path: str, commit: str) -> str:
    """The text of a matrix's file at a commit. :raises UsageError: ``input-missing``"""
    content = forge.read(path, commit=commit)
    if content is None:
        raise UsageError(
            "input-missing",
            f"there is no {path} in the release repository",
            where=f"{path} at {commit[:12]}, {forge.description}",
            remedy=f"commit a {path} there (mlir-release forge init makes a repository from a checkout that has one)",
        )
    return content.decode("utf-8", errors="replace")


def matrix_of_branch(forge: Forge, branch: str = DEFAULT_BRANCH, line: str | None = None) -> Matrix:
    """The build matrix at the head of a branch. :raises UsageError: if the branch does not exist"""
    return matrix_at(forge, head_of(forge, branch), line)


def head_of(forge: Forge, branch: str) -> str:
    """The commit at the head of a branch. :raises UsageError: ``branch-missing``"""
    head = forge.head(branch)
    if head is None:
        raise branch_missing(branch, where=forge.description)
    return head


def read_yanks(forge: Forge, branch: str) -> tuple[Yank, ...]:
    """The yanks on the release branch; empty without the branch or the file. :raises UsageError: ``config-invalid``"""
    head = forge.head(branch)
    content = forge.read(YANKS_PATH, commit=head) if head else None
    return parse_yanks(content.decode(errors="replace"), where=f"{branch}:{YANKS_PATH}") if content else ()
