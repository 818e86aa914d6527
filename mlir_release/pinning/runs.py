"""Whether a workflow run built one of our snapshots, so that others may take what it made.

Whoever may push can start ``release.yml`` on a branch of their own, with any content, and name that run elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.errors import UsageError, VerificationError
from mlir_release.pinning.pinned import check_pinned
from mlir_release.pinning.state import find_state

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge
    from mlir_release.forge.services import Run


def check_run(forge: Forge, run_id: str, tag: str, *, workflow: str) -> Run:
    """Return the run ``run_id`` of ``workflow`` on the snapshot ``tag``.

    :param workflow: the file name of the one that builds releases
    :raises UsageError: ``release-unsuitable``, and what :func:`~.state.find_state` raises
    :raises VerificationError: ``tampered``, and what :func:`~.pinned.check_pinned` raises
    """
    state = find_state(forge, tag)
    if state.tag.kind != "snapshot":
        raise UsageError(
            "release-unsuitable",
            f"{tag} is no snapshot",
            why="numbered releases neither take compiled code from other runs nor give it to them",
            remedy="name a run of a snapshot",
        )
    check_pinned(forge, state)
    found = next((run for run in forge.runs(workflow, ref=tag) if run.id == run_id), None)
    if found is None or found.commit != state.commit:
        why = (
            f"no such run is on {tag}" if found is None else f"it ran at {found.commit}, and the tag is {state.commit}"
        )
        raise VerificationError(
            "tampered",
            f"run {run_id} is no run of {workflow} on {tag}",
            where=forge.description,
            why=why,
            remedy="do not use what it made; if you did not start it, find out who did",
        )
    return found
