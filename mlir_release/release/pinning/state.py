"""The states of the jobs that were begun, by the forge's tags and releases: published, pending or abandoned.

Nothing else is kept: a job's state is its annotated tag with our trailers, a tag ``abandoned/<tag>``, and
whether a published release has it. Publication wins over everything, because it can't be undone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from mlir_release import __version__
from mlir_release.ground.documents.decode import MalformedError
from mlir_release.ground.documents.times import format_time, parse_time
from mlir_release.ground.documents.trailers import format_message, parse_trailers
from mlir_release.ground.errors import ConflictError, NeedsPersonError, UsageError
from mlir_release.ground.llvm.llvm_facts import TRAILER_VERSION, FactsError, LlvmFacts
from mlir_release.ground.llvm.pin import SHA_PATTERN
from mlir_release.ground.programs.races import Races
from mlir_release.release.forge.base import BranchMoved, Forge, Tag, Taken
from mlir_release.release.forge.files import head_of, matrix_at
from mlir_release.release.model.release_tags import (
    TRAILER_DATE,
    TRAILER_REQUEST,
    TRAILER_REVISION,
    TRAILER_TOOLKIT,
    TRAILER_WHEEL_VERSION,
    ReleaseTag,
    parse_release_tag,
    parse_tag,
)
from mlir_release.release.model.stack import CarriedStack
from mlir_release.release.pinning.installable import TRAILER_EXCLUDED, format_reasons, parse_reasons

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from datetime import datetime

    from mlir_release.release.model.matrix import Matrix

ABANDONED_PREFIX = "abandoned/"
TRAILER_ABANDONED = "Abandoned-Tag"
TRAILER_REASON = "Reason"
TRAILER_BY = "Abandoned-By"

_NEEDED_TRAILERS = (TRAILER_REVISION, TRAILER_REQUEST, TRAILER_WHEEL_VERSION)

State = Literal["published", "pending", "abandoned"]


@dataclass(frozen=True, kw_only=True)
class TagState:
    """A release tag of ours, and how far its job has come."""

    tag: ReleaseTag
    state: State
    commit: str  #: of the release repository
    revision: str  #: of llvm-project
    request_id: str
    wheel_version: str
    toolkit_version: str = ""
    created_at: datetime | None = None  #: when it was tagged; None where the tag does not say
    reason: str = ""  #: why it was abandoned
    trailers: Mapping[str, str] = field(default_factory=dict, hash=False)  #: all of the tag's

    @property
    def name(self) -> str:
        """The tag as the forge knows it."""
        return str(self.tag)

    @property
    def of_release(self) -> dict[str, str]:
        """The facts about the release that every order of a job carries."""
        return {"tag": self.name, "version": self.wheel_version, "revision": self.revision}

    @property
    def facts(self) -> LlvmFacts | None:
        """The tag's record of its revision's facts; None for the tags of older toolkits.

        :raises NeedsPersonError: ``tag-foreign``
        """
        try:
            return LlvmFacts.from_trailers(self.trailers)
        except FactsError as error:
            raise facts_invalid(self.name, str(error)) from None

    @property
    def revision_date(self) -> str:
        """When the revision was committed, UTC; empty for the tags of older toolkits.

        :raises NeedsPersonError: ``tag-foreign``
        """
        found = self.trailers.get(TRAILER_DATE, "")
        try:
            return format_time(parse_time(found)) if found else ""
        except ValueError:
            raise facts_invalid(self.name, f"{TRAILER_DATE} is {found!r}, which is not a UTC time") from None

    @property
    def stack(self) -> CarriedStack | None:
        """What the tag says that its revision carries; None: nothing. Whether it is so, is checked with the pin.

        :raises NeedsPersonError: ``tag-foreign``
        """
        try:
            return CarriedStack.from_trailers(self.trailers)
        except MalformedError as error:
            raise facts_invalid(self.name, str(error)) from None

    @property
    def llvm_version(self) -> str:
        """``24.0.0git``; empty for the tags of older toolkits."""
        return self.trailers.get(TRAILER_VERSION, "")

    @property
    def excluded(self) -> dict[str, str]:
        """The places that can have no wheels, because their requirements have none, with the reasons."""
        return parse_reasons(self.trailers.get(TRAILER_EXCLUDED, ""))

    def to_json(self) -> dict[str, object]:
        """For ``--json``."""
        shown = {key: value for key, value in vars(self).items() if key != "trailers"}
        return shown | {
            "tag": self.name,
            "created_at": format_time(self.created_at) if self.created_at else "",
            "llvm_version": self.llvm_version,
        }


def facts_invalid(tag: str, why: str) -> NeedsPersonError:
    """The error for a tag with wrong or unreadable facts about its revision."""
    return NeedsPersonError(
        "tag-foreign",
        f"the tag {tag} does not say properly what its llvm-project revision is",
        where=tag,
        why=why,
        remedy=f"someone made that tag by hand: mlir-release release abandon {tag}, then make another",
    )


def tag_message(
    tag: ReleaseTag,
    *,
    revision: str,
    request_id: str,
    wheel_version: str,
    revision_date: str = "",
    facts: LlvmFacts | None = None,
    excluded: Mapping[str, str] | None = None,
    stack: CarriedStack | None = None,
) -> str:
    """The message that makes a tag ours; :func:`read_states` reads it back."""
    trailers = {
        TRAILER_REVISION: revision,
        **({TRAILER_DATE: revision_date} if revision_date else {}),
        TRAILER_REQUEST: request_id,
        TRAILER_WHEEL_VERSION: wheel_version,
        TRAILER_TOOLKIT: __version__,
        **(facts.trailers() if facts else {}),
        **({TRAILER_EXCLUDED: format_reasons(excluded)} if excluded else {}),
        **(stack.trailers() if stack else {}),
    }
    of = f"{revision[:12]}: {stack.text()}" if stack else revision[:12]
    return format_message(str(tag), f"Wheels {wheel_version} of llvm-project {of}.", trailers)


def read_states(tags: Iterable[Tag], published: Container[str]) -> list[TagState]:
    """The release tags that carry our trailers: snapshots in order, then numbered ones in order.

    A tag without them was not made by this toolkit and is ignored (though its name is taken).

    :param published: the tags that have a published release, as far as the caller needs to know
    """
    by_name = {tag.name: tag for tag in tags}
    found = [
        state
        for tag in by_name.values()
        if (state := _read_state(tag, by_name.get(ABANDONED_PREFIX + tag.name), tag.name in published)) is not None
    ]
    return sorted(found, key=lambda state: (state.tag.kind == "numbered", state.tag))


def _read_state(tag: Tag, abandoned: Tag | None, published: bool) -> TagState | None:
    parsed = parse_tag(tag.name)
    trailers = parse_trailers(tag.message)
    if parsed is None or not all(trailers.get(key) for key in _NEEDED_TRAILERS):
        return None
    if not SHA_PATTERN.fullmatch(trailers[TRAILER_REVISION]):
        return None
    state: State = "published" if published else "abandoned" if abandoned is not None else "pending"
    return TagState(
        tag=parsed,
        state=state,
        commit=tag.commit,
        revision=trailers[TRAILER_REVISION],
        request_id=trailers[TRAILER_REQUEST],
        wheel_version=trailers[TRAILER_WHEEL_VERSION],
        toolkit_version=trailers.get(TRAILER_TOOLKIT, ""),
        created_at=tag.created_at,
        trailers=trailers,
        reason=parse_trailers(abandoned.message).get(TRAILER_REASON, "") if abandoned and not published else "",
    )


def find_state(forge: Forge, name: str) -> TagState:
    """The state of one release tag, by lookups.

    :raises UsageError: ``option-invalid``, ``tag-missing``
    :raises NeedsPersonError: ``tag-foreign``
    """
    parse_release_tag(name)
    tag = forge.tag(name)
    if tag is None:
        raise UsageError(
            "tag-missing",
            f"there is no tag {name}",
            where=forge.description,
        )
    abandoned = forge.tag(ABANDONED_PREFIX + name)
    state = _read_state(tag, abandoned, forge.published(name) is not None)
    if state is None:
        raise NeedsPersonError(
            "tag-foreign",
            f"the tag {name} was not made by mlir-release",
            where=forge.description,
            why=f"its message does not have the trailers {', '.join(_NEEDED_TRAILERS)}",
            remedy="use a tag that `mlir-release snapshot` or `mlir-release release start` made",
        )
    return state


def matrix_of(forge: Forge, state: TagState) -> Matrix:
    """The build matrix of a tag: that of its commit and its line, as far as its revision can be made into it.

    :raises UsageError: ``input-missing``, ``revision-unsuitable``, and for a mistake in the matrix's file
    :raises NeedsPersonError: ``tag-foreign``
    """
    matrix = matrix_at(forge, state.commit, state.tag.line)
    found = matrix.of_revision(state.facts).drop_unresolvable(state.excluded)
    return found.with_abi3(state.facts).naming_sdk_wheels(state.tag)


def abandon_tag(forge: Forge, state: TagState, *, reason: str, by: str) -> bool:
    """Record that ``state``'s job is abandoned, then delete its drafts. Returns whether it was recorded just now.

    The record comes first: killed in between, the tag is abandoned and the drafts go when this is done again. Only
    its message is read. It is at the default branch's head, because a job may not tag every older commit on GitHub.

    :raises ConflictError: if the release was published meanwhile; then it is, whatever was recorded
    """
    trailers = {TRAILER_ABANDONED: state.name, TRAILER_REASON: reason, TRAILER_BY: by}
    message = format_message(f"Abandon {state.name}", "", trailers)
    recorded = _record(forge, ABANDONED_PREFIX + state.name, message)
    if forge.published(state.name) is not None:
        raise ConflictError(
            "changed-meanwhile",
            f"{state.name} was published while it was being abandoned",
            where=forge.description,
            why="a published release can't be abandoned; the record of it is without effect",
            remedy=f"if nobody should use it: mlir-release release yank {state.name} --reason …",
        )
    for draft in forge.drafts(state.name):
        forge.delete_draft(draft)
    return recorded


def _record(forge: Forge, name: str, message: str) -> bool:
    """Make a tag at the default branch's head; False if there is one of that name."""
    races = Races(where=forge.description)
    while True:
        try:
            forge.create_tag(name, head_of(forge, forge.default_branch), message)
            return True
        except Taken:
            return False
        except BranchMoved as error:
            races.retry(f"create tag {name}", error)
