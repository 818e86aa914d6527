"""The tags, releases, drafts and runs of a forge. Each is read once, when a command first needs it.

Every command that looks at more than one release begins with a ledger: a new release, a sweep, the status, the index.
A process that changes something takes a new look (:meth:`Ledger.again`) before it plans the next step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from mlir_release.ground.errors import UsageError
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.release.model.release_tags import ReleaseTag, SnapshotTag, next_numbered, next_snapshot, parse_tag
from mlir_release.release.model.yanks import Yank, newest_tag
from mlir_release.release.pinning.state import ABANDONED_PREFIX, TagState, read_states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from mlir_release.release.forge.base import Forge, Release, ReleaseRow, Tag
    from mlir_release.release.forge.services import Run
    from mlir_release.release.model.pin_commit import PinFacts

#: So many releases are looked up one by one; of more, all are listed, or only their manifests read.
FEW = 20

#: Rows of releases that tell what is going on: a page of GitHub's, seven weeks of two snapshots a day.
RECENT = 100


@dataclass
class Made:
    """The things that this process itself has made. The forge may list them only later."""

    pin: str | None = None  #: the commit by which it pinned the revision
    tag: str = ""  #: the tag that it made, if it has not looked again since
    runs: dict[str, Run | None] = field(default_factory=dict)  #: by tag; None where the forge does not tell which


Value = TypeVar("Value")


class once(Generic[Value]):
    """As ``functools.cached_property`` of CPython 3.12, on every CPython: without a lock.

    That of 3.11 lets only one thread of the process into a property, whichever object it is of. What a forge is asked
    takes long, and threads that take turns would wait for each other for ever.
    """

    def __init__(self, read: Callable[[Any], Value]) -> None:
        self._read = read
        self.__doc__ = read.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> once[Value]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object, kind: type) -> Value | once[Value]:
        if owner is None:
            return self
        value = vars(owner)[self._read.__name__] = self._read(owner)
        return value


class Ledger:
    """One look at a forge. It changes nothing, and asks nothing twice.

    :param whole: read all releases where the newest would do; a folder always does
    """

    def __init__(self, forge: Forge, *, whole: bool = False) -> None:
        self.forge = forge
        self.whole = whole or not forge.services.url
        self.made = Made()
        self.pin_facts: Callable[[str], PinFacts | None] = cache(forge.pin_facts)
        self.drafts: Callable[[str], Sequence[Release]] = cache(forge.drafts)
        self.head: Callable[[str], str | None] = cache(forge.head)
        self.pin: Callable[[str], bytes | None] = cache(lambda commit: forge.read(PIN_FILE, commit=commit))
        self.runs = cache(forge.runs)  # newest first
        self._published: dict[str, bool] = {}

    def again(self) -> Ledger:
        """A new look. It keeps the facts about commits: a branch that only moves forward does not change them."""
        ledger = Ledger(self.forge, whole=self.whole)
        ledger.made, ledger.pin_facts = self.made, self.pin_facts
        return ledger

    @once
    def now(self) -> datetime:
        """The forge's clock."""
        return self.forge.now()

    @once
    def tags(self) -> Sequence[Tag]:
        """All tags, whoever made them."""
        return self.forge.tags()

    @once
    def rows(self) -> Sequence[ReleaseRow]:
        """The newest releases and drafts, newest first: :data:`RECENT`, or all."""
        return self.forge.recent(None if self.whole else RECENT)

    @property
    def has_older(self) -> bool:
        """Whether there may be releases that :attr:`rows` don't show."""
        return not self.whole and len(self.rows) == RECENT

    @once
    def states(self) -> Sequence[TagState]:
        """The release tags of ours: snapshots in order, then numbered ones; published as far as the rows show it.

        The tags are read before the releases: a release can't be older than its tag.
        """
        tags, rows = self.tags, self.rows
        return read_states(tags, {row.tag for row in rows if not row.draft})

    def drafted(self, tag: str) -> Sequence[ReleaseRow]:
        """The rows of a tag's drafts, oldest first: by their ids, as GitHub dates a draft by its commit."""
        found = [row for row in self.rows if row.draft and row.tag == tag]
        return sorted(found, key=lambda row: (len(row.id), row.id))

    def is_published(self, tag: str) -> bool:
        """Whether a release of a tag is published: what the rows don't show is looked up."""
        if tag not in self._published:
            shown = any(row.tag == tag and not row.draft for row in self.rows)
            self._published[tag] = shown or self.forge.published(tag) is not None
        return self._published[tag]

    def published(self, known: Mapping[str, datetime]) -> dict[str, ReleaseRow | None]:
        """The release tags that are published, without a listing that grows; None: a known one that no row shows.

        The newest releases are listed. Beyond them, a tag that is neither known nor abandoned is looked up, as is a
        known release that should be among the newest, but is not: someone may have deleted it.

        :param known: tags of published releases, and when they were made
        """
        found = _published(self.rows)
        if self.has_older:
            names = {tag.name for tag in self.tags}
            older = {
                name
                for name in names - known.keys() - {row.tag for row in self.rows}
                if parse_tag(name) is not None and ABANDONED_PREFIX + name not in names
            }
            gone = {tag for tag, when in known.items() if tag not in found and when >= self.rows[-1].created_at}
            if len(older) > FEW:
                return _published(Ledger(self.forge, whole=True).rows)
            kept = dict.fromkeys(known.keys() - gone)
            found = kept | found | _published(filter(None, map(self.forge.published, sorted(older | gone))))
        return found

    def settled(self, names: set[str]) -> list[TagState]:
        """The states of some tags, with what the rows don't show about their publication looked up."""
        named = [state for state in self.states if state.name in names]
        return [replace(s, state="published", reason="") if self.is_published(s.name) else s for s in named]

    def newest(self, count: int | None) -> list[TagState]:
        """The newest tags of ours, so many of each kind, with their states; None: all."""
        kinds = [[state for state in self.states if state.tag.kind == kind] for kind in ("snapshot", "numbered")]
        names = {state.name for states in kinds for state in (states if count is None else states[-count:])}
        older = names - {row.tag for row in self.rows} if self.has_older else set()
        looked_up = {state.name: state for state in self.settled(older)}
        return [looked_up.get(state.name, state) for state in self.states if state.name in names]

    def newest_published(self, yanks: Sequence[Yank]) -> str:
        """The tag of the newest published snapshot, as far as the rows show it; empty: they show none."""
        return newest_tag((row.tag for row in self.rows if not row.draft), yanks)

    def latest_snapshot(self) -> TagState:
        """The newest snapshot that was not given up: published, or pending. :raises UsageError: ``tag-missing``"""
        snapshots = [state for state in self.states if isinstance(state.tag, SnapshotTag)]
        living = [state for state in snapshots if state.state != "abandoned"]
        if not living:
            raise UsageError(
                "tag-missing",
                "there is no snapshot yet",
                where=self.forge.description,
                remedy="make one: mlir-release snapshot; `mlir-release pin show` prints the pin of development",
            )
        return living[-1]

    @property
    def our_snapshots(self) -> list[SnapshotTag]:
        """All tags of snapshots that we made, whatever became of them; no release is looked at."""
        return [state.tag for state in read_states(self.tags, ()) if isinstance(state.tag, SnapshotTag)]

    def next_tag(self, version: str | None = None) -> ReleaseTag:
        """The tag that the next snapshot would get; with ``version``, the next numbered release of that LLVM version.

        :raises UsageError: ``option-invalid``
        :raises NeedsPersonError: ``numbers-exhausted``
        """
        names = frozenset(tag.name for tag in self.tags)
        if version is not None:
            return next_numbered(version, names)
        return next_snapshot(self.our_snapshots, self.now, taken=names)


def _published(rows: Iterable[ReleaseRow]) -> dict[str, ReleaseRow | None]:
    """The releases among some rows, by their tags."""
    return {row.tag: row for row in rows if not row.draft and row.published_at and parse_tag(row.tag) is not None}
