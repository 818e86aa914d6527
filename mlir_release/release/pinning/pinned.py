"""Check that a tag only pins, that it pins a commit of upstream's, and that a run is on it.

Every step that trusts a tag, or a run's files, checks this first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mlir_release.ground.errors import UsageError, VerificationError
from mlir_release.ground.llvm.llvm_version import base_version
from mlir_release.ground.llvm.projects import all_projects
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.release.forge.files import matrix_of_branch
from mlir_release.release.model.pin_commit import PinFacts, check_pin_commit
from mlir_release.release.model.release_tags import TRAILER_DATE, NumberedTag
from mlir_release.release.model.stack import stack_trailers
from mlir_release.release.pinning.reachable import need_upstream
from mlir_release.release.pinning.state import TagState, facts_invalid, find_state

if TYPE_CHECKING:
    from mlir_release.ground.llvm.llvm_facts import LlvmFacts
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.forge.services import Run
    from mlir_release.release.model.release_settings import ReleaseConfig


def check_pinned(forge: Forge, state: TagState) -> ReleaseConfig:
    """Check that a tag names a pin commit of its revision, and that the revision is upstream's own and as the tag says.

    The pin commit's base has to be on the forge's default branch, whose ``targets.toml`` names the upstream. The
    commit's own content has no say. On GitHub it takes eight or nine requests of the forge.

    :param state: of the tag (:func:`~mlir_release.release.pinning.state.find_state`)
    :returns: the configuration of the protected branch
    :raises VerificationError: ``tampered``, those of :func:`~mlir_release.release.model.pin_commit.check_pin_commit`,
        and those of :func:`check_revision`
    :raises NeedsPersonError: ``tag-foreign``
    """
    facts = check_facts(forge.pin_facts(state.commit), state)
    config = matrix_of_branch(forge, facts.branch).release
    check_revision(Upstream.of(config), state)
    return config


def check_facts(facts: PinFacts | None, state: TagState) -> PinFacts:
    """Check that a tag names a pin commit of its revision, by the forge's facts about the tag's commit.

    :raises VerificationError: as :func:`check_pinned`
    """
    if facts is None:
        raise VerificationError(
            "tampered",
            f"{state.name} names no commit",
            where=state.commit,
            why="someone made that tag by hand",
            remedy=f"mlir-release release abandon {state.name}, then make another",
        )
    check_pin_commit(facts, state.revision, where=state.name)
    return facts


def check_revision(upstream: Upstream, state: TagState) -> None:
    """Check that a tag's revision is upstream's own, and that the tag's name, facts and date are those of its commit.

    Of a fork's commit, the tag has to list all that it carries, as :func:`~.reachable.need_upstream` computes it.

    Nobody signs a tag, and it decides which targets the release has: its message leaves some out, and the LLVM version
    in a numbered one's name chooses the release line's matrix. A tag without facts (of an older toolkit) leaves nothing
    out, so its message has nothing to be checked; nor has one without a date.

    :raises VerificationError: ``revision-not-upstream``
    :raises NeedsPersonError: ``tag-foreign``
    """
    stack = need_upstream(upstream, state.revision, tag=state.name)
    claimed, carried = stack_trailers(state.trailers), stack.trailers() if stack is not None else {}
    if claimed != carried:
        why = f"the tag says {claimed or 'nothing'} of carried patches, its revision has {carried or 'none'}"
        raise facts_invalid(state.name, why)
    recorded, date = state.facts, state.revision_date
    said = {TRAILER_DATE: date} if date else {}
    said |= _certain(recorded) if recorded is not None else {}
    named = state.tag.version if isinstance(state.tag, NumberedTag) else ""
    if not said and not named:
        return
    revision = upstream.resolve(state.revision)
    facts = revision.facts() if recorded is not None or named else None
    if named and facts is not None and base_version(named) != base_version(facts.version):
        raise facts_invalid(state.name, f"its name says LLVM {named}, its revision is LLVM {facts.version}")
    found = ({TRAILER_DATE: revision.date} if date else {}) | (_certain(facts) if recorded and facts else {})
    if differing := [key for key in found if found[key] != said[key]]:
        why = "; ".join(f"the tag says {key}: {said[key]}, its revision {found[key]}" for key in differing)
        raise facts_invalid(state.name, why)
    known = {project.name for project in all_projects()}
    if recorded and facts and (there := [name for name in recorded.lacks if name in known.difference(facts.lacks)]):
        raise facts_invalid(state.name, f"the tag says that its revision lacks {', '.join(there)}, which it has")


def _certain(facts: LlvmFacts) -> dict[str, str]:
    """The trailers that are the same wherever facts are read. Which projects are looked for depends on the machine."""
    return replace(facts, lacks=()).trailers()


def check_run(forge: Forge, run_id: str, tag: str, *, workflow: str) -> Run:
    """Return the run ``run_id`` of ``workflow`` on the snapshot ``tag``, so that others may take its files.

    Anyone with push rights can start ``release.yml`` on a branch of their own, with any content, and name that run
    elsewhere.

    :param workflow: the file name of the one that builds releases
    :raises UsageError: ``release-unsuitable``, and what :func:`~.state.find_state` raises
    :raises VerificationError: ``tampered``, and what :func:`check_pinned` raises
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
