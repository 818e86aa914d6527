"""The refusals of every forge: each cause is one error with one id, whichever forge meets it."""

from __future__ import annotations

from typing import Literal

from mlir_release.ground.documents.decode import is_plain_name
from mlir_release.ground.errors import ForgeError, UsageError
from mlir_release.release.forge.base import BranchMoved, Taken

#: Where a local forge keeps the page of a release among its files.
RELEASE_PAGE = "index.html"


def branch_moved(branch: str, expected: str | None, *, where: str) -> BranchMoved:
    """A commit was made for ``expected``, which is no longer the head of ``branch`` (None: there was no branch)."""
    what = f"{branch} is no longer at {expected}" if expected else f"somebody else has made the branch {branch}"
    return BranchMoved("lost-race", what, where=where)


def branch_missing(branch: str, *, where: str) -> UsageError:
    """The branch that holds ``targets.toml`` does not exist."""
    return UsageError(
        "branch-missing",
        f"the release repository has no branch {branch}",
        where=where,
        remedy="create it, or name the branch that holds targets.toml: --branch, or branch in targets.toml",
    )


def tag_taken(tag: str, *, where: str) -> Taken:
    """The tag exists."""
    return Taken("lost-race", f"the tag {tag} exists already", where=where)


def release_taken(tag: str, *, where: str, why: str = "") -> Taken:
    """The tag has a published release that another draft became."""
    return Taken(
        "lost-race",
        f"{tag} is published already, from another draft",
        where=where,
        why=why,
        remedy="delete this draft; a published release never changes",
    )


def asset_taken(tag: str, name: str, *, where: str) -> Taken:
    """The draft has an asset of that name."""
    return Taken(
        "lost-race",
        f"{tag} has an asset {name} already",
        where=where,
        remedy=f"remove it first: mlir-release publish {tag} --discard {name}",
    )


def release_tag_missing(tag: str, *, where: str) -> ForgeError:
    """A draft can't be made before its tag."""
    return ForgeError(
        "not-on-forge",
        f"there is no tag {tag} to release",
        where=where,
        remedy="make it: mlir-release snapshot, or mlir-release release start",
    )


def release_immutable(tag: str, *, where: str) -> ForgeError:
    """The release is published, and nothing of it can be changed."""
    return ForgeError("release-immutable", f"{tag} is published, and a published release never changes", where=where)


def check_name(kind: Literal["tag", "asset"], name: str, *, where: str) -> None:
    """Refuse a name that is not a plain file name: it becomes a path, or a part of an address.

    :raises ForgeError: ``forge-refused``
    """
    if not is_plain_name(name) or name == RELEASE_PAGE:
        raise ForgeError(
            "forge-refused",
            f"{name!r} can't be the name of {'a release' if kind == 'tag' else 'an asset'}",
            where=where,
            why=f"it must be a plain file name, and not {RELEASE_PAGE}, which is the release's page",
            remedy="rename it; if it is of a release that others made, do not use that release",
        )
