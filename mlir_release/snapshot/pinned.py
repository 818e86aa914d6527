"""Whether a tag is of a commit that only pins: what every step that trusts a tag asks first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.errors import VerificationError
from mlir_release.model.pin import check_pin_commit

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge
    from mlir_release.model.pin import PinFacts
    from mlir_release.snapshot.state import TagState


def check_pinned(forge: Forge, state: TagState) -> PinFacts:
    """Check that a tag names a pin commit of its revision, whose base is on the forge's default branch.

    What the commit itself says (its ``targets.toml``, say) has no part in it. On GitHub it takes six or seven requests.

    :param state: of the tag (:func:`~mlir_release.snapshot.state.find_state`)
    :returns: the facts: the commit, and the commit of the protected branch that it is based on
    :raises VerificationError: ``pin-commit-missing``, and those of :func:`~mlir_release.model.pin.check_pin_commit`
    :raises NeedsPersonError: ``tag-contradicts-pin``
    """
    return check_facts(forge.pin_facts(state.commit), state)


def check_facts(facts: PinFacts | None, state: TagState) -> PinFacts:
    """As :func:`check_pinned`, of what the forge has said about the tag's commit."""
    if facts is None:
        raise VerificationError(
            "pin-commit-missing",
            f"{state.name} names no commit",
            where=state.commit,
            why="someone made that tag by hand",
            remedy=f"mlir-release release abandon {state.name}, then make another",
        )
    check_pin_commit(facts, state.revision, where=state.name)
    return facts
