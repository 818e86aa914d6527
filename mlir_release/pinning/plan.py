"""The release transaction as a pure function: from what was observed to the steps that are still to be done.

Every step can be repeated, and after each the forge is read and planned for anew, so that resuming after a crash is not
a separate code path. A process that loses a race (a taken name, a moved branch) re-reads the forge and retries; one
that made a tag re-reads it too:

- Tag names are allocated upwards, so two processes that see the same tags try the same name; the forge lets one win.
- Around midnight (or with a stale listing) two can still make different tags for one job. A process that sees, after
  making its tag, another pending one for the same job abandons its own and retries. If both see each other, both do,
  and then they compete for one name. So no two tags for one job survive, whatever the order of events.
- A process that finds another's tag without a draft waits for a moment: its maker may be about to abandon it.
- A process that finds a tag without a run looks again for half a minute before it dispatches one: GitHub lists a run
  some seconds after its dispatch, and the process that dispatched it may be dead. If a second run is dispatched all the
  same, ``release.yml``'s concurrency group makes it wait for the first, and it finds nothing left to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mlir_release.errors import NeedsPersonError, ReleaseError
from mlir_release.forge.refusals import branch_missing
from mlir_release.model.pin import check_pin_commit
from mlir_release.model.release_tags import (
    NumberedTag,
    ReleaseTag,
    SnapshotTag,
    next_numbered,
    next_snapshot,
    numbered_wheel_version,
)
from mlir_release.pinning.pinned import check_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from mlir_release.forge.base import Release
    from mlir_release.forge.services import Run
    from mlir_release.model.pin import PinFacts
    from mlir_release.pinning.state import TagState


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for. ``version`` is None for a snapshot, else the canonical LLVM version of a numbered release."""

    revision: str
    request_id: str
    branch: str  #: takes the pin commit: that of all snapshots, or the numbered version's own
    base_branch: str  #: the protected one, whose head gives everything but the pin
    workflow: str
    version: str | None = None
    force: bool = False

    def concerns(self, state: TagState) -> bool:
        """Whether ``state`` is of this request's kind: a snapshot, or a numbered release of the same version."""
        if self.version is None:
            return isinstance(state.tag, SnapshotTag)
        return isinstance(state.tag, NumberedTag) and state.tag.version == self.version

    def is_for(self, state: TagState) -> bool:
        """Whether ``state`` is this job: the same revision, or, where another is forced, the same request."""
        same = state.request_id == self.request_id if self.force else state.revision == self.revision
        return self.concerns(state) and same


@dataclass(frozen=True, kw_only=True)
class ForgeState:
    """What was observed, and what this process did itself (``pinned``, ``made``)."""

    now: datetime
    head: str | None  #: of the request's branch
    base_head: str | None  #: of its base branch
    tag_names: frozenset[str]
    allocated: Sequence[ReleaseTag]  #: every release tag that we made
    states: Sequence[TagState]  #: of the tags for this job, and of all of the same numbered version
    drafts: Sequence[Release]  #: of those that are pending
    orphans: Sequence[Release]  #: recent drafts of abandoned tags
    others: Sequence[TagState]  #: pending for other jobs, by their recent drafts
    runs: Sequence[Run]  #: of the request's workflow, on the tag that :func:`focus` names
    dispatched: bool = False  #: by this process; its run may appear later
    focus_facts: PinFacts | None = None  #: about that tag's commit
    head_facts: PinFacts | None = None  #: about ``head``, if it pins the revision and no tag is for the job
    pinned: str | None = None  #: the commit by which this process pinned the revision
    made: str | None = None  #: the tag that this process has just made


# -- steps ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommitPin:
    """Pin the revision in the tree of ``base``, if the branch still is at ``expected`` (None: does not exist)."""

    branch: str
    expected: str | None
    base: str
    revision: str

    def __str__(self) -> str:
        return f"pin llvm-project {self.revision[:12]} on {self.branch}, with the toolkit of {self.base[:12]}"


@dataclass(frozen=True)
class CreateTag:
    """Make the tag; ``commit`` is None while the pin commit before it is only planned."""

    tag: ReleaseTag
    commit: str | None
    revision: str
    wheel_version: str

    def __str__(self) -> str:
        at = f" at {self.commit[:12]}" if self.commit else ""
        return f"create tag {self.tag}{at} (wheels {self.wheel_version})"


@dataclass(frozen=True)
class YieldTag:
    """Record our tag as abandoned, because ``winner`` is for the same job."""

    state: TagState
    winner: str

    def __str__(self) -> str:
        return f"abandon {self.state.name}, because {self.winner} does the same job"


@dataclass(frozen=True)
class DeleteDraft:
    """Delete an empty draft beside the one that counts."""

    release: Release

    def __str__(self) -> str:
        return f"delete empty draft {self.release.id} of {self.release.tag}"


@dataclass(frozen=True)
class CreateDraft:
    """Open the draft release."""

    tag: ReleaseTag
    revision: str

    def __str__(self) -> str:
        return f"create the draft of {self.tag}"


@dataclass(frozen=True)
class Dispatch:
    """Start the build on the tag."""

    workflow: str
    tag: ReleaseTag

    def __str__(self) -> str:
        return f"dispatch {self.workflow} on {self.tag}"


Step = CommitPin | CreateTag | YieldTag | DeleteDraft | CreateDraft | Dispatch

Verdict = Literal["published", "resume", "start"]


@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """What is to be done. ``published``: nothing, ever; ``resume`` with no steps: nothing, the build is under way."""

    verdict: Verdict
    tag: ReleaseTag
    revision: str
    wheel_version: str
    commit: str | None  #: that the tag names; None while it is only planned
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()


# -- planning -------------------------------------------------------------------------------------------------------


def focus(request: Request, states: Iterable[TagState], drafts: Iterable[Release]) -> TagState | None:
    """The tag that the request is about already.

    A published one of the job (the newest); else a pending one: the oldest that has a draft, else the oldest.
    """
    mine = [state for state in states if request.is_for(state)]
    published = [state for state in mine if state.state == "published"]
    if published:
        return published[-1]
    drafted = {draft.tag for draft in drafts}
    pending = [state for state in mine if state.state == "pending"]
    return min(pending, key=lambda state: state.name not in drafted, default=None)


def make_plan(request: Request, world: ForgeState) -> ReleasePlan:
    """The steps that remain.

    :raises UsageError: if the base branch is missing
    :raises NeedsPersonError: if no tag can be allocated
    :raises VerificationError: if the tag to resume is not of a pin commit (:func:`~.pinned.check_facts`)
    """
    ours = _just_made(request, world)
    if ours is not None:
        rival = next((state for state in world.states if _is_rival(request, state, ours)), None)
        if rival is not None:
            return _about(ours, "resume", YieldTag(ours, rival.name))
    chosen = focus(request, world.states, world.drafts)
    if chosen is None:
        return _start(request, world)
    if chosen.state == "published":
        return _about(chosen, "published")
    return _resume(request, world, chosen)


def _just_made(request: Request, world: ForgeState) -> TagState | None:
    """A tag that was made for this very request, and about which its maker may not have looked again yet.

    Also one of an earlier process with the same request id that was killed before it could; a draft tells that it had.
    """
    drafted = {draft.tag for draft in world.drafts}
    for state in world.states:
        unfinished = state.request_id == request.request_id and state.name not in drafted
        if state.state == "pending" and request.is_for(state) and (state.name == world.made or unfinished):
            return state
    return None


def _is_rival(request: Request, state: TagState, ours: TagState) -> bool:
    """Whether ``state`` and our own tag must not both live: one job, or one wheel version for two releases."""
    if state.name == ours.name or state.state == "abandoned" or not request.concerns(state):
        return False
    return request.is_for(state) or (request.version is not None and state.wheel_version == ours.wheel_version)


def _about(state: TagState, verdict: Verdict, *steps: Step, notes: tuple[str, ...] = ()) -> ReleasePlan:
    return ReleasePlan(
        verdict=verdict,
        tag=state.tag,
        revision=state.revision,
        wheel_version=state.wheel_version,
        commit=state.commit,
        steps=steps,
        notes=notes,
    )


def _resume(request: Request, world: ForgeState, state: TagState) -> ReleasePlan:
    check_facts(world.focus_facts, state)
    drafts = [draft for draft in world.drafts if draft.tag == state.name]
    empty = [release for release in drafts[1:] if not release.assets]
    # Another process may have been about to create the draft of a tag when it was abandoned.
    orphans = [draft for draft in world.orphans if not draft.assets]
    steps: list[Step] = [DeleteDraft(release) for release in (*empty, *orphans)]
    if not drafts:
        steps.append(CreateDraft(state.tag, state.revision))
    if not world.dispatched and not any(run.status != "completed" or run.conclusion == "success" for run in world.runs):
        steps.append(Dispatch(request.workflow, state.tag))
    surplus = len(drafts) - 1 - len(empty)
    note = f"{state.name} has {surplus} more drafts with assets; the oldest counts: look at them, and delete them"
    return _about(state, "resume", *steps, notes=(note,) if surplus > 0 else ())


def _start(request: Request, world: ForgeState) -> ReleasePlan:
    tag, wheel_version, notes = _allocate(request, world)
    steps: list[Step] = []
    if world.base_head is None:
        raise branch_missing(request.base_branch, where=request.base_branch)
    # Where a branch has moved on since we pinned the revision, our commit still is the one that the tag is for.
    commit = world.pinned or _reusable(request, world)
    if commit is None:
        steps.append(CommitPin(request.branch, world.head, world.base_head, request.revision))
    steps.append(CreateTag(tag, commit, request.revision, wheel_version))
    steps.append(CreateDraft(tag, request.revision))
    steps.append(Dispatch(request.workflow, tag))
    return ReleasePlan(
        verdict="start",
        tag=tag,
        revision=request.revision,
        wheel_version=wheel_version,
        commit=commit,
        steps=tuple(steps),
        notes=notes,
    )


def _reusable(request: Request, world: ForgeState) -> str | None:
    """The branch's head, if it pins the revision with the newest toolkit: another process was killed, or is as fast."""
    facts = world.head_facts
    if facts is None or facts.base != world.base_head:
        return None
    try:
        check_pin_commit(facts, request.revision, where=request.branch)
    except ReleaseError:
        return None  # someone committed to the branch by hand; a new commit on top has nothing of it
    return facts.commit


def _allocate(request: Request, world: ForgeState) -> tuple[ReleaseTag, str, tuple[str, ...]]:
    """The next free tag, its wheels' version, and what a person should know about it."""
    if request.version is None:
        ours = [tag for tag in world.allocated if isinstance(tag, SnapshotTag)]
        tag = next_snapshot(ours, world.now, taken=world.tag_names)
        wanted = next_snapshot(ours, world.now)
        skipped = "" if tag == wanted else f"{wanted} was not made by mlir-release; {tag} is the next free one"
        return tag, str(tag.version), (skipped,) if skipped else ()
    same = [state for state in world.states if request.concerns(state)]
    pending = [state.name for state in same if state.state == "pending"]
    if pending:
        raise NeedsPersonError(
            "release-pending",
            f"another numbered release of LLVM {request.version} is pending: {', '.join(pending)}",
            where=pending[0],
            why="its wheels would have the same version as the new one's",
            remedy=f"let it be published first, or mlir-release release abandon {pending[0]}; then run this again",
        )
    version = numbered_wheel_version(request.version, sum(state.state == "published" for state in same))
    return next_numbered(request.version, world.tag_names), str(version), ()
