"""Plan the steps that releases still need, from a ledger alone: for one that was asked for, or for all.

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

What nobody asks for is swept. A pending snapshot ends in one of two ways: it is published as soon as its required
targets are all there and its build is over, or its deadline has passed; or, if it is older than ``superseded-after``
and a newer snapshot exists, it is abandoned. In between, what a killed process left undone is completed. Numbered
releases are reported only: they are asked for by a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, get_args

from mlir_release.ground.documents.times import format_time
from mlir_release.ground.errors import NeedsPersonError, ReleaseError
from mlir_release.ground.llvm.pin import format_pin
from mlir_release.release.forge.refusals import branch_missing
from mlir_release.release.model.pin_commit import check_pin_commit
from mlir_release.release.model.release_tags import ReleaseTag, next_snapshot, numbered_wheel_version
from mlir_release.release.pinning.pinned import check_facts
from mlir_release.release.transaction.steps import (
    WAYS,
    Abandon,
    CommitPin,
    CreateDraft,
    CreateTag,
    DeleteDrafts,
    Dispatch,
    Publish,
    Stage,
    Step,
    SweepAction,
    SweepLine,
    build_only,
    divide_drafts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mlir_release.release.forge.services import Run
    from mlir_release.release.model.release_settings import ReleaseConfig
    from mlir_release.release.pinning.state import State, TagState
    from mlir_release.release.transaction.draft import Draft
    from mlir_release.release.transaction.ledger import Ledger
    from mlir_release.release.transaction.request import Request

# -- a release that was asked for --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ReleasePlan:
    """The steps that a release still needs. It needs none if it is published, or if its build is under way."""

    found: State | None  #: of the tag that was begun for it; None: a new tag is planned
    tag: ReleaseTag
    revision: str
    wheel_version: str
    commit: str | None  #: that the tag names; None while it is only planned
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()


def plan_request(ledger: Ledger, request: Request) -> ReleasePlan:
    """The steps that remain of a release that was asked for.

    :raises UsageError: if the base branch is missing
    :raises NeedsPersonError: if no tag can be allocated
    :raises VerificationError: if the tag to resume is not of a pin commit (:func:`~.pinned.check_facts`)
    """
    states = states_of(ledger, request)
    ours = _just_made(ledger, request, states)
    if ours is not None:
        rival = next((state for state in states if _is_rival(request, state, ours)), None)
        if rival is not None:
            return _about(ours, Abandon(ours, f"{rival.name} does the same job"))
    chosen = _focus(ledger, request, states)
    if chosen is None:
        return _start(ledger, request, states)
    if chosen.state == "published":
        return _about(chosen)
    return _resume(ledger, request, chosen)


def states_of(ledger: Ledger, request: Request) -> list[TagState]:
    """The tags for this job, and all of the same numbered version.

    Nothing is looked up about others: two thousand old releases cost nothing.
    """
    known = [state for state in ledger.states if request.concerns(state)]
    return ledger.settled({state.name for state in known if request.version is not None or request.is_for(state)})


def also_pending(ledger: Ledger, request: Request) -> list[TagState]:
    """The pending tags of the request's kind: those of this job, and others that recent drafts show."""
    mine = states_of(ledger, request)
    names = {state.name for state in mine}
    others = [s for s in ledger.states if request.concerns(s) and s.name not in names and ledger.drafted(s.name)]
    return [state for state in (*mine, *others) if state.state == "pending"]


def _focus(ledger: Ledger, request: Request, states: Sequence[TagState]) -> TagState | None:
    """The tag that the request is about already.

    A published one of the job (the newest); else a pending one: the oldest that has a draft, else the oldest.
    """
    mine = [state for state in states if request.is_for(state)]
    published = [state for state in mine if state.state == "published"]
    if published:
        return published[-1]
    pending = [state for state in mine if state.state == "pending"]
    return min(pending, key=lambda state: not ledger.drafts(state.name), default=None)


def _just_made(ledger: Ledger, request: Request, states: Sequence[TagState]) -> TagState | None:
    """A tag that was made for this very request, and about which its maker may not have looked again yet.

    Also one of an earlier process with the same request id that was killed before it could; a draft tells that it had.
    """
    for state in states:
        if state.state == "pending" and request.is_for(state):
            if state.name == ledger.made.tag:
                return state
            if state.request_id == request.request_id and not ledger.drafts(state.name):
                return state
    return None


def _is_rival(request: Request, state: TagState, ours: TagState) -> bool:
    """Whether ``state`` and our own tag must not both live: one job, or one wheel version for two releases."""
    if state.name == ours.name or state.state == "abandoned" or not request.concerns(state):
        return False
    return request.is_for(state) or (request.version is not None and state.wheel_version == ours.wheel_version)


def _about(state: TagState, *steps: Step, notes: tuple[str, ...] = ()) -> ReleasePlan:
    return ReleasePlan(
        found=state.state,
        tag=state.tag,
        revision=state.revision,
        wheel_version=state.wheel_version,
        commit=state.commit,
        steps=steps,
        notes=notes,
    )


def _resume(ledger: Ledger, request: Request, state: TagState) -> ReleasePlan:
    check_facts(ledger.pin_facts(state.commit), state)
    # Another process may have been about to create the draft of a tag when it was abandoned.
    orphaned = [gone for gone in ledger.states if gone.state == "abandoned" and request.concerns(gone)]
    steps: list[Step] = [
        DeleteDrafts(gone) for gone in orphaned if ledger.drafted(gone.name) and ledger.drafts(gone.name)
    ]
    steps += finish(ledger, state, request.matrix.release.workflow, only=request.only)
    _, kept = divide_drafts(state, ledger.drafts(state.name))
    note = f"{state.name} has {len(kept)} more drafts with assets; the oldest counts: look at them, and delete them"
    return _about(state, *steps, notes=(note,) if kept else ())


def finish(ledger: Ledger, state: TagState, workflow: str, *, only: str = "") -> Iterator[Step]:
    """The steps that a tag still needs: it has to have one draft, and a run that is under way or has succeeded.

    A run that leaves out something that is missing (``only``) fails at its end, so another one follows it.
    """
    drafts = ledger.drafts(state.name)
    if divide_drafts(state, drafts)[0]:
        yield DeleteDrafts(state)
    if state.state != "pending":
        return
    if not drafts:
        yield CreateDraft(state.tag, state.revision)
    if state.name not in ledger.made.runs and not any(map(is_good, ledger.runs(workflow, ref=state.name))):
        yield Dispatch(workflow, state.name, build_only(only))


def is_good(run: Run) -> bool:
    """Whether a run is under way, or has succeeded."""
    return run.status != "completed" or run.conclusion == "success"


def _start(ledger: Ledger, request: Request, states: Sequence[TagState]) -> ReleasePlan:
    tag, wheel_version, notes = _allocate(ledger, request, states)
    config, sha = request.matrix.release, request.revision.sha
    base = ledger.head(config.branch)
    if base is None:
        raise branch_missing(config.branch, where=config.branch)
    # Where a branch has moved on since we pinned the revision, our commit still is the one that the tag is for.
    commit = ledger.made.pin or _reusable(ledger, request, base)
    steps: list[Step] = []
    if commit is None:
        steps.append(CommitPin(request.branch, ledger.head(request.branch), base, sha, request.pin_message()))
    steps.append(CreateTag(tag, commit, wheel_version, lambda: request.tag_message(tag, wheel_version)))
    steps.append(CreateDraft(tag, sha))
    steps.append(Dispatch(config.workflow, str(tag), build_only(request.only)))
    return ReleasePlan(
        found=None,
        tag=tag,
        revision=sha,
        wheel_version=wheel_version,
        commit=commit,
        steps=tuple(steps),
        notes=notes,
    )


def _reusable(ledger: Ledger, request: Request, base: str) -> str | None:
    """The branch's head, if it pins the revision with the newest toolkit: another process was killed, or is as fast."""
    head = ledger.head(request.branch)
    if head is None or ledger.pin(head) != format_pin(request.revision.sha):
        return None
    facts = ledger.pin_facts(head)
    if facts is None or facts.base != base:
        return None
    try:
        check_pin_commit(facts, request.revision.sha, where=request.branch)
    except ReleaseError:
        return None  # someone committed to the branch by hand; a new commit on top has nothing of it
    return head


def _allocate(ledger: Ledger, request: Request, states: Sequence[TagState]) -> tuple[ReleaseTag, str, tuple[str, ...]]:
    """The next free tag, its wheels' version, and what a person should know about it."""
    if request.version is None:
        tag = ledger.next_tag()
        wanted = next_snapshot(ledger.our_snapshots, ledger.now)
        skipped = "" if tag == wanted else f"{wanted} was not made by mlir-release; {tag} is the next free one"
        return tag, str(tag.version), (skipped,) if skipped else ()
    pending = [state.name for state in states if state.state == "pending"]
    if pending:
        raise NeedsPersonError(
            "release-pending",
            f"another numbered release of LLVM {request.version} is pending: {', '.join(pending)}",
            where=pending[0],
            why="its wheels would have the same version as the new one's",
            remedy=f"let it be published first, or mlir-release release abandon {pending[0]}; then run this again",
        )
    version = numbered_wheel_version(request.version, sum(state.state == "published" for state in states))
    return ledger.next_tag(request.version), str(version), ()


# -- what nobody asks for ----------------------------------------------------------------------------------------------

#: A process that has made a tag or published a release is given this long for its next step.
SWEEP_GRACE = timedelta(minutes=30)

#: Names of missing targets that a reason lists at most.
MAX_NAMES = 3

_SURPLUS: Mapping[State, str] = {
    "abandoned": "the draft of an abandoned tag",
    "published": "a draft beside the published release",
    "pending": "a draft beside the one that counts",
}


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A pending snapshot, as it was observed."""

    state: TagState
    began: datetime  #: when it was tagged
    drafted: bool  #: whether it has a draft
    runs: Sequence[Run] = ()  #: of the build, newest first
    draft: Draft | None = None  #: None: not looked at
    lacking: tuple[str, ...] | None = None  #: of that draft: required targets without a wheel or a passing test

    @property
    def stage(self) -> Stage:
        """How far it has come."""
        if self.lacking == () and self.draft is not None:
            return "complete"
        if self.runs:
            return "building" if self.active else "built"
        return "drafted" if self.drafted else "tagged"

    @property
    def active(self) -> bool:
        """Whether a run of its build is not over."""
        return any(run.status != "completed" for run in self.runs)

    def is_late(self, now: datetime, config: ReleaseConfig) -> bool:
        """Whether its deadline has passed."""
        return now >= self.began + timedelta(hours=config.deadline)

    def is_due(self, now: datetime, config: ReleaseConfig) -> bool:
        """Whether its draft is to be looked at: it waits for no run."""
        return self.drafted and (not self.active or self.is_late(now, config))


def plan_sweep(
    ledger: Ledger, config: ReleaseConfig, pending: Iterable[Pending], *, more: Iterable[SweepLine] = ()
) -> tuple[SweepLine, ...]:
    """The steps that all releases need, in order, and the releases that are left alone.

    :param pending: the pending snapshots
    :param more: lines that are not about one tag's draft and run
    """
    snapshots = [state for state in ledger.states if state.tag.kind == "snapshot"]
    alive = [
        state
        for state in snapshots
        if state.state == "published" or (state.state == "pending" and ledger.drafted(state.name))
    ]
    lines = [
        SweepLine(tag=state.name, action="delete", reason=_SURPLUS[state.state], step=DeleteDrafts(state))
        for state in ledger.states
        if len(ledger.drafted(state.name)) > (state.state == "pending")
        and (state.state == "abandoned" or state.tag.kind == "snapshot")
    ]
    lines += [_decide(found, ledger.now, config, alive) for found in pending]
    lines += more
    lines += [
        SweepLine(tag=state.name, action="blocked", reason="pending; numbered releases are left to a person")
        for state in ledger.states
        if state.tag.kind == "numbered" and state.state == "pending" and ledger.drafted(state.name)
    ]
    order = get_args(SweepAction)
    return tuple(sorted(lines, key=lambda line: order.index(line.action)))


def _decide(pending: Pending, now: datetime, config: ReleaseConfig, alive: Sequence[TagState]) -> SweepLine:
    """Decide about a pending snapshot.

    :param alive: snapshots with a draft or a published release, oldest first
    """
    state, gaps = pending.state, _gaps(pending.lacking or ())
    ends = pending.began + timedelta(hours=config.superseded_after)
    end = f"; abandoned from {format_time(ends)} on, if there is a newer one"
    superseded = _superseded(pending, now, config, alive)

    def line(action: SweepAction, reason: str, step: Step | None = None, otherwise: Abandon | None = None) -> SweepLine:
        assert step is None or any((pending.stage, type(step)) == way[:2] for way in WAYS), (pending.stage, step)
        return SweepLine(tag=state.name, action=action, reason=reason, step=step, otherwise=otherwise)

    if pending.draft is not None and pending.stage == "complete":
        why = "its deadline has passed" if pending.active else "its build is over"
        reason = f"all required targets are there, and {why}"
        otherwise = Abandon(state, superseded) if superseded else None
        return line("publish", reason, Publish(pending.draft, config.workflow), otherwise)
    if superseded:
        return line("abandon", superseded + gaps, Abandon(state, superseded + gaps))
    if pending.stage == "building":
        until = format_time(pending.began + timedelta(hours=config.deadline))
        late = pending.is_late(now, config)
        return line("wait", f"its build is under way{gaps}" + ("" if late else f"; until {until}"))
    if pending.stage == "built":
        what = f"its build is over{gaps}" if pending.drafted else "someone deleted its draft"
        return line("blocked", what + end)
    if now < pending.began + SWEEP_GRACE:
        return line("wait", "it was tagged just now")
    # Its maker was killed; or made it for a job that another tag does, and was about to give it up.
    same = [other.name for other in alive if other.revision == state.revision and other.name != state.name]
    if same and not pending.drafted:
        return line("blocked", f"{same[-1]} has the same revision{end}")
    begun = "" if pending.drafted else "it has no draft, and "
    what = f"{begun}its build was not dispatched"
    return line("dispatch", what, Dispatch(config.workflow, state.name))


def _superseded(pending: Pending, now: datetime, config: ReleaseConfig, alive: Sequence[TagState]) -> str:
    """Why it makes way for a newer one; empty if it does not, as one whose build has not had its time yet."""
    deadline, limit = timedelta(hours=config.deadline), timedelta(hours=config.superseded_after)
    newer = [state.name for state in alive if state.tag > pending.state.tag]
    busy = any(run.status != "completed" and now < run.created_at + deadline for run in pending.runs)
    if not newer or now < pending.began + limit or busy:
        return ""
    return f"superseded by {newer[-1]}; not published within {config.superseded_after:g} hours"


def _gaps(lacking: Sequence[str]) -> str:
    """Which required targets are missing or fail."""
    if not lacking:
        return ""
    more = len(lacking) - MAX_NAMES
    return f"; missing or failing: {', '.join(lacking[:MAX_NAMES])}" + (f" and {more} more" if more > 0 else "")
