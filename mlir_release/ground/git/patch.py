"""The ledger of a carried patch: its origin, its reason, and when to drop it, in the trailers of its own commit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.git.reverts import reverted_by

T_KIND = "Carried-Kind"
T_OF = "Carried-Of"
T_WHY = "Carried-Why"
T_LINK = "Carried-Upstream"
T_DROP = "Carried-Drop-When"
T_UNTIL = "Carried-Until-Dependency"

_PICKED = re.compile(r"^\(cherry picked from commit ([0-9a-f]{40})\)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Patch:
    """A carried commit. ``of`` is the commit or pull request (``#123``) that it picks or reverts, if known."""

    sha: str
    subject: str
    kind: str  #: cherry-pick, revert, local, or merge: one that can't be replayed
    of: str
    why: str
    link: str
    drop_when: str
    until: str = ""  #: the dependency that has to follow first: its path, or an upstream's name
    same: bool = False  #: ``of`` was found by its changes; the ledger does not name it


def read_patch(sha: str, message: str) -> Patch:
    """Read the ledger of a carried commit, and git's own lines for picks and reverts."""
    trailers = parse_trailers(message)
    reverted, picked = reverted_by(message), _PICKED.search(message)
    return Patch(
        sha=sha,
        subject=message.partition("\n")[0],
        kind=trailers.get(T_KIND) or ("revert" if reverted else "cherry-pick" if picked else "local"),
        of=trailers.get(T_OF, "") or (reverted[0] if reverted else picked[1] if picked else ""),
        why=trailers.get(T_WHY, ""),
        link=trailers.get(T_LINK, ""),
        drop_when=trailers.get(T_DROP, ""),
        until=trailers.get(T_UNTIL, ""),
    )
