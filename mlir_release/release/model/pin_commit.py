"""What a commit that pins must be.

A release's tag names a *pin commit*: the tree of a commit of the protected branch (its *base*) in which nothing but the
pin is replaced. Its parents are the pin commit before it, if there is one, and the base. Someone who can push tags and
branches, but not the protected branch, can choose the revision but cannot change the build.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.ground.errors import NeedsPersonError, UsageError, VerificationError
from mlir_release.ground.llvm.pin import PIN_FILE, parse_pin

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, kw_only=True)
class TreeEntry:
    """An entry of a commit's root folder, as git names it."""

    name: str
    mode: str  #: six digits: ``100644``; ``040000`` is a folder
    kind: str  #: ``blob``, ``tree``; ``commit`` is a submodule
    oid: str


@dataclass(frozen=True, kw_only=True)
class PinFacts:
    """What a forge says about a commit that may be a pin commit."""

    commit: str
    parents: tuple[str, ...]
    branch: str  #: the protected one: the forge's default branch, which nothing in a tag can name
    base_on_branch: bool  #: whether the last parent is reachable from the branch's head
    changed: tuple[str, ...]  #: what of the root folder differs from the last parent's: names of files and folders
    entry: TreeEntry | None  #: of the pin file at the commit
    pin: bytes | None  #: its content; None if it is no plain file

    @property
    def base(self) -> str:
        """The commit of the branch whose toolkit this is; empty if it can't be told."""
        return self.parents[-1] if self.parents else ""


#: The branch that snapshots are pinned on, unless ``targets.toml`` names another.
PINS_BRANCH = "snapshots"


def numbered_branch(version: str) -> str:
    """The branch that the numbered releases of an LLVM version are pinned on. ``version``: canonical"""
    return f"release/{version}"


#: The mode of a plain file that is not executable.
PLAIN = "100644"

#: How many parents a pin commit has: the one before it and its base, or only its base.
PARENTS = (1, 2)


def changed_names(commit: Iterable[TreeEntry], base: Iterable[TreeEntry]) -> tuple[str, ...]:
    """The names of the entries that two root folders do not share; a folder's object id tells of all that is in it."""
    return tuple(sorted({entry.name for entry in frozenset(commit) ^ frozenset(base)}))


def check_pin_commit(facts: PinFacts, revision: str, *, where: str) -> None:
    """Check that a commit is a pin commit of ``revision``.

    :param revision: of llvm-project, as the tag's message says it
    :param where: the tag
    :raises VerificationError: ``tampered``
    :raises NeedsPersonError: ``tag-foreign``
    """
    _check_parents(facts, where)
    others = [name for name in facts.changed if name != PIN_FILE]
    if others:
        raise _tampered(
            f"the commit that {where} names changes more than the pin",
            facts,
            where,
            why=f"these differ from {facts.base[:12]} of {facts.branch}: {', '.join(others)}",
        )
    if facts.entry is not None and (facts.entry.mode, facts.entry.kind) != (PLAIN, "blob"):
        raise _tampered(
            f"{PIN_FILE} is no plain file in the commit that {where} names",
            facts,
            where,
            why=f"its mode is {facts.entry.mode} ({facts.entry.kind}), and it must be {PLAIN} (blob)",
        )
    try:
        pin = parse_pin(facts.pin, where=where)
    except UsageError as error:
        raise _tampered(f"the commit that {where} names has no proper pin", facts, where, why=error.what) from error
    if pin != revision:
        raise NeedsPersonError(
            "tag-foreign",
            f"tag {where} says llvm-project {revision}, but the commit that it names pins {pin}",
            where=facts.commit,
            why="someone made or moved that tag by hand",
            remedy=f"mlir-release release abandon {where}, then make another",
        )


def _check_parents(facts: PinFacts, where: str) -> None:
    parents = facts.parents
    if len(parents) not in PARENTS or len(set(parents)) != len(parents):
        raise _tampered(
            f"{where} does not name a pin commit",
            facts,
            where,
            why=f"it has {len(parents)} parents; a pin commit has the one before it, and a commit of {facts.branch}",
        )
    if not facts.base_on_branch:
        raise _tampered(
            f"{where} would be built by a toolkit that is not of {facts.branch}",
            facts,
            where,
            why=f"the last parent of its commit, {facts.base[:12]}, is not reachable from {facts.branch}",
        )


def _tampered(what: str, facts: PinFacts, tag: str, *, why: str) -> VerificationError:
    remedy = f"don't publish or install it; find out who made it; mlir-release release abandon {tag}, then make another"
    return VerificationError("tampered", what, where=facts.commit, why=why, remedy=remedy)
