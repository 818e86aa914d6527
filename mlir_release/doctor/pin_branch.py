"""The newest commit on the branch of pins: whether it is a pin commit, on whatever forge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.doctor.results import Finding
from mlir_release.errors import ReleaseError
from mlir_release.model.pin import check_pin_commit

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge
    from mlir_release.model.targets import ReleaseConfig


def examine_newest_pin(forge: Forge, config: ReleaseConfig) -> Finding:
    """What the branch of snapshots' pins ends with. A commit that does more than pin is in no release."""
    head = forge.head(config.pins)
    facts = forge.pin_facts(head) if head is not None else None
    if facts is None:
        return Finding("pins", "ok", f"there is no branch {config.pins} yet: the first snapshot makes it")
    pin = (facts.pin or b"").decode(errors="replace").strip()
    try:
        check_pin_commit(facts, pin, where=config.pins)
    except ReleaseError as error:
        remedy = f"find out who committed {facts.commit[:12]}; the next snapshot puts a pin commit on top of it"
        return Finding("pins", "problem", f"{error.what}: {error.why}", remedy)
    shown = f"{config.pins} pins llvm-project {pin[:12]}, with the toolkit of {facts.branch} at {facts.base[:12]}"
    return Finding("pins", "ok", shown)
