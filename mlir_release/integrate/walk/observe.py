"""Reads the state of an integrate at one moment, and the known verdicts on the commits ahead. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from msgspec import structs

from mlir_release.ground import strategy as st
from mlir_release.ground.git.trees import merge_commits, tree_of
from mlir_release.integrate.patches.files import FileConflict, conflict, fitting
from mlir_release.integrate.patches.ledger import Asleep, carried, remembered, undone_at
from mlir_release.integrate.patches.patches import REFUSED, PatchConflict, Stack, fates, rebase
from mlir_release.integrate.state import ProbeStore, Record, past_of, setting_of
from mlir_release.integrate.walk.doubt import attempts_wanted, blamed
from mlir_release.integrate.walk.risk import remember

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mlir_release.ground.git.patch import Patch
    from mlir_release.integrate.project import Integration
    from mlir_release.integrate.upstream import UpstreamCommit


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The state of a branch at one moment. Position 0 is ``base``; position i is ``ahead[i - 1]``."""

    branch: str
    head: str  #: outer commit
    pin: str
    base: str  #: pristine upstream commit under the pin
    until: str  #: upstream commit that the walk goes to
    patches: tuple[Patch, ...]
    asleep: tuple[Asleep, ...]  #: patches that were dropped
    ahead: tuple[UpstreamCommit, ...]
    fixed: bool  #: the branch has other commits since its last advance
    rate: st.BreakRate

    def upstream_at(self, position: int) -> str:
        """The pristine upstream commit of a position."""
        return self.ahead[position - 1].sha if position else self.base


class Observer:
    """Reads one branch and its records.

    :param branch: its name; ``HEAD`` for whatever is checked out
    :param weigh: gives the relative risk of each commit ahead (default: all alike)
    :param ref: a commit, or a ref that names it, which is read in place of the branch's
    """

    def __init__(
        self,
        project: Integration,
        branch: str,
        *,
        weigh: Callable[[Sequence[UpstreamCommit]], list[float]] | None = None,
        ref: str = "",
    ) -> None:
        self.project = project
        self.branch = branch
        self.ref = ref or ("HEAD" if branch == "HEAD" else f"refs/heads/{branch}")  #: whose commit is read
        self.store = ProbeStore(project.outer, branch, project.signature)
        self.recorded: dict[str, Record] = {}  #: all of the branch, as :meth:`verdicts` has last read them
        self._weigh = weigh
        self._asked: set[tuple[str, str]] = set()
        self._stacks: dict[tuple[str, str], Stack | PatchConflict] = {}
        self._unfit: dict[tuple[str, str], FileConflict | None] = {}
        self._fates: dict[tuple[str, str], dict[str, str]] = {}
        self._newest = ""  # what upstream is read up to, once for all questions
        self._limits: dict[str, str] = {}  # where the walk ends -> the commit that the patches stop applying at, or ""
        self._trees: dict[str, str] = {}
        self._outer_key = cache(project.outer_key)
        self._has_files = bool(project.upstream.config.patches)

    @cached_property
    def setting(self) -> str:
        """See :func:`~mlir_release.integrate.state.setting_of`."""
        tables = [table.refresh for table in self.project.config.upstreams if table.refresh is not None]
        return setting_of(self.project.config.smoke, refreshes=tables)

    def look(self, *, until: str | None = None, fetch: bool = True) -> Observation:
        """Read the branch and the upstream, which is fetched first unless ``fetch`` is False."""
        project, upstream = self.project, self.project.upstream
        self._newest = upstream_head = upstream.fetch() if fetch else upstream.head()
        past = past_of(project.outer, self.ref, project.names)
        pin = project.pin(past.head)
        base = upstream.base_of(pin, upstream_head, recorded=past.upstream)
        goal = upstream_head
        if until is not None:
            commit = upstream.commit(until)
            goal = commit.sha if commit.sha == base else upstream.within(until, base, upstream_head).sha
        ahead = tuple(upstream.affecting(base, goal))
        self._trees.update((commit.sha, commit.tree) for commit in ahead)
        return Observation(
            branch=self.branch,
            head=past.head,
            pin=pin,
            base=base,
            until=goal,
            patches=tuple(carried(upstream, base, pin)),
            asleep=remembered(upstream, past.dropped, base),
            ahead=ahead,
            fixed=past.fixed,
            rate=past.rate,
        )

    def stack_at(self, seen: Observation, upstream: str) -> Stack:
        """The carried stack replayed onto ``upstream``. :raises PatchConflict: also if a patch file does not fit"""
        stack, key = self.replayed(seen, upstream), (seen.head, upstream)
        if key not in self._unfit:
            self._unfit[key] = conflict(self.project, seen.head, stack.tip, upstream)
        if found := self._unfit[key]:
            raise found
        return stack

    def replayed(self, seen: Observation, upstream: str) -> Stack:
        """The same, whatever becomes of patch files."""
        if upstream == seen.base or not (seen.patches or seen.asleep):
            return Stack(upstream, seen.pin if upstream == seen.base else upstream, seen.patches, asleep=seen.asleep)
        key = (seen.pin, upstream)
        if key not in self._stacks:
            try:
                self._stacks[key] = rebase(
                    *(self.project.upstream, seen.patches, seen.base, upstream), asleep=seen.asleep, until=self._newest
                )
            except PatchConflict as conflict:
                self._stacks[key] = conflict
        found = self._stacks[key]
        if isinstance(found, PatchConflict):
            raise found
        return found

    def applies(self, seen: Observation, upstream: str) -> bool:
        """Whether the carried patches apply on ``upstream``."""
        try:
            self.stack_at(seen, upstream)
        except PatchConflict:
            return False
        return True

    def conflict_in(self, seen: Observation, low: int, high: int) -> PatchConflict | None:
        """The first conflict that :meth:`stack_at` found from one position to another, where it has been asked."""
        for upstream in map(seen.upstream_at, range(low, min(high, len(seen.ahead)) + 1)):
            found = self._unfit.get((seen.head, upstream)) or self._stacks.get((seen.pin, upstream))
            if isinstance(found, PatchConflict):
                return found
        return None

    def fates(self, seen: Observation, upstream: str) -> dict[str, str]:
        """See :func:`~mlir_release.integrate.patches.patches.fates`: of the carried patches at ``upstream``."""
        key = (seen.pin, upstream)
        if key not in self._fates:
            asked = (self.project.upstream, seen.patches, seen.base, upstream)
            known = seen.patches or seen.asleep
            self._fates[key] = fates(*asked, asleep=seen.asleep, until=self._newest) if known else {}
        return self._fates[key]

    def refused(self, seen: Observation, position: int) -> dict[str, str]:
        """Why carried patches and patch files do not apply at a position, by their ids and paths."""
        told = self.fates(seen, seen.upstream_at(position)) if position else {}
        refused = {sha: fate for sha, fate in told.items() if fate.startswith(REFUSED)}
        if position and not refused and self._has_files and not self.applies(seen, seen.upstream_at(position)):
            unfit = self._unfit.get((seen.head, seen.upstream_at(position)))
            refused = dict(unfit.refused) if unfit else refused
        return refused

    def reach(self, seen: Observation) -> int:
        """The last position that the carried patches apply up to: the next one conflicts, and so does the last of all.

        It is found by merges alone, no test. What applies beyond a conflict again is within reach. An advance makes a
        new stack: what was found for an earlier one counts until the walk is there, and is checked then.
        """
        upstream, last, known = self.project.upstream, len(seen.ahead), self._limits.get(seen.until)
        if not (seen.patches or seen.asleep or self._has_files) or not seen.ahead or known == "":
            return last
        place = next((position for position, commit in enumerate(seen.ahead, 1) if commit.sha == known), 0)
        if place == 0 and self.refused(seen, last):
            # All patches at once say nearly the same, and cost one merge; where they don't, each is asked for itself.
            if seen.patches:
                place = _edge(last, lambda at: not merge_commits(upstream, seen.pin, seen.upstream_at(at)).conflicts)
            if not self.refused(seen, place) or self.refused(seen, place - 1):
                place = _edge(last, lambda position: not self.refused(seen, position))
        if place == 1 and self.applies(seen, seen.upstream_at(1)):
            place = 0
        self._limits[seen.until] = seen.upstream_at(place) if place else ""
        return place - 1 if place else last

    def question(self, seen: Observation, upstream: str) -> Record:
        """The record of a test at ``upstream``, still without an answer, which :meth:`verdicts` looks for from now on.

        :raises PatchConflict: if the carried patches do not apply there
        """
        tip = self.stack_at(seen, upstream).tip
        self._asked.add((seen.pin, upstream))
        for commit in {tip, upstream} - self._trees.keys():
            self._trees[commit] = tree_of(self.project.upstream, commit)
        return Record(
            verdict=st.Verdict.UNTESTABLE,
            upstream=upstream,
            upstream_tree=self._trees[tip] + self.project.version(seen.head, tip),
            pristine_tree=self._trees[upstream],
            outer=self._outer_key(fitting(self.project, seen.head, tip)),
            setting=self.setting,
            of=self.project.slug,
        )

    def verdicts(self, seen: Observation) -> dict[int, Record]:
        """The recorded verdicts, by position.

        A verdict belongs to trees, not to commits: a commit and the revert of its successor share one.
        """
        records = self.recorded = self.store.load()
        if not records:
            return {}
        trees = {record.pristine_tree for record in records.values()}
        found = {}
        for position in range(len(seen.ahead) + 1):
            upstream = seen.upstream_at(position)
            asked = position == 0 or seen.ahead[position - 1].tree in trees or (seen.pin, upstream) in self._asked
            if asked and self.applies(seen, upstream):
                record = records.get(self.question(seen, upstream).key)
                if record is not None:
                    found[position] = record
        for other in self.project.everyone:  # a test of the branch as it is may have been about another upstream
            if 0 not in found and other is not self.project and other.upstream.resolve(pin := other.pin(seen.head)):
                tree = tree_of(other.upstream, pin) + other.version(seen.head, pin)
                key = Record.key_of(other.outer_key(seen.head), tree, self.setting)
                if key in records:
                    found[0] = structs.replace(records[key], upstream=seen.base, of=self.project.slug)
        return found

    def unconfirmed(
        self, known: st.Knowledge, records: dict[int, Record], decision: st.Decision
    ) -> tuple[int, int] | None:
        """The position to test again before ``decision`` blames it, and how often it must have failed then.

        None: it blames no commit, or one that has failed often enough.
        """
        bad = blamed(known, decision)
        failures = {position: len(r.exits) for position, r in records.items() if r.verdict is st.Verdict.BAD}
        if bad not in failures:
            return None
        passing = (r for r in self.recorded.values() if r.verdict is st.Verdict.GOOD and r.setting == self.setting)
        passed = [len(record.exits) - 1 for record in passing if record.exits]
        smoke = self.project.config.smoke
        wanted = attempts_wanted(
            known, decision, failures, passed, attempts=smoke.attempts, confirmations=smoke.confirmations
        )
        return (bad, wanted) if failures[bad] < wanted else None

    def doubted(
        self,
        seen: Observation,
        known: st.Knowledge,
        records: dict[int, Record],
        decision: st.Decision,
        strategy: st.Strategy,
    ) -> tuple[st.Decision, int]:
        """``decision``, or what to test before a person is called for it; and how often that must have failed then.

        First the commit ahead that undoes a culprit (0 times: as configured), unless the strategy stops at every break.
        """
        position = self.undone_at(seen, decision)
        if 0 < position <= known.n and position not in known.verdicts:
            passed = structs.replace(known, verdicts={**known.verdicts, position: st.Verdict.GOOD})
            if strategy.decide(passed) != decision:
                return st.Probe((position,)), 0
        again = self.unconfirmed(known, records, decision)
        return (st.Probe(again[:1]), again[1]) if again is not None else (decision, 0)

    def undone_at(self, seen: Observation, decision: st.Decision) -> int:
        """The position of the commit ahead that undoes a culprit; 0: there is none."""
        culprit = decision.position if isinstance(decision, st.Culprit) else 0
        return undone_at(self.project.upstream, seen.ahead, culprit) if culprit else 0

    def undoing(self, seen: Observation, records: dict[int, Record], decision: st.Decision) -> str:
        """A sentence about the commit ahead that undoes a culprit, and its verdict; empty: there is none."""
        position = self.undone_at(seen, decision)
        verdict = records[position].verdict if position in records else "not tested"
        return f"Upstream undoes it in {seen.upstream_at(position)[:12]}: {verdict}." if position else ""

    def skipped(self, seen: Observation, upstream: str) -> list[str]:
        """Culprits that an advance to ``upstream`` would pass over, a line each."""
        if upstream == seen.base or not any(record.verdict is st.Verdict.BAD for record in self.recorded.values()):
            return []
        verdicts = {position: record.verdict for position, record in self.verdicts(seen).items()}
        lines = []
        for position, commit in enumerate(seen.ahead, 1):
            if commit.sha == upstream:
                break
            if verdicts.get(position) is st.Verdict.BAD and verdicts.get(position - 1) is st.Verdict.GOOD:
                by = self.undone_at(seen, st.Culprit(position))
                why = f"undone in {seen.upstream_at(by)[:12]}" if by else "mended later"
                lines.append(f"{commit.sha[:12]} {commit.title}: it tested bad, but is {why}; others may hide behind")
        return lines

    def other_settings(self) -> str:
        """A clause about verdicts that don't count, because the smoke test was another one; empty: there are none."""
        count = sum(record.setting != self.setting for record in self.recorded.values())
        names = self.project.config.smoke.environment
        values = f", other values of {', '.join(names)}," if names else ""
        told = f"{count} verdicts of this branch that were made with another smoke command{values} or on another system"
        return told if count else ""

    def knowledge(self, seen: Observation, records: dict[int, Record], *, reach: int | None = None) -> st.Knowledge:
        """The input of the strategies: recorded verdicts, and the conflicts that were found.

        What was recorded of the same commits with other sources, before a merge of main or a fix, is no verdict here:
        it only makes them likelier to be bad.

        :param reach: see :meth:`reach`: the walk's last position. At 0 all that is ahead can't be tested. None: the
            last commit ahead
        """
        last = reach or len(seen.ahead)
        verdicts = {position: record.verdict for position, record in records.items() if position <= last}
        for position in range(1, last + 1):
            if reach == 0 or self.conflict_in(seen, position, position):
                verdicts[position] = st.Verdict.UNTESTABLE
        positions = {commit.sha: position for position, commit in enumerate(seen.ahead, 1)}
        earlier: dict[tuple[str, str], dict[int, st.Verdict]] = {}  # by position, for other sources or smoke tests each
        for record in filter(lambda record: self.project.owns(record.of), self.recorded.values()):
            line = earlier.setdefault((record.outer, record.setting), {})
            position = positions.get(
                record.upstream, 0
            )  # all that is not ahead shares 0, which is bad if one of it was
            if position or line.get(0) is not st.Verdict.BAD:
                line[position] = record.verdict
        if earlier:
            earlier.pop((self._outer_key(seen.head), self.setting), None)
        factors = self._weigh(seen.ahead) if self._weigh else [1.0] * len(seen.ahead)
        factors = remember(factors, seen.rate.mean(), list(earlier.values()))[:last]
        return st.Knowledge(last, verdicts, st.risks(seen.rate, factors, fixed=seen.fixed))


def _edge(last: int, applies: Callable[[int], bool]) -> int:
    """A position that ``applies`` is false of, and true of the one before: the highest of some. At ``last`` it is
    false, at 0 true."""
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if applies(middle) else (low, middle)
        if high - low == 1:  # what was refused may be taken again farther on
            farther = (high + (1 << power) for power in range((last - high).bit_length()))
            again = next((position for position in farther if position < last and applies(position)), None)
            low, high = (again, last) if again is not None else (low, high)
    return high
