"""The steps by which a release is begun, built, published or given up, and the one place that does them.

Each step is safe to repeat. Its text says to people what it does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from mlir_release.ground.llvm.pin import PIN_FILE, format_pin
from mlir_release.release.model.release_tags import NumberedTag, ReleaseTag
from mlir_release.release.pinning.state import TagState, abandon_tag
from mlir_release.release.transaction.publish import publish

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlir_release.ground.errors import ReleaseError
    from mlir_release.release.forge.base import Release
    from mlir_release.release.transaction.draft import Draft
    from mlir_release.release.transaction.ledger import Ledger

#: Generates the pages, and checks the releases that they did not show before.
PAGES_WORKFLOW = "pages.yml"

#: Has the release's workflow build nothing, and publish what is in the draft, also while another run of it builds.
PUBLISH_ONLY = {"publish-only": "true"}


def build_only(only: str) -> Mapping[str, str]:
    """Inputs that have the release's workflow build a part, which is not published. ``only``: a filter; empty: all"""
    return {"only": only} if only else {}


@dataclass(frozen=True)
class CommitPin:
    """Pin the revision in the tree of ``base``, if the branch still is at ``expected`` (None: does not exist)."""

    branch: str
    expected: str | None
    base: str
    revision: str
    message: str

    def __str__(self) -> str:
        return f"pin llvm-project {self.revision[:12]} on {self.branch}, with the toolkit of {self.base[:12]}"


@dataclass(frozen=True)
class CreateTag:
    """Make the tag; ``commit`` is None while the pin commit before it is only planned."""

    tag: ReleaseTag
    commit: str | None
    wheel_version: str
    message: Callable[[], str] = field(compare=False)  #: asked for when it is made: it says what upstream's tree is

    def __str__(self) -> str:
        at = f" at {self.commit[:12]}" if self.commit else ""
        return f"create tag {self.tag}{at} (wheels {self.wheel_version})"


@dataclass(frozen=True)
class Abandon:
    """Record a tag as abandoned, and delete its drafts."""

    state: TagState
    reason: str

    def __str__(self) -> str:
        return f"abandon {self.state.name}, because {self.reason}"


@dataclass(frozen=True)
class DeleteDrafts:
    """Delete the drafts that a tag should not have (:func:`divide_drafts`)."""

    state: TagState

    def __str__(self) -> str:
        which = "drafts" if self.state.state == "abandoned" else "surplus empty drafts"
        return f"delete the {which} of {self.state.name}"


@dataclass(frozen=True)
class CreateDraft:
    """Open the draft release."""

    tag: ReleaseTag
    revision: str

    def __str__(self) -> str:
        return f"create the draft of {self.tag}"


@dataclass(frozen=True)
class Dispatch:
    """Start a workflow on a branch or tag."""

    workflow: str
    ref: str
    inputs: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"dispatch {self.workflow} on {self.ref}"


@dataclass(frozen=True)
class Publish:
    """Verify a draft and publish it; if its manifest is to be signed first, the workflow has that done."""

    draft: Draft
    workflow: str

    def __str__(self) -> str:
        return f"publish {self.draft.tag}"


Step = CommitPin | CreateTag | Abandon | DeleteDrafts | CreateDraft | Dispatch | Publish

#: How far a release tag of ours has come. ``built``: its run is over, and something required is missing or fails.
#: ``complete``: its draft has all that is required, and waits for no run.
Stage = Literal["tagged", "drafted", "building", "built", "complete", "published", "abandoned"]

_PENDING: tuple[Stage, ...] = ("tagged", "drafted", "building", "built", "complete")

#: The stages, and what leads from one to the next: a step, or an event. docs/design.md draws this table, and
#: :mod:`.tend` plans no other step. None: there is no tag yet; a pin commit is made before it.
WAYS: tuple[tuple[Stage | None, type[Step] | str, Stage], ...] = (
    (None, CreateTag, "tagged"),
    ("tagged", CreateDraft, "drafted"),
    ("tagged", Dispatch, "building"),
    ("drafted", Dispatch, "building"),
    ("building", "its run ends", "built"),
    ("building", "its run or its deadline ends, and all that is required is there", "complete"),
    ("built", Dispatch, "building"),
    ("built", "a person waives what is missing", "complete"),
    ("complete", Publish, "published"),
    *((stage, Abandon, "abandoned") for stage in _PENDING),
)


#: A sweep works in this order: it frees things first, and does last what takes long. The last two change nothing.
SweepAction = Literal["delete", "abandon", "dispatch", "publish", "pages", "latest", "wait", "blocked"]

Result = Literal["", "done", "planned", "not yet", "failed"]


@dataclass(frozen=True, kw_only=True)
class SweepLine:
    """A sweep's decision about a tag, with the reason, and how it ended. Without a step the tag is left alone."""

    tag: str
    action: SweepAction
    reason: str
    step: Step | None = None
    otherwise: Abandon | None = None  #: of a publication: what is done if its files can't be verified
    result: Result = ""
    detail: str = ""  #: what was done, or why it was not
    error: ReleaseError | None = None  #: of one that failed

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        names = ("tag", "action", "reason", "result", "detail", "error")
        return {name: getattr(self, name) for name in names}


def pages(branch: str, *, check: str = "") -> Dispatch:
    """Have the pages generated. ``check``: a published tag that is checked there, whether it is new or not"""
    return Dispatch(PAGES_WORKFLOW, branch, {"tag": check})


def divide_drafts(state: TagState, drafts: Sequence[Release]) -> tuple[list[Release], list[Release]]:
    """The drafts of a tag that are to be deleted, and those that only a person may delete, as they have assets.

    An abandoned tag has none. A pending one has the oldest, and a published one its release; others are surplus.
    """
    if state.state == "abandoned":
        return list(drafts), []
    surplus = drafts[1:] if state.state == "pending" else drafts
    return [draft for draft in surplus if not draft.assets], [draft for draft in surplus if draft.assets]


def apply(ledger: Ledger, step: Step) -> str:
    """Do one step, and note in the ledger what this process has made.

    :returns: what there is to say, if something else came of it than was planned
    :raises BranchMoved: or :raises Taken: if another process was faster
    """
    forge, made = ledger.forge, ledger.made
    match step:
        case CommitPin():
            made.pin = forge.commit(
                step.branch,
                expected=step.expected,
                base=step.base,
                files={PIN_FILE: format_pin(step.revision)},
                message=step.message,
            )
        case CreateTag():
            assert step.commit is not None, "a tag is made after its pin commit"
            forge.create_tag(str(step.tag), step.commit, step.message())
            made.tag = str(step.tag)
        case Abandon():
            abandon_tag(forge, step.state, reason=step.reason, by=forge.whoami())
        case DeleteDrafts():
            surplus, kept = divide_drafts(step.state, forge.drafts(step.state.name))
            for draft in surplus:
                forge.delete_draft(draft)
            return f"left {len(kept)} with assets: look at them, and delete them by hand" if kept else ""
        case CreateDraft():
            forge.create_draft(
                str(step.tag),
                title=str(step.tag),
                body=f"Being built from llvm-project {step.revision}.\n",
                prerelease=not (isinstance(step.tag, NumberedTag) and "rc" not in step.tag.version),
            )
        case Dispatch():
            made.runs[step.ref] = forge.dispatch(step.workflow, ref=step.ref, inputs=step.inputs)
        case Publish():
            published = publish(step.draft)
            if published.unsigned:  # only attest.yml signs
                forge.dispatch(step.workflow, ref=step.draft.tag, inputs=PUBLISH_ONLY)
                return f"dispatched {step.workflow}, which has the manifest signed and publishes"
            return "it was published already" if published.already else ""
    return ""
