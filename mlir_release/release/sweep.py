"""Looking after pending releases: publish what is complete, abandon what is superseded, complete what was begun.

The plan is in :mod:`.sweep_plan`. Every step can be repeated, and one that fails does not stop the others. What another
process did meanwhile is no failure: the next sweep sees it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from mlir_release.console import console
from mlir_release.errors import NeedsPersonError, ReleaseError, VerificationError
from mlir_release.foreign import markdown, table
from mlir_release.forge.files import matrix_of_branch, read_yanks
from mlir_release.pinning.pinned import check_pinned
from mlir_release.pinning.state import ABANDONED_PREFIX, RECENT, abandon_tag, read_states
from mlir_release.pinning.transaction import open_draft
from mlir_release.release.draft import Draft
from mlir_release.release.latest import LATEST_WORKFLOW, newest_snapshot, renewal_due
from mlir_release.release.publish import PAGES_WORKFLOW, dispatch_pages, publish
from mlir_release.release.release_assets import find_release
from mlir_release.release.signed import is_required
from mlir_release.release.sweep_plan import PATIENCE, Item, Limits, Observed, Pending, make_plan

if TYPE_CHECKING:
    from mlir_release.forge.base import Forge, Release, ReleaseRow
    from mlir_release.pinning.state import TagState

#: Errors that say what a draft is like, or what another process did to it meanwhile. The sweep reports them.
FINDINGS = frozenset({"release-not-ready", "changed-meanwhile", "tag-missing", "tag-abandoned"})

#: Has the release's workflow build nothing, and publish what is in the draft, also while another run of it builds.
PUBLISH_ONLY = {"publish-only": "true"}

Result = Literal["", "done", "planned", "not yet", "failed"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the plan, and how it ended."""

    item: Item
    result: Result = ""
    detail: str = ""  #: what was done, or why it was not
    error: ReleaseError | None = None  #: of one that failed

    def cells(self) -> tuple[str, ...]:
        """As :attr:`SweepOutcome.COLUMNS`."""
        return self.item.tag, self.item.action, self.result, self.detail or self.item.reason

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        error = self.error.as_json() if self.error else None
        item = {"tag": self.item.tag, "action": self.item.action, "reason": self.item.reason}
        return {**item, "result": self.result, "detail": self.detail, "error": error}


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """What a sweep found and did."""

    COLUMNS = ("tag", "action", "result", "why")

    rows: tuple[Row, ...]
    dry_run: bool = False

    @property
    def failures(self) -> tuple[ReleaseError, ...]:
        """The errors of the steps that failed."""
        return tuple(row.error for row in self.rows if row.error is not None)

    def text(self) -> str:
        """Where nothing is pending; else the table says it all."""
        return "" if self.rows else "nothing is pending"

    def markdown(self) -> str:
        """For the step summary."""
        rows = [[markdown(cell) for cell in row.cells()] for row in self.rows]
        return "### Sweep\n\n" + (table(self.COLUMNS, rows) if rows else self.text())

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        return {"dry_run": self.dry_run, "rows": [row.to_json() for row in self.rows]}


def sweep(forge: Forge, *, branch: str, dry_run: bool = False) -> SweepOutcome:
    """Look after all pending releases. Safe to repeat, to kill, and to run twice at once.

    :param branch: holds ``targets.toml``, whose limits apply; the pages are dispatched on it
    :raises ReleaseError: if the state of the repository can't be read; the failure of a step is in the outcome
    """
    with console.step("look at the pending releases"):
        world = _World(forge, branch)
        plan = make_plan(world.observed)
    steps = _Steps(world)
    rows = list(world.unreadable)
    for item in plan:
        if not item.is_step:
            rows.append(Row(item=item))
        elif dry_run:
            rows.append(Row(item=item, result="planned"))
        else:
            rows += steps.apply(item)
    return SweepOutcome(rows=tuple(rows), dry_run=dry_run)


def _failed(item: Item, error: ReleaseError) -> Row:
    console.warn(f"{item.tag}: {error}")
    return Row(item=item, result="failed", detail=f"{error.what} [{error.id}]", error=error)


# -- observing --------------------------------------------------------------------------------------------------------


class _World:
    """What planning needs, and the drafts that were read for it.

    One listing of tags and one page of releases; then a few lookups for each pending snapshot, of which
    ``superseded-after`` leaves a handful.
    """

    def __init__(self, forge: Forge, branch: str) -> None:
        self.forge = forge
        self.branch = branch
        self.config = matrix_of_branch(forge, branch).release
        self.limits = Limits.of(self.config)
        self.looked_at: dict[str, Draft] = {}
        self.unreadable: list[Row] = []
        self.now = forge.now()
        tags, self.rows = forge.tags(), forge.recent(RECENT)
        self.published = {row.tag for row in self.rows if not row.draft}
        self.drafts = Counter(row.tag for row in self.rows if row.draft)
        self.states = {state.name: state for state in read_states(tags, self.published)}
        self.observed = self._observe()

    def _observe(self) -> Observed:
        every = self.states.values()
        snapshots = [state for state in every if state.tag.kind == "snapshot"]
        return Observed(
            now=self.now,
            limits=self.limits,
            pending=[found for state in snapshots if (found := self._pending(state)) is not None],
            numbered=[
                state
                for state in every
                if state.tag.kind == "numbered" and state.state == "pending" and state.name in self.drafts
            ],
            alive=[
                state
                for state in snapshots
                if state.state != "abandoned" and (state.name in self.drafts or state.name in self.published)
            ],
            surplus=[
                state
                for state in every
                if self.drafts[state.name] > (state.state == "pending")
                and (state.state == "abandoned" or state.tag.kind == "snapshot")
            ],
            unserved=self._unserved(),
            pointer=self._pointer(),
        )

    def _pending(self, state: TagState) -> Pending | None:
        """A pending snapshot, looked at; None for a tag that is none, or that can't be read (which is reported)."""
        if state.state != "pending" or not (state.name in self.drafts or self._is_recent(state)):
            return None
        try:
            return self._look(state)
        except ReleaseError as error:
            self.unreadable.append(_failed(Item(tag=state.name, action="blocked", reason="it can't be read"), error))
            return None

    def _is_recent(self, state: TagState) -> bool:
        """Whether the rows would show a release of that tag: none is older than its tag."""
        oldest = self.rows[-1].created_at if len(self.rows) == RECENT else None
        return oldest is None or (state.created_at is not None and state.created_at > oldest)

    def _look(self, state: TagState) -> Pending | None:
        release = self._release(state.name)
        if release is not None and not release.draft:
            return None  # published meanwhile
        began = state.created_at or (self.now if release is None else release.created_at)
        runs = tuple(self.forge.runs(self.config.workflow, ref=state.name))
        found = Pending(state=state, began=began, drafted=release is not None, runs=runs)
        if release is None or not found.is_due(self.now, self.limits):
            return found
        draft = Draft.of(self.forge, state, release=release)
        self.looked_at[state.name] = draft
        return replace(found, lacking=draft.lacking_required(quick=True))

    def _release(self, tag: str) -> Release | None:
        """The draft of a tag that counts, or its release."""
        rows = [row for row in self.rows if row.draft and row.tag == tag]
        return self.forge.refresh(rows[0]) if len(rows) == 1 else find_release(self.forge, tag)

    def _unserved(self) -> ReleaseRow | None:
        """The newest published release of ours, unless a run of the pages has begun since (and has not failed)."""
        ours = [row for row in self.rows if row.tag in self.states]
        dated = [(row.published_at, row) for row in ours if row.published_at is not None]
        when, newest = max(dated, key=lambda pair: pair[0], default=(None, None))
        if when is None or when + PATIENCE > self.now:
            return None
        runs = self.forge.runs(PAGES_WORKFLOW, ref=self.branch)
        good = (run for run in runs if run.status != "completed" or run.conclusion == "success")
        return None if any(run.created_at >= when for run in good) else newest

    def _pointer(self) -> tuple[str, str] | None:
        """The newest snapshot, and why the pointer to it has to be signed, unless a run does so already."""
        if not is_required(self.forge, self.config.provenance):
            return None
        newest = newest_snapshot(self.rows, read_yanks(self.forge, self.branch))
        lifetime = timedelta(days=self.config.latest_lifetime_days)
        if newest is None:
            return None
        why = renewal_due(self.forge, newest.tag, branch=self.branch, lifetime=lifetime, now=self.now)
        runs = self.forge.runs(LATEST_WORKFLOW, ref=self.branch) if why else ()
        return (newest.tag, why) if why and all(run.status == "completed" for run in runs) else None


# -- applying ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Steps:
    """Does the steps of a plan, whatever other processes do meanwhile."""

    world: _World

    def apply(self, item: Item) -> list[Row]:
        """Do one step. What it is followed by is a row of its own."""
        try:
            detail = self._do(item)
        except ReleaseError as error:
            row = _failed(item, error)
            if error.id in FINDINGS:
                row = Row(item=item, result="not yet", detail=f"{error.what}: {error.why}".rstrip(": "))
            if item.otherwise and isinstance(error, VerificationError | NeedsPersonError):
                reason = f"{item.otherwise}; {error.what}"
                return [row, *self.apply(Item(tag=item.tag, action="abandon", reason=reason))]
            return [row]
        rows = [Row(item=item, result="done", detail=detail)]
        if item.action == "publish" and not detail:
            rows += self.apply(Item(tag=item.tag, action="pages", reason="it was published just now"))
        return rows

    def _do(self, item: Item) -> str:
        """Do one step. Returns what there is to say, if it is not what was planned."""
        forge, state = self.world.forge, self.world.states[item.tag]
        match item.action:
            case "delete":
                return self._delete(state)
            case "abandon":
                abandon_tag(forge, state, reason=item.reason, by=forge.whoami())
            case "dispatch":
                return self._dispatch(state)
            case "publish":
                published = publish(self.world.looked_at[item.tag])
                if published.unsigned:
                    # Only attest.yml signs. The workflow builds nothing, has it sign, and publishes.
                    forge.dispatch(self.world.config.workflow, ref=item.tag, inputs=PUBLISH_ONLY)
                    return f"dispatched {self.world.config.workflow}, which has the manifest signed and publishes"
                return "it was published already" if published.already else ""
            case "pages":
                dispatch_pages(forge, item.tag, branch=self.world.branch)
            case "latest":
                forge.dispatch(LATEST_WORKFLOW, ref=self.world.branch, inputs={})
        return ""

    def _delete(self, state: TagState) -> str:
        """Delete all drafts of an abandoned tag; of others, empty ones beside the one that counts."""
        forge, drafts = self.world.forge, self.world.forge.drafts(state.name)
        kept = []
        for number, draft in enumerate(drafts):
            if state.state == "abandoned" or (not draft.assets and (number > 0 or state.state == "published")):
                forge.delete_draft(draft)
            elif number > 0 or state.state == "published":
                kept.append(draft)
        return f"left {len(kept)} with assets: look at them, and delete them by hand" if kept else ""

    def _dispatch(self, state: TagState) -> str:
        """Open the draft if there is none, and dispatch the build."""
        forge, workflow = self.world.forge, self.world.config.workflow
        check_pinned(forge, state)
        if find_release(forge, state.name) is None:
            open_draft(forge, state.tag, state.revision)
        if forge.tag(ABANDONED_PREFIX + state.name) is not None:
            return self._delete(replace(state, state="abandoned"))
        if forge.runs(workflow, ref=state.name):
            return "another process dispatched it"
        forge.dispatch(workflow, ref=state.name, inputs={})
        return ""
