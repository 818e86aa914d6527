"""Check that a commit named by its id is upstream's own.

Forks on GitHub share objects with their parent, so any fork's commit can be fetched from upstream by its id. So a
branch or a tag of upstream must lead to it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mlir_release.errors import VerificationError
from mlir_release.forge.open import github_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mlir_release.pinning.upstream import Upstream

_HEADS = "refs/heads/"
_RELEASES = _HEADS + "release/"
_DIGITS = re.compile(r"\d+")


def need_upstream(upstream: Upstream, sha: str, *, tag: str = "", environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a commit that no branch and no tag of the upstream leads to.

    A tip of either needs one round trip of git. On GitHub, the branch that is followed and the release branches are
    asked for, newest first, one request each; elsewhere the history is fetched, without trees and files.

    :param tag: that pins the commit; empty: a person named it
    :raises VerificationError: ``revision-not-upstream``
    :raises MachineError: if the upstream can't be reached
    """
    tips = upstream.tips()
    if sha in tips.values():
        return
    client = github_of(upstream.url, environ)
    if client is None:
        found = upstream.contains(sha)
    else:
        found = any(client.is_reachable(sha, tips[name]) for name in _branches(tips, upstream.branch))
    if not found:
        raise VerificationError(
            "revision-not-upstream",
            f"no branch of the upstream leads to {sha}" + (f", which {tag} pins" if tag else ""),
            where=upstream.url,
            why="a commit of a fork, or of a deleted branch, can be fetched by its id as if it were upstream's"
            + ("" if client is None else f"; looked at {upstream.branch} and the branches release/*"),
            remedy=f"don't build or publish it; find out who made it; mlir-release release abandon {tag}"
            if tag
            else "check the sha; if it is upstream's, name a branch or a tag that it is the tip of",
        )


def _branches(tips: Mapping[str, str], branch: str) -> Iterator[str]:
    """The refs to ask, in order: the branch that is followed, then those of releases, the newest first."""
    if _HEADS + branch in tips:
        yield _HEADS + branch
    releases = [name for name in tips if name.startswith(_RELEASES)]
    yield from sorted(releases, key=lambda name: [int(digits) for digits in _DIGITS.findall(name)], reverse=True)
