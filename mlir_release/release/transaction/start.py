"""The release transaction: pin, tag, draft, dispatch; for snapshots and for numbered releases.

Read the forge, plan (:mod:`mlir_release.release.transaction.tend`, pure), apply one step, and repeat until no step
remains. It may be killed anywhere and run again, or run many times at once: the same job is finished, once.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from mlir_release import __version__
from mlir_release.ground.documents.trailers import format_message
from mlir_release.ground.errors import UsageError
from mlir_release.ground.llvm.llvm_version import base_version, canonical_version
from mlir_release.ground.programs.races import Races
from mlir_release.ground.python.cpython import DEFAULT_PYTHON
from mlir_release.ground.python.locked import read_lock
from mlir_release.release.forge.base import BranchMoved, Taken
from mlir_release.release.model.matrix import compiler_too_old
from mlir_release.release.model.pin_commit import numbered_branch
from mlir_release.release.model.release_tags import (
    TRAILER_REQUEST,
    TRAILER_REVISION,
    TRAILER_TOOLKIT,
    NumberedTag,
    SnapshotTag,
)
from mlir_release.release.pinning.installable import Answers, ask
from mlir_release.release.pinning.state import tag_message
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.steps import CreateDraft, CreateTag, Dispatch, apply
from mlir_release.release.transaction.tend import also_pending, plan_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mlir_release.ground.llvm.llvm_facts import LlvmFacts
    from mlir_release.ground.llvm.upstream import Revision
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.model.matrix import Matrix
    from mlir_release.release.model.release_tags import ReleaseTag
    from mlir_release.release.pinning.state import TagState
    from mlir_release.release.transaction.tend import ReleasePlan


_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}")


def default_request_id() -> str:
    """The id of the GitHub run (which re-runs keep), else a unique one."""
    run = os.environ.get("GITHUB_RUN_ID")
    return f"run-{run}" if run else f"local-{uuid.uuid4().hex[:16]}"


def check_request_id(given: str) -> None:
    """Refuse what can't be a request id. :raises UsageError: ``option-invalid``"""
    if not _REQUEST_ID.fullmatch(given):
        raise UsageError(
            "option-invalid",
            f"{given!r} can't be a request id",
            why="it is recorded on one line of the tag",
            remedy="use up to 100 letters, digits and . _ : @ / + -",
        )


def tools_of_all_jobs() -> Mapping[str, str]:
    """The versions of the tools that configure LLVM in every job, by the names in ``model.llvm_facts.BUILD_TOOLS``."""
    (cmake,) = (pin.version for pin in read_lock() if pin.name == "cmake")
    return {"CMake": cmake, "Python": DEFAULT_PYTHON.version}


def check_tools(matrix: Matrix, facts: LlvmFacts, sha: str) -> tuple[str, ...]:
    """Refuse a revision that the jobs' tools can't build for something required, or for no target at all.

    :param sha: of the revision
    :returns: notes about demands that could not be read, and so refuse nothing
    :raises UsageError: ``revision-unsuitable``
    """
    found = [f"LLVM {facts.version} needs {demand}" for demand in facts.unmet(tools_of_all_jobs())]
    too_old = {runtime.name: compiler_too_old(runtime, facts) for runtime in matrix.runtimes}
    required = {wheel.runtime.name for wheel in matrix.wheels if wheel.required}
    if all(too_old.values()):
        required = set(too_old)
    found += [reason for name, reason in too_old.items() if reason and name in required]
    if found:
        raise UsageError(
            "revision-unsuitable",
            f"llvm-project {sha[:12]} demands newer tools than the jobs have; nothing is tagged",
            where=matrix.file,
            why="; ".join(found),
            remedy="lock a newer CMake (requirements/builds.in, then tools/lock_builds.py), use a runner or an image "
            f"with a newer compiler and write its version into {matrix.file}, or choose an older revision",
        )
    unread = facts.unread_tools
    return (f"its tree does not say which {', '.join(unread)} it needs; nothing is refused for that",) if unread else ()


@dataclass(kw_only=True, eq=False)
class Request:
    """A request for a release. ``version``: the canonical LLVM version of a numbered release; None: a snapshot."""

    revision: Revision
    matrix: Matrix  #: of the protected branch; of the version's line
    request_id: str
    version: str | None = None
    force: bool = False
    only: str = ""  #: a filter of the targets that the run it dispatches builds; empty: all

    @property
    def branch(self) -> str:
        """The branch for the pin commit: that of all snapshots, or the numbered version's own."""
        return self.matrix.release.pins if self.version is None else numbered_branch(self.version)

    def concerns(self, state: TagState) -> bool:
        """Whether ``state`` is of this request's kind: a snapshot, or a numbered release of the same version."""
        if self.version is None:
            return isinstance(state.tag, SnapshotTag)
        return isinstance(state.tag, NumberedTag) and state.tag.version == self.version

    def is_for(self, state: TagState) -> bool:
        """Whether ``state`` is this job: the same revision, or, where another is forced, the same request."""
        same = state.request_id == self.request_id if self.force else state.revision == self.revision.sha
        return self.concerns(state) and same

    @cached_property
    def facts(self) -> LlvmFacts:
        """The facts of the revision. They are read from upstream if a tag is to be made, before anything is made.

        :raises UsageError: ``revision-unsuitable``, and those of :meth:`Revision.facts`
        """
        facts, version = self.revision.facts(), self.version
        if version is not None and base_version(version) != base_version(facts.version):
            raise UsageError(
                "revision-unsuitable",
                f"llvm-project {self.revision.sha[:12]} is LLVM {facts.version}, not {version}",
                why="the tag and the wheels would carry a version that their content is not",
                remedy=f"number it {'.'.join(map(str, base_version(facts.version)))}, or give another --revision",
            )
        return facts

    @cached_property
    def answers(self) -> Answers:
        """The index's answers on where the wheels' requirements can be met. It is asked when :attr:`facts` are read."""
        return ask(self.matrix.of_revision(self.facts), self.facts)

    @cached_property
    def exclusions(self) -> tuple[str, ...]:
        """Which CPythons of the matrix get no wheel, and why.

        :raises UsageError: ``revision-unsuitable``
        """
        unread = check_tools(self.matrix, self.facts, self.revision.sha)
        matrix = self.matrix.of_revision(self.facts).drop_unresolvable(self.answers.reasons).with_abi3(self.facts)
        reasons: dict[str, dict[str, None]] = {}
        for row in matrix.excluded:
            reasons.setdefault(row.reason, {})[row.wheel.interpreter] = None
        shown = tuple(f"no wheels for {', '.join(pythons)}: {reason}" for reason, pythons in reasons.items())
        if shown and not matrix.wheels:
            raise UsageError(
                "revision-unsuitable",
                f"no target of the build matrix can be made of llvm-project {self.revision.sha[:12]}",
                where=matrix.file,
                why="; ".join(shown),
                remedy=f"add a CPython that this revision supports to {matrix.file}, relax a requirement in its "
                "[requires], or choose another revision",
            )
        return (*shown, *unread, *self.answers.unknown)

    def pin_message(self) -> str:
        """The message of the pin commit."""
        sha = self.revision.sha
        trailers = {TRAILER_REVISION: sha, TRAILER_REQUEST: self.request_id, TRAILER_TOOLKIT: __version__}
        return format_message(f"Pin llvm-project {sha[:12]}", self.revision.subject, trailers)

    def tag_message(self, tag: ReleaseTag, wheel_version: str) -> str:
        """The message of the tag, which makes it ours. Upstream is read for it."""
        return tag_message(
            tag,
            revision=self.revision.sha,
            request_id=self.request_id,
            wheel_version=wheel_version,
            toolkit_version=__version__,
            revision_date=self.revision.date,
            facts=self.facts,
            excluded=self.answers.reasons,
        )


# -- the transaction ---------------------------------------------------------------------------------------------------

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
    only: str = "",
    dry_run: bool = False,
) -> TransactionOutcome:
    """Make a release of ``revision``, or resume the one that was begun.

    :param matrix: of the branch; its targets must be able to be made of the revision
    :param version: of LLVM, for a numbered release, which is pinned on the branch ``release/<version>``; None: a
        snapshot
    :param request_id: recorded in the tag; with ``force``, what tells one forced release from another; None: that of
        :func:`~mlir_release.release.transaction.start.default_request_id`
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
        only=only,
    )
    ledger = Ledger(forge)
    done: list[str] = []
    created: set[str] = set()
    notes: dict[str, None] = {}
    patience, waits = iter(DRAFT_WAIT), 0
    races = Races(where=forge.description)
    while True:
        plan = look(ledger, request)
        tag = str(plan.tag)
        notes |= dict.fromkeys(plan.notes)
        if plan.found == "published":
            return _outcome("nothing-to-do", plan, ledger, request, done, notes)
        if plan.found is None:
            notes |= dict.fromkeys(request.exclusions)
        if not plan.steps:
            action: Ending = "started" if tag in created else "resumed" if done else "under-way"
            return _outcome(action, plan, ledger, request, done, notes)
        if dry_run:
            return _outcome("planned", plan, ledger, request, [str(step) for step in plan.steps], notes)
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


def _outcome(
    action: Ending,
    plan: ReleasePlan,
    ledger: Ledger,
    request: Request,
    steps: Sequence[str],
    notes: Iterable[str],
) -> TransactionOutcome:
    others = [
        f"{state.name} (llvm-project {state.revision[:12]}) is pending too; if nobody waits for it: "
        f"mlir-release release abandon {state.name}"
        for state in also_pending(ledger, request)
        if state.name != str(plan.tag)
    ]
    run = ledger.made.runs.get(str(plan.tag))
    return TransactionOutcome(
        action=action,
        tag=str(plan.tag),
        revision=plan.revision,
        wheel_version=plan.wheel_version,
        branch=request.branch,
        commit=plan.commit,
        steps=tuple(steps),
        notes=(*notes, *others),
        run=run.url if run is not None else "",
    )
