"""The release transaction: select, pin, tag, draft, dispatch; for snapshots and for numbered releases.

Read the forge, plan (:mod:`mlir_release.pinning.plan`, pure), apply one step, and repeat until no step remains. It may
be killed anywhere and run again, or run many times at once: the same job is finished, once.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from mlir_release import __version__
from mlir_release.errors import UsageError
from mlir_release.forge.base import BranchMoved, Taken
from mlir_release.host.races import Races
from mlir_release.model.pin import PIN_FILE, format_pin, numbered_branch
from mlir_release.model.release_tags import (
    TRAILER_REQUEST,
    TRAILER_REVISION,
    TRAILER_TOOLKIT,
    NumberedTag,
    base_version,
    canonical_version,
)
from mlir_release.model.targets import TARGETS_FILE
from mlir_release.model.trailers import format_message
from mlir_release.pinning.buildable import check_tools
from mlir_release.pinning.installable import Answers, ask
from mlir_release.pinning.plan import (
    CommitPin,
    CreateDraft,
    CreateTag,
    DeleteDraft,
    Dispatch,
    ForgeState,
    ReleasePlan,
    Request,
    Step,
    YieldTag,
    focus,
    make_plan,
)
from mlir_release.pinning.state import RECENT, abandon_tag, read_states, tag_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mlir_release.forge.base import Forge, Release
    from mlir_release.forge.services import Run
    from mlir_release.model.llvm_facts import LlvmFacts
    from mlir_release.model.matrix import Matrix
    from mlir_release.model.pin import PinFacts
    from mlir_release.model.release_tags import ReleaseTag
    from mlir_release.model.targets import ReleaseConfig
    from mlir_release.pinning.upstream import Revision

#: Seconds to wait for the draft of another process's tag, with a read after each: that process may have seen a rival
#: and be about to abandon its tag (see :mod:`mlir_release.pinning.plan`). After that it is assumed to be dead.
PATIENCE = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,99}")

Action = Literal["nothing-to-do", "under-way", "resumed", "started", "planned"]


@dataclass(frozen=True, kw_only=True)
class TransactionOutcome:
    """What a transaction did, or, ``planned``, would do."""

    action: Action
    tag: str
    revision: str  #: of llvm-project
    wheel_version: str
    branch: str
    commit: str | None  #: of the release repository; None while it is only planned
    steps: tuple[str, ...]  #: done, or to be done, in order
    notes: tuple[str, ...] = ()  #: what a person should look at
    green: Mapping[str, object] | None = None  #: the commits that policy ``green`` looked at
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


def default_request_id() -> str:
    """The id of the GitHub run (which re-runs keep), else a unique one."""
    run = os.environ.get("GITHUB_RUN_ID")
    return f"run-{run}" if run else f"local-{uuid.uuid4().hex[:16]}"


def snapshot(
    forge: Forge,
    revision: Revision,
    matrix: Matrix,
    *,
    request_id: str | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> TransactionOutcome:
    """Make a snapshot of ``revision``, or resume the one that was begun.

    :param matrix: of the branch; its targets must be able to be made of the revision
    :param request_id: recorded in the tag; with ``force``, what tells one forced snapshot from another; None: that of
        :func:`default_request_id`
    :param force: make another one of a revision that has one; the same ``request_id`` resumes instead
    :raises UsageError: ``branch-missing``, ``option-invalid``, ``revision-unsuitable``, and those of
        :meth:`Revision.facts`
    :raises NeedsPersonError: ``numbers-exhausted``
    :raises VerificationError: if the tag to resume is not of a pin commit (:mod:`~mlir_release.pinning.pinned`)
    :raises ConflictError: if the forge keeps changing meanwhile
    """
    request = _request(revision, matrix.release, request_id, force=force)
    return _Transaction(forge, request, revision, matrix).run(dry_run=dry_run)


def number(
    forge: Forge,
    version: str,
    revision: Revision,
    matrix: Matrix,
    *,
    request_id: str | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> TransactionOutcome:
    """Make a numbered release of ``version`` from ``revision``, or resume the one that was begun.

    The pin goes to the branch ``release/<version>``. Errors as
    :func:`snapshot`, and :class:`UsageError` ``option-invalid`` and ``revision-unsuitable`` (from the
    version in the revision's own tree), NeedsPersonError ``release-pending``.
    """
    version = canonical_version(version)
    request = _request(revision, matrix.release, request_id, force=force)
    request = replace(request, branch=numbered_branch(version), version=version)
    return _Transaction(forge, request, revision, matrix).run(dry_run=dry_run)


def _request(revision: Revision, config: ReleaseConfig, request_id: str | None, *, force: bool) -> Request:
    if request_id is not None and not _REQUEST_ID.fullmatch(request_id):
        raise UsageError(
            "option-invalid",
            f"{request_id!r} can't be a request id",
            why="it is recorded on one line of the tag",
            remedy="use up to 100 letters, digits and . _ : @ / + -",
        )
    return Request(
        revision=revision.sha,
        request_id=default_request_id() if request_id is None else request_id,
        branch=config.pins,
        base_branch=config.branch,
        workflow=config.workflow,
        force=force,
    )


def open_draft(forge: Forge, tag: ReleaseTag, revision: str) -> Release:
    """Open the draft of a tag. ``revision``: of llvm-project"""
    return forge.create_draft(
        str(tag),
        title=str(tag),
        body=f"Being built from llvm-project {revision}.\n",
        prerelease=not (isinstance(tag, NumberedTag) and "rc" not in tag.version),
    )


class _Transaction:
    """One request on one forge, and what this process itself has made for it."""

    def __init__(self, forge: Forge, request: Request, revision: Revision, matrix: Matrix) -> None:
        self.forge = forge
        self.request = request
        self.revision = revision
        self.matrix = matrix
        self.pinned: str | None = None
        self.made: str | None = None  #: about which we have not looked again
        self.dispatched: dict[str, Run | None] = {}  #: by tag; the run may not be listed yet
        self.known: dict[str, PinFacts | None] = {}  #: about commits

    def run(self, *, dry_run: bool) -> TransactionOutcome:
        done: list[str] = []
        created: set[str] = set()
        notes: dict[str, None] = {}
        patience, waits = iter(PATIENCE), 0
        races = Races(where=self.forge.description)
        while True:
            world, plan = self.look()
            notes |= dict.fromkeys(plan.notes)
            tag = str(plan.tag)
            if plan.verdict == "published":
                return self.outcome("nothing-to-do", plan, world, done, notes)
            if plan.verdict == "start":
                notes |= dict.fromkeys(self.exclusions)
            if dry_run and plan.steps:
                return self.outcome("planned", plan, world, [str(step) for step in plan.steps], notes)
            if not plan.steps:
                action: Action = "started" if tag in created else "resumed" if done else "under-way"
                return self.outcome(action, plan, world, done, notes)
            step = plan.steps[0]
            if isinstance(step, CreateDraft) and self.made_by_another(tag, world) and (pause := next(patience, 0)):
                time.sleep(pause)
                continue
            # Another process may have dispatched a run, and been killed, before the run is listed.
            if isinstance(step, Dispatch) and tag not in created and self.forge.await_runs(waits):
                waits += 1
                continue
            try:
                self.apply(step)
            except (BranchMoved, Taken) as error:
                if isinstance(error, BranchMoved):
                    self.pinned = None  # no tag may name a pin commit on an older base
                races.retry(str(step), error)
                continue
            done.append(str(step))
            if isinstance(step, CreateTag):
                created.add(tag)

    @cached_property
    def facts(self) -> LlvmFacts:
        """Of the revision. Asked for only if a tag is to be made, and before anything is: upstream must be read.

        :raises UsageError: ``revision-unsuitable``, and those of :meth:`Revision.facts`
        """
        facts, version = self.revision.facts(), self.request.version
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
        """Where the wheels' requirements can be met, by the index; asked for as :attr:`facts` are."""
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
                where=TARGETS_FILE,
                why="; ".join(shown),
                remedy="add a CPython that this revision supports to targets.toml, relax a requirement in its "
                "[requires], or choose another revision",
            )
        return (*shown, *unread, *self.answers.unknown)

    def made_by_another(self, tag: str, world: ForgeState) -> bool:
        """Whether a tag was made for another request than ours."""
        return any(state.name == tag and state.request_id != self.request.request_id for state in world.states)

    def look(self) -> tuple[ForgeState, ReleasePlan]:
        """Observe and plan."""
        world = self.observe()
        plan = make_plan(self.request, world)
        # A process that makes a tag for the same job from now on sees ours and abandons its own.
        self.made = None
        return world, plan

    def observe(self) -> ForgeState:
        """Read what planning needs. The tags come before the releases: a release can't be older than its tag.

        What does not concern the request is not looked up: two thousand old releases cost nothing.
        """
        forge, request = self.forge, self.request
        tags, rows = forge.tags(), forge.recent(RECENT)
        every = read_states(tags, ())
        known = [state for state in every if request.concerns(state)]
        names = {state.name for state in known if request.version is not None or request.is_for(state)}
        published = {name for name in sorted(names) if forge.published(name) is not None}
        mine = [state for state in read_states(tags, published) if state.name in names]
        pending = [state.name for state in mine if request.is_for(state) and state.state == "pending"]
        drafts = [draft for name in pending for draft in forge.drafts(name)]
        drafted = {row.tag for row in rows if row.draft}
        gone = {state.name for state in known if state.state == "abandoned"} - published
        orphans = [forge.refresh(row) for row in rows if row.draft and row.tag in gone]
        head = forge.head(request.branch)
        chosen = focus(request, mine, drafts)
        resumed = None if chosen is None or chosen.state == "published" else chosen
        return ForgeState(
            now=forge.now(),
            head=head,
            base_head=forge.head(request.base_branch),
            tag_names=frozenset(tag.name for tag in tags),
            allocated=[state.tag for state in every],
            states=mine,
            drafts=drafts,
            orphans=[draft for draft in orphans if draft is not None and draft.draft],
            others=[s for s in known if s.state == "pending" and s.name in drafted - names],
            runs=forge.runs(request.workflow, ref=resumed.name) if resumed else (),
            focus_facts=self.facts_about(resumed.commit) if resumed else None,
            head_facts=self.facts_about(head) if head and not chosen and self.pins_revision(head) else None,
            dispatched=resumed is not None and resumed.name in self.dispatched,
            pinned=self.pinned,
            made=self.made,
        )

    def facts_about(self, commit: str) -> PinFacts | None:
        """What the forge says about a commit; asked once, because a branch that only moves forward does not undo it."""
        if commit not in self.known:
            self.known[commit] = self.forge.pin_facts(commit)
        return self.known[commit]

    def pins_revision(self, head: str) -> bool:
        """Whether the branch's head pins our revision, by a commit that is not ours."""
        return self.pinned is None and self.forge.read(PIN_FILE, commit=head) == format_pin(self.request.revision)

    def apply(self, step: Step) -> None:
        """Do one step. :raises BranchMoved: or :raises Taken: if another process was faster"""
        forge, request = self.forge, self.request
        match step:
            case CommitPin():
                self.pinned = forge.commit(
                    step.branch,
                    expected=step.expected,
                    base=step.base,
                    files={PIN_FILE: format_pin(step.revision)},
                    message=format_message(
                        f"Pin llvm-project {step.revision[:12]}",
                        self.revision.subject,
                        {
                            TRAILER_REVISION: step.revision,
                            TRAILER_REQUEST: request.request_id,
                            TRAILER_TOOLKIT: __version__,
                        },
                    ),
                )
            case CreateTag():
                assert step.commit is not None, "a tag is made after its pin commit"
                message = tag_message(
                    step.tag,
                    revision=step.revision,
                    request_id=request.request_id,
                    wheel_version=step.wheel_version,
                    toolkit_version=__version__,
                    facts=self.facts,
                    excluded=self.answers.reasons,
                )
                forge.create_tag(str(step.tag), step.commit, message)
                self.made = str(step.tag)
            case YieldTag():
                reason = f"{step.winner} does the same job"
                abandon_tag(forge, step.state, reason=reason, by=forge.whoami())
            case DeleteDraft():
                forge.delete_draft(step.release)
            case CreateDraft():
                open_draft(forge, step.tag, step.revision)
            case Dispatch():
                self.dispatched[str(step.tag)] = forge.dispatch(step.workflow, ref=str(step.tag), inputs={})

    def outcome(
        self, action: Action, plan: ReleasePlan, world: ForgeState, steps: Sequence[str], notes: Iterable[str]
    ) -> TransactionOutcome:
        others = [
            f"{state.name} (llvm-project {state.revision[:12]}) is pending too; if nobody waits for it: "
            f"mlir-release release abandon {state.name}"
            for state in (*world.states, *world.others)
            if state.state == "pending" and state.name != str(plan.tag)
        ]
        run = self.dispatched.get(str(plan.tag))
        return TransactionOutcome(
            action=action,
            tag=str(plan.tag),
            revision=plan.revision,
            wheel_version=plan.wheel_version,
            branch=self.request.branch,
            commit=plan.commit,
            steps=tuple(steps),
            notes=(*notes, *others),
            run=run.url if run is not None else "",
        )
