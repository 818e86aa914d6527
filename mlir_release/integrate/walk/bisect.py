"""Bisect a patched upstream, or an integrate branch, in work trees of their own: the checkout is never touched.

A bisect of the branch goes on into what its first bad commit brought: the other side of a merge, the advances that
``land`` squashed, and at last the upstream's commits.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlir_release.ground.console import console
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import ReleaseError, UsageError
from mlir_release.ground.git.remotes import try_fetch
from mlir_release.ground.git.repository import Git, GitError
from mlir_release.ground.git.trees import commit_tree, is_ancestor, merge_base, merge_each, tree_of
from mlir_release.ground.strategy import Verdict
from mlir_release.integrate.patches.ledger import carried, named
from mlir_release.integrate.patches.patches import PatchConflict, Stack, rebase
from mlir_release.integrate.state import LANDED, REMOTE_LANDED, T_BREAKS, T_PIN, Record
from mlir_release.integrate.walk.steps import Bisection, BisectResult, Tried, WrongEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mlir_release.ground.git.patch import Patch
    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.upstream import UpstreamCommit


# -- what is named -----------------------------------------------------------------------------------------------------


def _line(git: Git, good: str, bad: str) -> list[str]:
    """The commits from ``good`` to ``bad``, along first parents. :raises UsageError: if they are not in line"""
    if good == bad or not is_ancestor(git, good, bad):
        raise UsageError(
            "revision-unsuitable",
            "the good commit is not an ancestor of the bad one",
            where=f"{good} and {bad}",
            remedy="swap --good and --bad, or give commits of one line of history",
        )
    return [good, *git.text("rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()]


def _commit(project: Integration, revision: str) -> str:
    """The downstream's commit that ``revision`` names. What was landed is fetched if need be. :raises UsageError:"""
    outer = project.outer
    for attempt in range(2):
        for name in (revision, f"{LANDED}{revision}", f"{REMOTE_LANDED}{revision}"):
            found = outer.resolve(name)
            if found is not None:
                return found
        if attempt == 0:
            _fetch_landed(project)
    raise UsageError(
        "revision-unknown",
        f"{revision!r} names no commit",
        where=str(outer.directory),
        why=f"neither this clone nor {LANDED}* at {project.config.downstream.remote} has it",
        remedy="give a commit, tag or branch that exists there",
    )


def _fetch_landed(project: Integration) -> None:
    """Fetch the remote's walks as they were before ``land`` squashed them. A failure is only told."""
    remote = project.config.downstream.remote
    fetched, said = try_fetch(project.outer, remote, f"+{LANDED}*:{REMOTE_LANDED}*")
    if not fetched:
        console.warn(f"{LANDED}* can't be fetched from {remote}: {said.strip()}")


# -- the upstream ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sources:
    """A commit of the downstream, and the patches that it carries on ``base``; ``unwanted`` ones are left out."""

    project: Integration
    outer: str
    pin: str
    base: str
    patches: tuple[Patch, ...]
    unwanted: tuple[Patch, ...] = ()

    @classmethod
    def at(cls, project: Integration, commit: str, without: Iterable[str] = ()) -> Sources:
        """Those of a commit. :param without: how the ids of unwanted patches begin"""
        upstream, pin = project.upstream, project.pin(commit)
        upstream.require(pin)
        base = upstream.base_of(pin, upstream.head())
        patches = tuple(carried(upstream, base, pin))
        return cls(project, commit, pin, base, patches, tuple(named(patches, prefix) for prefix in without))

    def stack(self, upstream: str) -> Stack:
        """The patches on ``upstream``. :raises PatchConflict:"""
        if upstream == self.base and not self.unwanted:
            return Stack(upstream, self.pin, self.patches)
        wanted = [patch for patch in self.patches if patch not in self.unwanted]
        return rebase(self.project.upstream, wanted, self.base, upstream)


def _upstream(
    bisection: Bisection, sources: Sources, commits: Sequence[str], merged: Mapping[str, str] = MappingProxyType({})
) -> BisectResult:
    """Bisect upstream commits under ``sources``; what the first bad one merges, too.

    :param merged: what is tested in place of a commit: it, merged into a good one; empty: that can't be merged
    :raises WrongEnd:
    """
    project, git = bisection.project, bisection.project.upstream
    states = [merged.get(commit, commit) for commit in commits]
    order = "".join(f"{state or commit}\n" for state, commit in zip(states, commits, strict=True)).encode()
    trees = git.run("log", "--no-walk=unsorted", "--stdin", "--format=%T", input=order).stdout.decode().split()
    by_hand = tuple(f"{patch.sha[:12]} ({patch.subject}): --without" for patch in sources.unwanted)

    def test(commit: str) -> Tried:
        state = merged.get(commit, commit)
        if not state:
            return Tried(Verdict.UNTESTABLE, why=f"{commit[:12]} does not merge into {commits[0][:12]} by itself")
        try:
            stack = sources.stack(state)
        except PatchConflict as conflict:
            patch = conflict.patch
            why = f"the carried patch {patch.sha[:12]} ({patch.subject}) does not apply; --without leaves it out"
            return Tried(Verdict.UNTESTABLE, why=why, without=by_hand)
        without = (*by_hand, *(f"{patch.sha[:12]} ({patch.subject}): {why}" for patch, why in stack.dropped))
        return replace(bisection.ask(sources.outer, stack.tip, state, commit), without=without)

    keys: dict[int, str] = {}

    def recall() -> dict[int, Record]:
        """Of commits whose trees were tested with these sources. A verdict belongs to trees."""
        tested = bisection.tested(sources.outer)
        for position, tree in enumerate(trees):
            if tree in tested and position not in keys and (state := states[position]):
                try:
                    keys[position] = bisection.question(sources.outer, sources.stack(state).tip, state).key
                except PatchConflict:
                    keys[position] = ""
        found = {position: bisection.recorded(key) for position, key in keys.items() if key}
        return {position: record for position, record in found.items() if record is not None}

    found = bisection.search(git, project.upstream.config.title, commits, test, recall=recall)
    good, bad = (merged.get(commit, commit) for commit in (found.last_good, found.first_bad))
    return found if found.skipped else _into_merge(bisection, sources, found, good, bad)


def _into_merge(bisection: Bisection, sources: Sources, found: BisectResult, good: str, bad: str) -> BisectResult:
    """``found`` with the bisect of what its first bad commit merges: each of these commits is merged into ``good``.

    :param good: what was tested for the last good commit; ``bad``: for the first bad one
    """
    project, git = bisection.project, bisection.project.upstream
    for side in git.text("rev-parse", f"{found.first_bad}^@").split()[1:]:
        line = git.text("rev-list", "--first-parent", "--reverse", f"{good}..{side}").split()
        trees = [merge.tree for merge in merge_each(git, [(good, commit) for commit in line])]
        # Otherwise people have resolved conflicts in the merge, or it has more sides.
        alike = line and trees[-1] == tree_of(git, bad)
        made = {line.pop() if alike else found.first_bad: bad}
        for commit, tree in zip(line, trees, strict=False):
            made[commit] = commit_tree(git, tree, [good, commit], "Merge\n", project.signature()) if tree else ""
        commits = [good, *line, next(iter(made))]
        if len(commits) == 2 and commits[1] == found.first_bad:
            continue
        try:
            return replace(found, inside=_upstream(bisection, sources, commits, made))
        except WrongEnd as wrong:
            found = replace(found, end=f"it merges {side[:12]}; at {wrong.commit[:12]}, the test is {wrong.verdict}")
    return found


def brought(project: Integration, outer: str, good: str, bad: str) -> tuple[UpstreamCommit, ...]:
    """The commits that broke the downstream's ``outer`` inside of the upstream's ``bad``, if that is a merge.

    The smoke test says so, each time one level deeper. ``good`` is the commit before.
    """
    if len(project.upstream.text("rev-parse", f"{bad}^@").split()) < 2:
        return ()
    console.say(f"    {bad[:12]} is a merge: searching in what it brings")
    bisection = Bisection(project, project.config.smoke.argv)
    deeper = _upstream(bisection, Sources.at(project, outer), [good, bad]).inside
    inside = []
    while deeper is not None:
        inside.append(project.upstream.commit(deeper.first_bad))
        deeper = deeper.inside
    return tuple(inside)


def bisect_upstream(
    project: Integration,
    good: str,
    bad: str,
    command: Sequence[str],
    *,
    at: str = "HEAD",
    without: Sequence[str] = (),
    **how: Any,
) -> BisectResult:
    """Bisect the upstream under the carried patches: each step is a pristine upstream commit plus the carried stack.

    By the ledger, a step leaves out patches that upstream has by then, and reverts of commits that upstream does not
    have yet. A step is untestable if another patch does not apply.

    :param at: the commit of the downstream whose sources and patches are tested
    :param without: patches that are left out everywhere
    :param how: see :class:`Bisection`
    :raises UsageError: if an end tests otherwise, or something is named that is not there
    """
    sources = Sources.at(project, _commit(project, at), without)
    git = project.upstream
    return _upstream(Bisection(project, command, **how), sources, _line(git, git.commit(good).sha, git.commit(bad).sha))


# -- the branch --------------------------------------------------------------------------------------------------------


def bisect_branch(
    project: Integration, good: str, bad: str, command: Sequence[str], *, upstream: bool = True, **how: Any
) -> BisectResult:
    """Bisect the outer branch along first parents, with all submodules at each commit's pins.

    :param upstream: go on into what the first bad commit brought
    :param how: see :class:`Bisection`
    :raises UsageError: if an end tests otherwise, or something is named that is not there
    """
    bisection = Bisection(project, command, **how)
    return _branch(bisection, _commit(project, good), _commit(project, bad), deeper=upstream)


def _branch(bisection: Bisection, good: str, bad: str, *, deeper: bool = True) -> BisectResult:
    """Bisect the branch; ``deeper``: and what its first bad commit brought, or say why there is no such bisect."""
    project, outer = bisection.project, bisection.project.outer

    def test(commit: str) -> Tried:
        pin = project.pin(commit)
        project.upstream.require(pin)
        pristine = merge_base(project.upstream, pin, project.upstream.head()) or pin
        return bisection.ask(commit, pin, pristine, commit)

    found = bisection.search(outer, "this repository", _line(outer, good, bad), test)
    if not deeper:
        return found
    good, bad = found.last_good, found.first_bad
    sides = [] if found.skipped else outer.text("rev-parse", f"{bad}^@").split()[1:]
    for side in sides:  # one that fails alone is gone into: the first parent passes
        fork = merge_base(outer, good, side)
        if not fork or fork == side:
            continue
        try:
            return replace(found, inside=_branch(bisection, fork, side))
        except WrongEnd as wrong:
            end = f"it merges {side[:12]}, which tests {wrong.verdict}"
            if wrong.verdict is Verdict.GOOD:
                end += ": the two sides do not fit together"
            elif wrong.commit == fork:
                end = f"it merges {side[:12]}, which fails, and {fork[:12]}, where it began, tests {wrong.verdict}"
            found = replace(found, end=end)
    if sides:
        return found
    moved = [each for each in project.everyone if each.pin(good) != each.pin(bad)]
    if not moved:
        titles = " or ".join(each.upstream.config.title for each in project.everyone)
        return replace(found, end="" if found.skipped else f"it changes this repository, and not {titles}")
    if len(moved) > 1:
        return replace(found, end=f"it moves {' and '.join(each.upstream.config.title for each in moved)} together")
    bisection = copy(bisection)
    bisection.project = moved[0]
    for head in _landed(moved[0], good, bad) if not found.skipped else ():
        if head in bisection.entered:
            continue
        bisection.entered.add(head)
        try:
            walked = _branch(bisection, merge_base(outer, head, good), head)
        except WrongEnd as wrong:
            console.say(f"    the walk that was squashed is no help: {wrong.commit[:12]} tests {wrong.verdict}")
        else:
            return replace(found, inside=walked)
    return _advanced(bisection, found)


def _landed(project: Integration, good: str, bad: str) -> list[str]:
    """The heads of walks that ``bad`` may be the squashed form of: they end at the same pin. The likeliest first."""
    outer, pin = project.outer, project.pin(bad)
    trailers = parse_trailers(outer.message(bad))
    if T_PIN in trailers and T_BREAKS not in trailers:  # an advance
        return []

    def heads() -> list[str]:
        found = []
        for tip in dict.fromkeys(ref.commit for ref in outer.refs(LANDED, REMOTE_LANDED)):
            with suppress(UsageError, GitError):  # from before the upstream was carried so; or others pushed anything
                found += [tip] if project.pin(tip) == pin else []
        return [tip for tip in found if not is_ancestor(outer, bad, tip)]

    found = heads()
    if not found:
        _fetch_landed(project)
        found = heads()
    begun = [tip for tip in found if merge_base(outer, tip, good) not in ("", tip)]
    tree = tree_of(outer, bad)
    return sorted(begun, key=lambda tip: tree_of(outer, tip) != tree)


def _advanced(bisection: Bisection, found: BisectResult) -> BisectResult:
    """Go on into the upstream commits between the pins of the last good and the first bad commit.

    If the bad one only advanced, the good one's patches and sources are replayed: the ends are known then. Else the
    bad one's are: what it changed itself is the same at each step.
    """
    project, git, title = bisection.project, bisection.project.upstream, bisection.project.upstream.config.title
    try:
        before, after = (Sources.at(project, commit) for commit in (found.last_good, found.first_bad))
    except ReleaseError as error:  # what was found stands
        return replace(found, end=f"it moves {title}, whose commits can't be bisected: {error.what}")
    if before.base == after.base:
        return replace(found, end=f"it changes the patches that are carried on {title}")
    if not is_ancestor(git, before.base, after.base):
        return replace(found, end=f"it moves {title} back or aside: from {before.base[:12]} to {after.base[:12]}")
    only = project.outer_key(before.outer) == project.outer_key(after.outer)
    try:
        same = only and tree_of(git, before.stack(after.base).tip) == tree_of(git, after.pin)
    except PatchConflict:  # it was resolved by hand
        same = False
    if found.skipped and not same:
        return replace(found, end="the commits between can't be tested, and not all of them only advance")
    line = _line(git, before.base, after.base)
    # With its own changes, it may fail on older commits for another reason: then the search begins near its end.
    near = () if same else (1 << power for power in range((len(line) - 2).bit_length()))
    for back in (len(line) - 1, *near):
        try:
            return replace(found, inside=_upstream(bisection, before if same else after, line[-1 - back :]))
        except WrongEnd as wrong:
            end = (
                f"it changes more than {title}: with its sources and patches, {title} at {line[0][:12]} and later "
                f"commits tests {wrong.verdict}, too"
            )
    return replace(found, end=end)
