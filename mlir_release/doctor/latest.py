"""Whether the signed pointer to the newest snapshot is there, and can be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.doctor.results import Finding, of_error
from mlir_release.errors import VerificationError
from mlir_release.release.latest import newest_snapshot, show_pointer
from mlir_release.release.signed import SignedBy, is_required
from mlir_release.snapshot.state import RECENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.forge.base import Forge
    from mlir_release.model.targets import ReleaseConfig


def examine_latest(forge: Forge, config: ReleaseConfig) -> Iterator[Finding]:
    """What ``install latest`` would refuse; nothing where releases are unsigned, or no snapshot is published."""
    if not is_required(forge, config.provenance) or newest_snapshot(forge.recent(RECENT), ()) is None:
        return
    try:
        yield Finding("latest", "ok", show_pointer(forge, SignedBy(branch=config.branch)).text())
    except VerificationError as error:
        yield of_error("latest", error)
