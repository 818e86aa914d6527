"""Revisions that nobody has: most tests release one, of an upstream that can't be reached.

Only such upstreams are stood in for. A test whose upstream is a repository of its own asks that one, as the toolkit
does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.release.pinning import pinned
from tests.targets_factory import INVENTED

if TYPE_CHECKING:
    from mlir_release.ground.llvm.upstream import Upstream
    from mlir_release.release.pinning.state import TagState

_ask = pinned.check_revision


def _check(upstream: Upstream, state: TagState) -> None:
    if upstream.url not in INVENTED:
        _ask(upstream, state)


def believe_invented_revisions() -> None:
    """Take the revisions of unreachable upstreams for theirs, in this process."""
    pinned.check_revision = _check
