"""The ledger of carried patches: what each is, why it is carried, when to drop it; in the trailers of its commit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlir_release.errors import NeedsPersonError, UsageError
from mlir_release.integrate.upstream import shown
from mlir_release.model.trailers import parse_trailers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlir_release.git.repository import Git

T_KIND = "Carried-Kind"
T_OF = "Carried-Of"
T_WHY = "Carried-Why"
T_LINK = "Carried-Upstream"
T_DROP = "Carried-Drop-When"

#: At the begin of a line: a relanding quotes the message of the revert that it reverts (``> This reverts commit …``).
_REVERTED = re.compile(r"^This reverts commit ([0-9a-f]{40})", re.MULTILINE)
#: What GitHub's button writes: the pull request, whose number ends the subject of the commit that it became.
_REVERTED_PULL = re.compile(r"^Reverts (?:[\w.-]+/[\w.-]+)?(#\d+)\b", re.MULTILINE)
_PULL = re.compile(r"\((#\d+)\)$")
_PICKED = re.compile(r"^\(cherry picked from commit ([0-9a-f]{40})\)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A carried commit. ``of`` is what it picks or reverts, if known: a commit, or a pull request (``#123``)."""

    sha: str
    subject: str
    kind: str  #: cherry-pick, revert or local
    of: str
    why: str
    link: str
    drop_when: str


def reverts(message: str) -> list[str]:
    """What a commit with this message reverts: commits, as git itself writes it, or ``#123``, as GitHub does."""
    return _REVERTED.findall(message) + _REVERTED_PULL.findall(message)


def pull_request(subject: str) -> str:
    """``#123``, the pull request that a commit with this subject was; empty if it does not say."""
    found = _PULL.search(subject)
    return found[1] if found else ""


def read_patch(git: Git, sha: str) -> Patch:
    """A carried commit and its ledger; what git itself writes for picks and reverts is understood, too."""
    return _patch(sha, git.message(sha))


def _patch(sha: str, message: str) -> Patch:
    message = shown(message)
    trailers = parse_trailers(message)
    reverted, picked = reverts(message), _PICKED.search(message)
    return Patch(
        sha=sha,
        subject=message.partition("\n")[0],
        kind=trailers.get(T_KIND) or ("revert" if reverted else "cherry-pick" if picked else "local"),
        of=trailers.get(T_OF, "") or (reverted[0] if reverted else picked[1] if picked else ""),
        why=trailers.get(T_WHY, ""),
        link=trailers.get(T_LINK, ""),
        drop_when=trailers.get(T_DROP, ""),
    )


def carried(git: Git, base: str, pin: str) -> list[Patch]:
    """The commits that ``pin`` has on top of ``base``, oldest first; one ``git log``.

    :raises NeedsPersonError: if one of them is a merge, which can't be replayed as a patch
    """
    patches: list[Patch] = []
    if base == pin:
        return patches
    output = git.text("log", "-z", "--reverse", "--topo-order", "--format=%H%x00%P%x00%B", f"{base}..{pin}")
    fields = iter(output.split("\0"))
    for sha, parents, message in zip(fields, fields, fields, strict=False):
        if len(parents.split()) != 1:
            raise NeedsPersonError(
                "patch-conflict",
                f"the carried commit {sha[:12]} is a merge",
                where=f"{base[:12]}..{pin[:12]} in {git.directory}",
                why="a merge can't be replayed onto another upstream commit as one patch",
                remedy="make the carried commits a straight line (git rebase), then mlir-release integrate next "
                "--advance-to the same base --resolved YOUR-COMMIT",
            )
        patches.append(_patch(sha, message.rstrip("\n")))
    return patches


def named(patches: Sequence[Patch], prefix: str) -> Patch:
    """The patch whose id begins with ``prefix``. :raises UsageError: if none or several do, or it is too short"""
    matching = [patch for patch in patches if patch.sha.startswith(prefix)]
    if len(matching) != 1 or len(prefix) < 4:
        raise UsageError(
            "option-invalid",
            f"{prefix!r} names {len(matching)} of the carried patches",
            remedy="mlir-release integrate patches list shows them; give at least four digits of one",
        )
    return matching[0]
