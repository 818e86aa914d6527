"""A walk over several upstreams of one downstream. Each is walked in turn; those that pin each other move together.

Where a commit breaks the downstream alone, it may pass with another upstream moved: one that it pins itself, or one
that pins it. A few such combinations are tested. Which upstream is walked next follows from the branch's last commits,
so a killed walk goes on where it was.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from mlir_release.ground import strategy as st
from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.errors import MachineError, UsageError
from mlir_release.ground.git.repository import GitError
from mlir_release.ground.git.trees import is_ancestor, merge_base
from mlir_release.integrate.patches.patches import PatchConflict
from mlir_release.integrate.pins.dependency import Dependency, dependency
from mlir_release.integrate.report import TriedTogether, WalkEnd
from mlir_release.integrate.state import T_UPSTREAM
from mlir_release.integrate.walk.diamond import Move, Step, take_what_is_due
from mlir_release.integrate.walk.walk import ALL_ALLOWED, Allowed, Walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.walk.observe import Observation

    #: Where some of the upstreams are moved at once: a commit for each. The first is the one that broke alone.
    Moves = Mapping[Walk, str]

#: Combinations that are tested for one culprit.
MOST = 6


class JointWalk:
    """The walks of one branch, one for each upstream that it walks; there may be only one."""

    def __init__(self, walks: Sequence[Walk]) -> None:
        self.walks = tuple(walks)
        first = self.walks[0]
        self.project, self.branch, self.store, self.publish = first.project, first.branch, first.store, first.publish
        self.strategy = first.strategy
        self._pins = cache(_pins)
        self.goals: dict[Walk, str | None] = dict.fromkeys(self.walks)

    def walk_of(self, title: str) -> Walk:
        """The walk of the upstream with that name."""
        return next(walk for walk in self.walks if _title(walk) == title)

    def run(
        self, strategy: st.Strategy, *, width: int = 1, until: str | None = None, allowed: Allowed = ALL_ALLOWED
    ) -> WalkEnd:
        """Walk each upstream as far as it goes, again while another one moves. Returns the end that matters most.

        That of the first upstream that needs a person, else the first where probes are missing; the others are in it.

        :param until: a commit, with ``NAME@`` in front where there are several upstreams
        """
        if allowed.moves:
            with self.walks[0].turn():
                self.project.refuse_dirty()
        if self.publish:
            self.store.pull(self.project.config.downstream.remote)
        self.look(until)
        head = partial(self.project.outer.text, "rev-parse", "--verify", self.walks[0].observer.ref)
        ends: dict[Walk, WalkEnd] = {}
        due = take_what_is_due(self.walks, probing=allowed.probes) if allowed.moves else False
        turns = deque(self.in_turn())
        while turns:
            walk, again, before = turns[0], False, head()
            if allowed.probes and (suspect := self.suspect(walk)):
                seen = self._seen(walk)
                walk.probe_all(seen, walk.observer.knowledge(seen, walk.observer.verdicts(seen)), [suspect], 1)
            ends[walk] = end = walk.run(strategy, width=width, until=self.goals[walk], allowed=allowed)
            if end.outcome in ("culprit", "range") and len(self.walks) > 1:
                ends[walk], again = self._with_others(walk, end, allowed)
            if ends[walk].outcome == "untested":
                break
            if head() != before:
                turns = deque(self.in_turn(walk))
            if not again:
                turns.popleft()
            if not turns and allowed.moves and (due := take_what_is_due(self.walks, probing=allowed.probes)):
                turns = deque(self.in_turn())
        reached = [ends[walk] for walk in self.walks if walk in ends]
        chosen = next((end for end in reached if end.stopped), None)
        chosen = next((end for end in reached if end.outcome == "untested"), chosen) or reached[0]
        found = replace(chosen, others=tuple(end for end in reached if end is not chosen))
        return replace(found, outcome="untested") if due is None else found

    def look(self, until: str | None = None) -> None:
        """Fix where the walks go to, for as long as this lasts."""
        wanted = named([walk.project for walk in self.walks], until) if until else {}
        for walk in self.walks:
            goal = wanted.get(walk.project)
            self.goals[walk] = goal if len(self.walks) == 1 else walk.observer.look(until=goal).until

    def in_turn(self, first: Walk | None = None) -> list[Walk]:
        """The walks in their order, from ``first`` on; None: the one whose upstream was the last to advance."""
        if first is None:
            asked = ("log", "-z", "-n200", "--first-parent", "--format=%B", self.walks[0].observer.ref, "--")
            for message in self.project.outer.run(*asked).stdout.decode(errors="replace").split("\0"):
                keys = [key for key in parse_trailers(message) if key.startswith(T_UPSTREAM)]
                if keys:
                    owned = (walk for walk in self.walks if keys[0].removeprefix(T_UPSTREAM) in walk.project.names)
                    first = next(owned, None)
                    break
        start = self.walks.index(first) if first else 0
        return [*self.walks[start:], *self.walks[:start]]

    def broken(self, walk: Walk) -> str:
        """The first commit that is known to be bad, as far as verdicts narrow it; empty if none is."""
        seen = self._seen(walk)
        here = st.bracket(walk.observer.knowledge(seen, walk.observer.verdicts(seen)))
        return seen.upstream_at(here.high) if here.high else ""

    def suspect(self, walk: Walk) -> int | None:
        """The next position, if its commit broke the downstream before another upstream moved. It is tested first."""
        if len(self.walks) == 1:
            return None
        seen = self._seen(walk)
        if not seen.ahead or 1 in walk.observer.verdicts(seen) or not walk.observer.applies(seen, seen.ahead[0].sha):
            return None
        before = (record for record in self.store.load().values() if walk.project.owns(record.of))
        broke = any(r.upstream == seen.ahead[0].sha and r.verdict is st.Verdict.BAD for r in before)
        return 1 if broke else None

    def _seen(self, walk: Walk) -> Observation:
        return walk.observer.look(until=self.goals[walk], fetch=False)

    # -- what moves together ----------------------------------------------------------------------------------------

    def _with_others(self, walk: Walk, end: WalkEnd, allowed: Allowed) -> tuple[WalkEnd, bool]:
        """Try the culprit together with others; the walk's end with what was tried, and whether the branch moved."""
        tried: list[TriedTogether] = []
        found, blocked = self.candidates(walk, end.bad)
        for moves in found:
            names = {_title(each): commit for each, commit in moves.items()}
            try:
                step = self.step(moves)
                record = self.store.load().get(step.question.key)
                if record is None and not allowed.probes:
                    return replace(end, outcome="untested", tried=tuple(tried)), False
                record = record or step.probe()
            except PatchConflict as conflict:
                tried.append(TriedTogether(names, f"untestable: {conflict.what}"))
                continue
            tried.append(TriedTogether(names, str(record.verdict)))
            if record.verdict is st.Verdict.GOOD and allowed.moves:
                step.take(record.generated)
                return end, True
        return replace(end, tried=tuple(tried), blocked=tuple(blocked)), False

    def candidates(self, walk: Walk, bad: str) -> tuple[list[Moves], list[str]]:
        """The combinations that may pass where ``bad`` broke it, likeliest first; and why there are no others."""
        seen = {each: self._seen(each) for each in self.walks}
        blocked: list[str] = []
        asked: list[dict[Walk, str]] = []
        for other in (each for each in self.walks if each is not walk):
            if (own := self._pins(walk, other)) and (pin := _pin(own, bad)):
                asked.append({walk: bad, other: pin})
            if (theirs := self._pins(other, walk)) is None:
                continue
            first = theirs.first_with(bad, seen[other].base, seen[other].until)
            if first:
                asked += [{walk: bad, other: first}, {walk: _pin(theirs, first), other: first}]
            elif not theirs.contains(seen[other].base, bad):
                until = seen[other].until[:12]
                blocked.append(f"{theirs.title} has no commit up to {until} whose {_title(walk)} has it")
        heads = {each: seen[each].until for each in self.walks}
        for one in self.walks:
            for other in self.walks:
                if one is not other and (pinning := self._pins(one, other)):
                    heads[other] = _pin(pinning, seen[one].until) or heads[other]
        asked = [each for moves in asked for each in (moves, self._completed(moves, seen))]
        found: list[Moves] = []
        for moves in (*asked, {walk: heads.pop(walk), **heads}):
            usable = self._usable(moves, seen, blocked)
            new = len(usable) > 1 and usable not in found and walk in usable
            if new and is_ancestor(walk.project.upstream, bad, usable[walk]):
                found.append(usable)
        return found[:MOST], list(dict.fromkeys(blocked))

    def _completed(self, moves: Mapping[Walk, str], seen: Mapping[Walk, Observation]) -> dict[Walk, str]:
        """``moves`` and the other upstreams that pin what is moved, or are pinned by it, where those lag behind."""
        found = dict(moves)
        for moved, commit in moves.items():
            for other in (each for each in self.walks if each not in found):
                if (theirs := self._pins(other, moved)) and not theirs.contains(seen[other].base, commit):
                    if first := theirs.first_with(commit, seen[other].base, seen[other].until):
                        found[other] = first
                elif (own := self._pins(moved, other)) and (pin := _pin(own, commit)):
                    found[other] = pin
        return found

    def _usable(self, moves: Mapping[Walk, str], seen: Mapping[Walk, Observation], blocked: list[str]) -> Moves:
        """Those of ``moves`` that lead forward, on upstream's own commits; empty if one can't be had."""
        found: dict[Walk, str] = {}
        for walk, commit in moves.items():
            upstream, here = walk.project.upstream, seen[walk]
            try:
                if upstream.resolve(commit) is None:
                    upstream.require(commit)
            except (MachineError, GitError):
                blocked.append(f"{_title(walk)} at {commit[:12]}, which is pinned there, can't be fetched")
                return {}
            base = merge_base(upstream, commit, here.until)  # a pin may be a fork's
            if not base or not is_ancestor(upstream, here.base, base):
                continue  # the branch has it already
            if not is_ancestor(upstream, commit, here.until) and is_ancestor(upstream, here.until, commit):
                blocked.append(f"{_title(walk)} at {commit[:12]} is after {here.until[:12]}, where this walk goes to")
                return {}
            if base != here.base:
                found[walk] = base
        return found

    def step(self, moves: Moves) -> Step:
        """A combination. :raises PatchConflict: if the carried patches of one do not apply"""
        seen = {walk: self._seen(walk) for walk in moves}
        parts = [Move(walk, seen[walk], to, walk.observer.stack_at(seen[walk], to)) for walk, to in moves.items()]
        subject = " with ".join(f"{_title(walk)} to {to[:12]}" for walk, to in moves.items())
        return Step(moves=tuple(parts), spelled=self.spelled(moves), subject=f"Advance {subject}")

    def spelled(self, moves: Moves) -> str:
        """``NAME@COMMIT``, with ``+`` between several; as :func:`named` reads it."""
        return "+".join(f"{walk.project.slug}@{commit}".removeprefix("@") for walk, commit in moves.items())


def _title(walk: Walk) -> str:
    return walk.project.upstream.config.title


def _pins(one: Walk, other: Walk) -> Dependency | None:
    """``one``'s upstream as a repository that pins that of ``other``, if it does."""
    upstream = one.project.upstream
    with suppress(UsageError, GitError):
        return dependency(upstream, upstream.head(), other.project.upstream, title=_title(one), url=upstream.config.url)
    return None


def _pin(pinning: Dependency, commit: str) -> str:
    """The pin in a commit; empty if there is none."""
    try:
        return pinning.pin(commit)
    except (UsageError, GitError):
        return ""


def named(projects: Sequence[Integration], text: str) -> dict[Integration, str]:
    """The commits in ``NAME@REV``, or several with ``+`` between them, by the project whose upstream they are of.

    A name is not needed where there is only one.

    :raises UsageError: if a name is missing, or unknown here
    """
    found: dict[Integration, str] = {}
    for part in text.split("+") if projects[0].slug else [text]:
        name, at, revision = part.partition("@")
        called = (each for each in projects if name.lower() in (each.slug, each.upstream.config.title.lower()))
        project = next(called, None) if at and projects[0].slug else None
        if project is not None:
            found[project] = revision
        elif len(projects) == 1:
            found[projects[0]] = part
        else:
            raise UsageError(
                "option-invalid",
                f"{part!r} does not say which upstream it is of",
                where="NAME@REV",
                remedy=f"write NAME@REV, with one of: {', '.join(each.slug for each in projects)}",
            )
    return found
