"""What becomes of pending releases when nobody looks after them, as a pure function of what was observed.

A pending snapshot ends in one of two ways: it is published as soon as its required targets are all there and its build
is over, or its deadline has passed; or, if it is older than ``superseded-after`` and a newer snapshot exists, it is
abandoned. In between, what a killed process left undone is completed. Numbered releases are reported only: they are
asked for by a person.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from mlir_release.model.manifest import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from mlir_release.forge.base import ReleaseRow
    from mlir_release.forge.services import Run
    from mlir_release.model.targets import ReleaseConfig
    from mlir_release.pinning.state import State, TagState

#: A process that has made a tag or published a release is given this long for its next step.
PATIENCE = timedelta(minutes=30)

#: Names of missing targets that a reason lists at most.
MAX_NAMES = 3

Action = Literal["delete", "abandon", "dispatch", "publish", "pages", "latest", "wait", "blocked"]

#: In this order: what frees something first, what takes long last; the last two change nothing.
ACTIONS: tuple[Action, ...] = ("delete", "abandon", "dispatch", "publish", "pages", "latest", "wait", "blocked")


_SURPLUS: Mapping[State, str] = {
    "abandoned": "the draft of an abandoned tag",
    "published": "a draft beside the published release",
    "pending": "a draft beside the one that counts",
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """``[release]`` of ``targets.toml``, as durations from a snapshot's tag."""

    deadline: timedelta
    superseded_after: timedelta

    @classmethod
    def of(cls, config: ReleaseConfig) -> Limits:
        """The limits of a release repository."""
        return cls(deadline=timedelta(hours=config.deadline), superseded_after=timedelta(hours=config.superseded_after))


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A pending release, as it was observed."""

    state: TagState
    began: datetime  #: when it was tagged
    drafted: bool  #: whether it has a draft
    runs: tuple[Run, ...] = ()  #: of the build, newest first
    lacking: tuple[str, ...] | None = None  #: required targets without a wheel or a passing test; None: not looked at

    @property
    def name(self) -> str:
        """The tag's."""
        return self.state.name

    @property
    def active(self) -> bool:
        """Whether a run of its build is not over."""
        return any(run.status != "completed" for run in self.runs)

    def is_late(self, now: datetime, limits: Limits) -> bool:
        """Whether its deadline has passed."""
        return now >= self.began + limits.deadline

    def is_old(self, now: datetime, limits: Limits) -> bool:
        """Whether it makes way for a newer one."""
        return now >= self.began + limits.superseded_after

    def is_due(self, now: datetime, limits: Limits) -> bool:
        """Whether it is to be looked at: it waits for no run."""
        return self.drafted and (not self.active or self.is_late(now, limits))

    def is_busy(self, now: datetime, limits: Limits) -> bool:
        """Whether a run is under way that has not had the time that a build is given: abandoned, it would be wasted."""
        return any(run.status != "completed" and now < run.created_at + limits.deadline for run in self.runs)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The state of a forge."""

    now: datetime  #: the forge's clock
    limits: Limits
    pending: Sequence[Pending]  #: snapshots, oldest first
    numbered: Sequence[TagState] = ()  #: pending numbered releases
    alive: Sequence[TagState] = ()  #: snapshots with a draft or a published release, oldest first
    surplus: Sequence[TagState] = ()  #: of tags with more drafts than they should have
    unserved: ReleaseRow | None = None  #: the newest published release, if no run of the pages has begun since
    pointer: tuple[str, str] | None = None  #: the newest snapshot, if the pointer has to be signed again, and why


@dataclass(frozen=True, kw_only=True)
class Item:
    """One line of the plan: what is done about a tag, and why."""

    tag: str
    action: Action
    reason: str
    otherwise: str = ""  #: of a publication: why it is abandoned if its files can't be verified

    @property
    def is_step(self) -> bool:
        """Whether something is to be done."""
        return self.action not in ("wait", "blocked")


def make_plan(observed: Observed) -> tuple[Item, ...]:
    """What is to be done, in order, and what is left alone."""
    items = sorted(_items(observed), key=lambda item: ACTIONS.index(item.action))
    return tuple(items)


def _items(observed: Observed) -> Iterator[Item]:
    for state in observed.surplus:
        yield Item(tag=state.name, action="delete", reason=_SURPLUS[state.state])
    for pending in observed.pending:
        yield _decide(pending, observed)
    if observed.unserved is not None:
        reason = "published, and the pages have not been generated since"
        yield Item(tag=observed.unserved.tag, action="pages", reason=reason)
    if observed.pointer is not None:
        tag, reason = observed.pointer
        yield Item(tag=tag, action="latest", reason=reason)
    for state in observed.numbered:
        yield Item(tag=state.name, action="blocked", reason="pending; numbered releases are left to a person")


def _decide(pending: Pending, observed: Observed) -> Item:
    now, limits = observed.now, observed.limits
    late, superseded = pending.is_late(now, limits), _superseded(pending, observed)
    if pending.lacking == ():
        why = "its deadline has passed" if pending.active else "its build is over"
        item = _item(pending, "publish", f"all required targets are there, and {why}")
        return replace(item, otherwise=superseded)
    if superseded:
        return _item(pending, "abandon", superseded + _gaps(pending))
    if pending.active:
        until = format_time(pending.began + limits.deadline)
        return _item(pending, "wait", f"its build is under way{_gaps(pending)}" + ("" if late else f"; until {until}"))
    if not pending.runs and now < pending.began + PATIENCE:
        return _item(pending, "wait", "it was tagged just now")
    if pending.runs and pending.drafted:
        return _item(pending, "blocked", f"its build is over{_gaps(pending)}{_end(pending, limits)}")
    return _unfinished(pending, observed)


def _superseded(pending: Pending, observed: Observed) -> str:
    """Why it makes way for a newer one; empty if it does not."""
    now, limits = observed.now, observed.limits
    newer = [state.name for state in observed.alive if state.tag > pending.state.tag]
    if not newer or not pending.is_old(now, limits) or pending.is_busy(now, limits):
        return ""
    return f"superseded by {newer[-1]}; not published within {limits.superseded_after / timedelta(hours=1):g} hours"


def _unfinished(pending: Pending, observed: Observed) -> Item:
    """About a tag whose maker was killed, or whose draft was deleted by hand."""
    if pending.runs:
        return _item(pending, "blocked", f"someone deleted its draft{_end(pending, observed.limits)}")
    same = [s.name for s in observed.alive if s.revision == pending.state.revision and s.name != pending.name]
    if same and not pending.drafted:
        reason = f"{same[-1]} has the same revision{_end(pending, observed.limits)}"
        return _item(pending, "blocked", reason)
    what = "its build was not dispatched" if pending.drafted else "it has no draft, and its build was not dispatched"
    return _item(pending, "dispatch", what)


def _item(pending: Pending, action: Action, reason: str) -> Item:
    return Item(tag=pending.name, action=action, reason=reason)


def _gaps(pending: Pending) -> str:
    """Which required targets are missing or fail."""
    if not pending.lacking:
        return ""
    names, more = pending.lacking[:MAX_NAMES], len(pending.lacking) - MAX_NAMES
    return f"; missing or failing: {', '.join(names)}" + (f" and {more} more" if more > 0 else "")


def _end(pending: Pending, limits: Limits) -> str:
    """When it ends without anybody."""
    return f"; abandoned from {format_time(pending.began + limits.superseded_after)} on, if there is a newer one"
