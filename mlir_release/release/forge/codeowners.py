"""``CODEOWNERS``: who reviews what. The last rule that matches a file counts (docs.github.com, "About code owners")."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mlir_release.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

CODEOWNERS_FILE = ".github/CODEOWNERS"

#: A user, a team of an organisation, or an address.
_OWNER = re.compile(r"@[A-Za-z0-9][A-Za-z0-9-]*(/[A-Za-z0-9][\w.-]*)?|[^@\s]+@[^@\s]+\.[^@\s]+")


def format_codeowners(owners: Sequence[str]) -> str:
    """The file by which ``owners`` review every change, because a change here reaches everyone who installs.

    :param owners: ``@ORGANISATION/TEAM``, ``@USER`` or an e-mail address
    :raises UsageError: ``option-invalid``
    """
    for owner in owners:
        if not _OWNER.fullmatch(owner):
            raise UsageError(
                "option-invalid",
                f"{owner!r} can't be a code owner",
                why="an owner is @ORGANISATION/TEAM, @USER or an e-mail address",
                remedy="name a team that has write access to the repository",
            )
    return (
        "# Every file here can change what people install: workflows and actions, the toolkit and its locked\n"
        "# dependencies, the build matrix. So every pull request needs a review by the owners.\n"
        f"* {' '.join(owners)}\n"
    )


def unowned(text: str) -> tuple[str, ...]:
    """The patterns whose files have no owner; ``*`` if the file has no rule for every file."""
    rules = [line.partition("#")[0].split() for line in text.splitlines()]
    found: dict[str, bool] = {"*": False}
    for pattern, *owners in filter(None, rules):
        if pattern in ("*", "**", "/**", "**/*"):
            found = {"*": bool(owners)}
        else:
            found[pattern] = bool(owners)
    return tuple(pattern for pattern, owned in found.items() if not owned)
