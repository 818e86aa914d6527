"""The revert watch: which commits of a published snapshot upstream has reverted since.

One fetch brings the commits of the last months, without their folders. A second one brings the top folders of the few
commits that were reverted, to tell whether they touch what is built. The number of releases changes neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.documents.times import format_time, parse_time
from mlir_release.ground.errors import UsageError
from mlir_release.ground.foreign import visible
from mlir_release.ground.git.remotes import UnreachableError
from mlir_release.ground.git.repository import Git, GitError, open_clone
from mlir_release.ground.git.reverts import Effects, Reverting, pull_request, read_reverts
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT, known_project
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.release.forge.files import settings_of_branch
from mlir_release.release.judging.signed import AS_DECLARED, SignedBy
from mlir_release.release.latest.catalogue import Catalogue, read_index
from mlir_release.release.model.release_index import IndexRow, Quality, Revert
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.model.yanks import newest_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.forge.base import Forge

#: The commits of a snapshot that are looked at: those of so many days before the oldest snapshot that is watched.
LOOK_BACK = timedelta(days=30)

#: A snapshot of a commit that is so much older than the newest one's is not watched.
LONGEST = timedelta(days=400)

#: At most so many commits of upstream are read, the newest ones: a year and a half of llvm-project.
MAX_COMMITS = 60_000

#: What all projects are built from, at most two folders deep (see :meth:`Upstream.fetch_folders`).
#: Source: the sources that LLVM's libraries and their generators are compiled from. Each project adds its own folders.
BUILT_FROM = ("cmake", "llvm/CMakeLists.txt", "llvm/cmake", "llvm/include", "llvm/lib", "third-party")


@dataclass(frozen=True, kw_only=True)
class RevertWatch:
    """What was found, by the tags of the snapshots that could be judged, the newest revert first."""

    COLUMNS = ("snapshot", "reverted", "by", "date", "matters", "subject")

    releases: Mapping[str, tuple[Revert, ...]]
    upstream_head: str = ""  #: the llvm-project commit up to which reverts were looked for
    unseen: tuple[str, ...] = ()  #: snapshots of commits that are not in the branch's newest history
    note: str = ""  #: why it is not up to date; empty: it is

    def cells(self) -> Iterator[tuple[str, ...]]:
        """For people: a row for each revert, the newest snapshot first."""
        for tag in sorted(self.releases, reverse=True):
            for each in self.releases[tag]:
                affects = "yes" if each.affects else "no"
                yield tag, each.commit[:12], each.by[:12], each.date[:10], affects, each.subject

    def text(self) -> str:
        """A line."""
        snapshots = "1 snapshot" if len(self.releases) == 1 else f"{len(self.releases)} snapshots"
        affected = sum(bool(mattering(reverts)) for reverts in self.releases.values())
        head = self.upstream_head[:12] or "no commit"
        unseen = f"; not in upstream's newest history: {', '.join(self.unseen)}" if self.unseen else ""
        return f"{snapshots} against upstream up to {head}: {affected} with reverted commits that matter{unseen}"


def mattering(reverts: Iterable[Revert]) -> list[Revert]:
    """Those that touch what is built; the others don't hold a release back."""
    return [each for each in reverts if each.affects]


def note_of(tag: str, reverts: Iterable[Revert]) -> str:
    """A line for people about a release; empty: nothing in it that matters was reverted."""
    count = len(mattering(reverts))
    commits = "a commit" if count == 1 else f"{count} commits"
    return f"upstream has reverted {commits} of {tag} since: mlir-release release reverts {tag}" if count else ""


def watched(catalogue: Catalogue, days: int) -> list[IndexRow]:
    """The snapshots of the last ``days`` before the newest one, newest first. Older months are not read."""
    rows = (each.row for each in catalogue.walk() if each.row.order.kind == "snapshot")
    newest = next(rows, None)
    if newest is None:
        return []
    since = parse_time(newest.created_at) - timedelta(days=days)
    return [newest, *takewhile(lambda row: parse_time(row.created_at) >= since, rows)]


def built_from(catalogue: Catalogue) -> tuple[str, ...]:
    """What the wheels are built from that people get who name none: those of the newest snapshot's main project.

    A revert that touches another project alone keeps no snapshot from being latest-good.
    """
    newest = catalogue.find(newest_tag(tag for tag in catalogue.index.tags if tag not in catalogue.index.yanked))
    mine = [wheel.project for wheel in newest.wheels if wheel.distribution == newest.row.main] if newest else []
    name = mine[0] if mine and isinstance(mine[0], str) else DEFAULT_PROJECT
    project = known_project(name)
    shared = {path.partition("/")[0] for path in BUILT_FROM}
    return (*BUILT_FROM, *(path for path in (project.paths if project else (name,)) if path not in shared))


def watch(
    forge: Forge, tag: str | None, *, signed_by: SignedBy = AS_DECLARED, clone: Path | None = None
) -> RevertWatch:
    """:func:`find_reverts` for a snapshot, or for those that the shared pages link.

    :raises UsageError: ``release-not-published``, ``release-unsuitable``
    """
    catalogue = read_index(forge, signed_by)
    config = settings_of_branch(forge, signed_by.branch)
    rows = watched(catalogue, config.linked_days)
    if tag is not None:
        if parse_release_tag(tag).kind != "snapshot":
            raise UsageError(
                "release-unsuitable",
                f"{tag} is a numbered release: its commits are of a release branch",
                remedy="name a snapshot; the notes of LLVM's next release say what was fixed",
            )
        entry = catalogue.find(tag)
        if entry is None:
            raise UsageError("release-not-published", f"no snapshot {tag} is published", where=forge.description)
        rows = [entry.row]
    return find_reverts(
        Upstream.of(config),
        rows,
        paths=built_from(catalogue),
        known=catalogue.quality,
        clone=open_clone(clone) if clone else None,
    )


def find_reverts(
    upstream: Upstream, rows: Sequence[IndexRow], *, paths: Sequence[str], known: Quality, clone: Git | None = None
) -> RevertWatch:
    """Look for reverts of the commits that snapshots have.

    A snapshot whose LLVM commit is not in the branch's newest history is left out.

    :param paths: of upstream: a revert matters that touches one of them
    :param known: the answer that stands if upstream can't be reached; what it says about paths is not asked again
    :param clone: of llvm-project, to read instead of upstream: its ``origin/<branch>`` as last fetched, or its HEAD
    :raises GitError: if the clone can't be read
    """
    dates = [parse_time(row.dated) for row in rows]
    if not dates:
        return RevertWatch(releases={}, upstream_head=known.upstream_head)
    since = max(min(dates) - LOOK_BACK, max(dates) - LONGEST).timestamp()
    try:
        if clone is not None:
            git, head = clone, clone.resolve(f"refs/remotes/origin/{upstream.branch}") or clone.resolve("HEAD") or ""
        else:
            git, head = upstream.window(since)
    except UnreachableError as error:
        note = f"{error.what}; these are the reverts known up to {known.upstream_head[:12] or 'no commit at all'}"
        console.warn(note)
        tags = {row.tag for row in rows}
        found = {tag: quality.reverted for tag, quality in known.releases.items() if tag in tags}
        return RevertWatch(releases=found, upstream_head=known.upstream_head, note=note)
    if not head:
        raise UsageError("clone-incomplete", "the clone has no commits", where=str(git.directory))
    limits = (f"--since=@{int(since)}", f"--max-count={MAX_COMMITS}", head)
    window = _Window(git, limits, rows)
    pairs = window.reverted(read_reverts(git, *limits))
    told = {each.commit: each.affects for quality in known.releases.values() for each in quality.reverted}
    unknown = [commit for commit, _ in pairs if commit not in told]
    told |= window.touching(unknown, paths, upstream if clone is None else None)
    found = window.by_tag(pairs, told)
    unseen = tuple(row.tag for row in rows if row.tag not in found)
    return RevertWatch(releases=found, upstream_head=head, unseen=unseen)


@dataclass(frozen=True)
class _Commit:
    parents: tuple[str, ...]
    tree: str
    subject: str


class _Window:
    """The newest commits of upstream, newest first, each with the snapshots that have it."""

    def __init__(self, git: Git, limits: Sequence[str], rows: Sequence[IndexRow]) -> None:
        output = git.run("log", "-z", "--no-mailmap", "--topo-order", "--format=%H%x00%P%x00%T%x00%s", *limits).stdout
        fields = iter(output.decode(errors="replace").split("\0"))
        self.git = git
        self.commits = {
            sha: _Commit(tuple(parents.split()), tree, subject)
            for sha, parents, tree, subject in zip(fields, fields, fields, fields, strict=False)
        }
        self.rows = [row for row in rows if row.revision in self.commits]
        # Bit n of a commit: snapshot n has it. Children come before their parents, so one pass fills in all.
        self.had = dict.fromkeys(self.commits, 0)
        for bit, row in enumerate(self.rows):
            self.had[row.revision] |= 1 << bit
        for sha, commit in self.commits.items():
            for parent in commit.parents:
                if parent in self.had:
                    self.had[parent] |= self.had[sha]

    def reverted(self, reverting: Sequence[Reverting]) -> dict[tuple[str, str], Reverting]:
        """The commits that snapshots have and whose reverts they lack, each with the revert's id, newest revert first.

        What is reverted must have landed a change: the revert of a revert takes nothing away.
        """
        order = {sha: position for position, sha in enumerate(self.commits)}
        pulls: dict[str, list[str]] = {}
        for sha, commit in self.commits.items():
            if name := pull_request(commit.subject):
                pulls.setdefault(name, []).append(sha)
        aliases = {name: commits[-1] for name, commits in pulls.items()}
        found = {}
        for name, by in Effects(reverting, aliases).taken().items():
            named = pulls.get(name, []) if name.startswith("#") else [name]
            older = [sha for sha in named if order.get(sha, -1) > order.get(by.sha, len(order))]
            if older and self.had[older[0]] & ~self.had[by.sha]:
                found[older[0], by.sha] = by
        return dict(sorted(found.items(), key=lambda pair: order[pair[1].sha]))

    def touching(self, commits: Sequence[str], paths: Sequence[str], upstream: Upstream | None) -> dict[str, bool]:
        """Whether commits touch what is built, against their first parents. What can't be told counts as touching.

        :param paths: of what is built
        :param upstream: has the folders that are not here; None: they are here, or can't be had
        """
        found = {}
        pairs = {sha: parents[0] for sha in commits if (parents := self.commits[sha].parents)}
        pairs = {sha: parent for sha, parent in pairs.items() if parent in self.commits}
        try:
            if upstream is not None and pairs:
                trees = {self.commits[sha].tree for pair in pairs.items() for sha in pair}
                upstream.fetch_folders(self.git, sorted(trees))
            for sha, parent in pairs.items():
                listed = (
                    self.git.run("ls-tree", "-z", "--full-tree", self.commits[each].tree, "--", *paths).stdout
                    for each in (sha, parent)
                )
                found[sha] = next(listed) != next(listed)
        except (GitError, UnreachableError) as error:
            console.warn(f"the paths of reverted commits can't be read, so all of them count: {error.why}")
        return dict.fromkeys(commits, True) | found

    def by_tag(
        self, pairs: Mapping[tuple[str, str], Reverting], touching: Mapping[str, bool]
    ) -> dict[str, tuple[Revert, ...]]:
        found: dict[str, list[Revert]] = {row.tag: [] for row in self.rows}
        for (sha, by), commit in pairs.items():
            revert = Revert(
                commit=sha,
                subject=visible(self.commits[sha].subject)[:200],
                by=by,
                date=format_time(datetime.fromtimestamp(commit.seconds, UTC)),
                affects=touching[sha],
            )
            missing = self.had[sha] & ~self.had[by]
            for bit, row in enumerate(self.rows):
                if missing >> bit & 1:
                    found[row.tag].append(revert)
        return {tag: tuple(reverts) for tag, reverts in found.items()}
