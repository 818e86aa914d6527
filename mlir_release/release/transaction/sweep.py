"""Looking after pending releases: publish what is complete, abandon what is superseded, complete what was begun.

The plan is in :mod:`.tend`. Every step can be repeated, and one that fails does not stop the others. What another
process did meanwhile is no failure: the next sweep sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.errors import NeedsPersonError, ReleaseError, VerificationError
from mlir_release.release.forge.files import matrix_of_branch, read_yanks
from mlir_release.release.judging.signed import is_required
from mlir_release.release.latest.latest import LATEST_WORKFLOW
from mlir_release.release.latest.latest_branch import renewal_due
from mlir_release.release.pinning.pinned import check_pinned
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.release_assets import find_release
from mlir_release.release.transaction.steps import PAGES_WORKFLOW, Dispatch, SweepLine, apply, pages
from mlir_release.release.transaction.tend import SWEEP_GRACE, Pending, finish, is_good, plan_sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.model.release_settings import ReleaseConfig
    from mlir_release.release.pinning.state import TagState

#: Errors that say what a draft is like, or what another process did to it meanwhile. The sweep reports them.
FINDINGS = frozenset({"release-not-ready", "changed-meanwhile", "tag-missing", "tag-abandoned"})


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """The findings of a sweep, and the steps that it did."""

    COLUMNS = ("tag", "action", "result", "why")

    rows: tuple[SweepLine, ...]
    dry_run: bool = False

    @property
    def failures(self) -> tuple[ReleaseError, ...]:
        """The errors of the steps that failed."""
        return tuple(row.error for row in self.rows if row.error is not None)

    def text(self) -> str:
        """A line if nothing is pending; else the table says it all."""
        return "" if self.rows else "nothing is pending"

    def cells(self) -> list[tuple[str, ...]]:
        """For people."""
        return [(row.tag, row.action, row.result, row.detail or row.reason) for row in self.rows]


def sweep(forge: Forge, *, branch: str, dry_run: bool = False) -> SweepOutcome:
    """Look after all pending releases. Safe to repeat, to kill, and to run twice at once.

    One listing of tags and one page of releases; then a few lookups for each pending snapshot, of which
    ``superseded-after`` leaves a handful.

    :param branch: holds ``targets.toml``, whose limits apply; the pages are dispatched on it
    :raises ReleaseError: if the state of the repository can't be read; the failure of a step is in the outcome
    """
    rows: list[SweepLine] = []
    with console.step("look at the pending releases"):
        config = matrix_of_branch(forge, branch).release
        ledger = Ledger(forge)
        pending: list[Pending] = []
        for state in ledger.states:
            try:
                pending += _look(ledger, state, config)
            except ReleaseError as error:
                rows.append(_failed(SweepLine(tag=state.name, action="blocked", reason="it can't be read"), error))
        more = [*_pages(ledger, branch), *_pointer(ledger, config, branch)]
        plan = plan_sweep(ledger, config, pending, more=more)
    for line in plan:
        if line.step is None:
            rows.append(line)
        elif dry_run:
            rows.append(replace(line, result="planned"))
        elif line.action == "pages" and any(row.action == "pages" and row.result == "done" for row in rows):
            pass  # for what was published just now; that run shows all
        else:
            rows += _do(ledger, line, branch)
    return SweepOutcome(rows=tuple(rows), dry_run=dry_run)


# -- observing --------------------------------------------------------------------------------------------------------


def _look(ledger: Ledger, state: TagState, config: ReleaseConfig) -> Iterator[Pending]:
    """A pending snapshot, with its draft if that waits for no run."""
    drafts, oldest = ledger.drafted(state.name), ledger.rows[-1].created_at if ledger.has_older else None
    # The rows would show its release, if it had one: none is older than its tag.
    shown = drafts or oldest is None or (state.created_at is not None and state.created_at > oldest)
    if state.tag.kind != "snapshot" or state.state != "pending" or not shown:
        return
    release = ledger.forge.refresh(drafts[0]) if len(drafts) == 1 else find_release(ledger.forge, state.name)
    if release is not None and not release.draft:
        return  # published meanwhile
    found = Pending(
        state=state,
        began=state.created_at or (ledger.now if release is None else release.created_at),
        drafted=release is not None,
        runs=ledger.runs(config.workflow, ref=state.name),
    )
    if release is not None and found.is_due(ledger.now, config):
        draft = Draft.of(ledger.forge, state, release=release)
        # Where required targets are missing altogether, no report need be read.
        lacking = draft.card(read=False).lacking_required or draft.card().lacking_required
        found = replace(found, draft=draft, lacking=lacking)
    yield found


def _pages(ledger: Ledger, branch: str) -> Iterator[SweepLine]:
    """The newest release or pending tag, unless a run of the pages has begun since (and has not failed).

    A tag is shown at once. A release has :data:`SWEEP_GRACE`, because ``release.yml`` ends with such a run, which shows
    new tags, too.
    """
    ours = {state.name for state in ledger.states}
    published = [(row.published_at, row.tag) for row in ledger.rows if row.published_at and row.tag in ours]
    begun = [(state.created_at, state.name) for state in ledger.states if state.state == "pending" and state.created_at]
    when, tag = max([*published, *begun], default=(None, ""))
    if when is None or (published and max(published)[0] + SWEEP_GRACE > ledger.now):
        return
    if any(is_good(run) and run.created_at >= when for run in ledger.runs(PAGES_WORKFLOW, ref=branch)):
        return
    if (when, tag) in begun:
        reason = "tagged, and the pages have not been generated since"
        yield SweepLine(tag=tag, action="pages", reason=reason, step=pages(branch))
    else:
        reason = "published, and the pages have not been generated since"
        yield SweepLine(tag=tag, action="pages", reason=reason, step=pages(branch, check=tag))


def _pointer(ledger: Ledger, config: ReleaseConfig, branch: str) -> Iterator[SweepLine]:
    """The pointer to the newest snapshot, if it has to be signed again and no run does so already."""
    if not is_required(ledger.forge, config.provenance):
        return
    yanks = read_yanks(ledger.forge, branch)
    newest = ledger.newest_published(yanks)
    why = renewal_due(ledger, newest, yanks, config, branch=branch) if newest else ""
    if why and all(run.status == "completed" for run in ledger.runs(LATEST_WORKFLOW, ref=branch)):
        yield SweepLine(tag=newest, action="latest", reason=why, step=Dispatch(LATEST_WORKFLOW, branch))


# -- applying ---------------------------------------------------------------------------------------------------------


def _do(ledger: Ledger, line: SweepLine, branch: str) -> list[SweepLine]:
    """Do one line, whatever other processes do meanwhile. What it is followed by is a line of its own."""
    assert line.step is not None
    try:
        if line.action == "dispatch" and isinstance(line.step, Dispatch):
            detail = _finish(ledger, line.tag, line.step.workflow)
        else:
            detail = apply(ledger, line.step)
    except ReleaseError as error:
        row = _failed(line, error)
        if error.id in FINDINGS:
            row = replace(line, result="not yet", detail=f"{error.what}: {error.why}".rstrip(": "))
        if line.otherwise is not None and isinstance(error, VerificationError | NeedsPersonError):
            step = replace(line.otherwise, reason=f"{line.otherwise.reason}; {error.what}")
            return [row, *_do(ledger, SweepLine(tag=line.tag, action="abandon", reason=step.reason, step=step), branch)]
        return [row]
    rows = [replace(line, result="done", detail=detail)]
    if line.action == "publish" and not detail:
        shown = pages(branch, check=line.tag)
        rows += _do(
            ledger, SweepLine(tag=line.tag, action="pages", reason="it was published just now", step=shown), branch
        )
    return rows


def _finish(ledger: Ledger, tag: str, workflow: str) -> str:
    """Do what a process that was killed left undone about a tag, each step after a new look."""
    (state,) = ledger.settled({tag})
    check_pinned(ledger.forge, state)
    while True:
        ledger = ledger.again()
        state = next(iter(ledger.settled({tag})), state)
        step = next(finish(ledger, state, workflow), None)
        if step is None or (isinstance(step, Dispatch) and ledger.runs(workflow, ref=tag)):
            meanwhile = "dispatched it" if state.state == "pending" else f"{state.state} it"
            return f"another process {meanwhile}"
        apply(ledger, step)
        if isinstance(step, Dispatch):
            return ""


def _failed(line: SweepLine, error: ReleaseError) -> SweepLine:
    console.warn(f"{line.tag}: {error}")
    return replace(line, result="failed", detail=f"{error.what} [{error.id}]", error=error)
