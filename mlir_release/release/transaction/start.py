"""The release transaction: pin, tag, draft, dispatch; for snapshots and for numbered releases.

Read the forge, plan (:mod:`mlir_release.release.transaction.tend`, pure), apply one step, and repeat until no step
remains. It may be killed anywhere and run again, or run many times at once: the same job is finished, once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mlir_release.ground.llvm.llvm_version import canonical_version
from mlir_release.ground.programs.races import Races
from mlir_release.release.forge.base import BranchMoved, Forge, Taken
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.request import Request, check_request_id, default_request_id
from mlir_release.release.transaction.steps import CreateDraft, CreateTag, Dispatch, apply
from mlir_release.release.transaction.tend import ReleasePlan, also_pending, plan_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.ground.llvm.upstream import Revision
    from mlir_release.release.model.matrix import Matrix

#: Seconds to wait for the draft of another process's tag, with a read after each: that process may have seen a rival
#: and be about to abandon its tag (see :mod:`mlir_release.release.transaction.tend`). After that it is assumed to be
#: dead.
DRAFT_WAIT = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)

Ending = Literal["nothing-to-do", "under-way", "resumed", "started", "planned"]


@dataclass(frozen=True, kw_only=True)
class TransactionOutcome:
    """The steps that a transaction did, or, if it is ``planned``, would do."""

    action: Ending
    tag: str
    revision: str  #: of llvm-project
    wheel_version: str
    branch: str
    commit: str | None  #: of the release repository; None while it is only planned
    steps: tuple[str, ...]  #: done, or to be done, in order
    notes: tuple[str, ...] = ()  #: what a person should look at
    green: Mapping[str, object] | None = None  #: the commits that policy ``green`` looked at
    pin_of: Mapping[str, object] | None = None  #: the project's pin that policy ``pin-of`` took
    run: str = ""  #: address of the run that was dispatched, where the forge tells it

    def text(self) -> str:
        """A line that says it all, the steps, the notes."""
        job = f"{self.tag} (llvm-project {self.revision[:12]}, wheels {self.wheel_version})"
        headline = {
            "nothing-to-do": f"nothing to do: {job} is published",
            "under-way": f"nothing to do: {job} is pending and its build is under way or done",
            "resumed": f"resumed {job}",
            "started": f"started {job}",
            "planned": f"plan for {job}; nothing is changed",
        }[self.action]
        run = [f"  run: {self.run}"] if self.run else []
        return "\n".join(
            [headline, *(f"  - {step}" for step in self.steps), *run, *(f"  note: {n}" for n in self.notes)]
        )


def start(
    forge: Forge,
    revision: Revision,
    matrix: Matrix,
    *,
    version: str | None = None,
    request_id: str | None = None,
    force: bool = False,
    only: str | None = None,
    dry_run: bool = False,
) -> TransactionOutcome:
    """Make a release of ``revision``, or resume the one that was begun.

    :param matrix: of the branch; its targets must be able to be made of the revision
    :param version: of LLVM, for a numbered release, which is pinned on the branch ``release/<version>``; None: a
        snapshot
    :param request_id: recorded in the tag; with ``force``, what tells one forced release from another; None: that of
        :func:`~mlir_release.release.transaction.request.default_request_id`
    :param force: make another one of a revision that has one; the same ``request_id`` resumes instead
    :param only: a filter of the targets that are built first; the release still needs the others
    :raises UsageError: ``branch-missing``, ``option-invalid``, ``revision-unsuitable``, and those of
        :meth:`Revision.facts`
    :raises NeedsPersonError: ``numbers-exhausted``, ``release-pending``
    :raises VerificationError: if the tag to resume is not of a pin commit (:mod:`~mlir_release.release.pinning.pinned`)
    :raises ConflictError: if the forge keeps changing meanwhile
    """
    version = canonical_version(version) if version is not None else None
    if request_id is not None:
        check_request_id(request_id)
    if only:
        matrix.only(only)  # refused before anything is made
    request = Request(
        revision=revision,
        matrix=matrix,
        request_id=default_request_id() if request_id is None else request_id,
        version=version,
        force=force,
        only=only or "",
    )
    ledger = Ledger(forge)
    done: list[str] = []
    created: set[str] = set()
    notes: dict[str, None] = {}
    patience, waits = iter(DRAFT_WAIT), 0
    races = Races(where=forge.description)

    def outcome(action: Ending, steps: Sequence[str]) -> TransactionOutcome:
        others = [
            f"{state.name} (llvm-project {state.revision[:12]}) is pending too; if nobody waits for it: "
            f"mlir-release release abandon {state.name}"
            for state in also_pending(ledger, request)
            if state.name != tag
        ]
        run = ledger.made.runs.get(tag)
        return TransactionOutcome(
            action=action,
            tag=tag,
            revision=plan.revision,
            wheel_version=plan.wheel_version,
            branch=request.branch,
            commit=plan.commit,
            steps=tuple(steps),
            notes=(*notes, *others),
            run=run.url if run is not None else "",
        )

    while True:
        plan = look(ledger, request)
        tag = str(plan.tag)
        notes |= dict.fromkeys(plan.notes)
        if plan.found == "published":
            return outcome("nothing-to-do", done)
        if plan.found is None:
            notes |= dict.fromkeys(request.exclusions)
        if not plan.steps:
            return outcome("started" if tag in created else "resumed" if done else "under-way", done)
        if dry_run:
            return outcome("planned", [str(step) for step in plan.steps])
        step = plan.steps[0]
        others = [state for state in ledger.states if state.name == tag and state.request_id != request.request_id]
        if isinstance(step, CreateDraft) and others and (pause := next(patience, 0)):
            time.sleep(pause)
        # Another process may have dispatched a run, and been killed, before the run is listed.
        elif isinstance(step, Dispatch) and tag not in created and forge.await_runs(waits):
            waits += 1
        else:
            try:
                apply(ledger, step)
            except (BranchMoved, Taken) as error:
                if isinstance(error, BranchMoved):
                    ledger.made.pin = None  # no tag may name a pin commit on an older base
                races.retry(str(step), error)
            else:
                done.append(str(step))
                if isinstance(step, CreateTag):
                    created.add(tag)
        ledger = ledger.again()


def look(ledger: Ledger, request: Request) -> ReleasePlan:
    """Plan what remains. A tag that this process has made is looked at once, with its rivals."""
    plan = plan_request(ledger, request)
    # A process that makes a tag for the same job from now on sees ours and abandons its own.
    ledger.made.tag = ""
    return plan
