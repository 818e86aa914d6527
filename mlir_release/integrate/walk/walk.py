"""The walk itself: read the branch, ask the strategy, probe, advance; until head, or until a person is needed.

All state between two steps is in git, so every step can be the first one of a new process, on another machine too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from mlir_release.ground import strategy as st
from mlir_release.ground.console import console, format_seconds
from mlir_release.ground.documents.trailers import format_message
from mlir_release.ground.errors import UsageError
from mlir_release.ground.foreign import in_commit
from mlir_release.ground.git import locks
from mlir_release.ground.git.remotes import push
from mlir_release.ground.git.shared import STATE
from mlir_release.ground.git.trees import merge_base
from mlir_release.ground.programs.trial import TrialCancelled
from mlir_release.integrate.patches.export import check_fork, export_others, export_stack
from mlir_release.integrate.patches.files import FIT, check_files, conflict, explained, follow
from mlir_release.integrate.patches.ledger import as_trailer, carried, superseded
from mlir_release.integrate.patches.patches import PatchConflict, Stack
from mlir_release.integrate.pins.generated import NONE_GENERATED, Generated, with_generated
from mlir_release.integrate.pins.refresh import prepared, refreshed
from mlir_release.integrate.project import Integration, branch_moved_remotely
from mlir_release.integrate.report import WalkEnd
from mlir_release.integrate.state import (
    CARRIES_AGAIN,
    DROPS,
    SKIPS,
    T_COMMITS,
    T_DROPPED,
    T_PATCHES,
    T_PIN,
    T_UPSTREAM,
    T_VERDICT,
    Record,
    retries,
)
from mlir_release.integrate.upstream import UpstreamCommit, shown
from mlir_release.integrate.walk.bisect import brought
from mlir_release.integrate.walk.observe import Observation, Observer
from mlir_release.integrate.walk.smoke import ProbeSlot, alone, always, smoke_test
from mlir_release.integrate.walk.tidy import tidy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """What a walk may do."""

    moves: bool = True  #: the branch. Without, nothing is exported: verdicts are all that comes of it
    pushes: bool = True
    probes: bool = True  #: without, it uses recorded verdicts, and ends as ``untested`` where a smoke test is needed
    dispatches: bool = True  #: a next round


ALL_ALLOWED = Allowed()


class Walk:
    """One integrate branch being walked. ``observer`` reads it; everything that changes it is here.

    :param branch: default: the integrate branch that is checked out
    :param publish: push the branch and the verdicts as they come
    :param weigh: see :class:`Observer`, as for ``ref``
    """

    def __init__(
        self,
        project: Integration,
        *,
        branch: str | None = None,
        publish: bool = False,
        weigh: Callable[[Sequence[UpstreamCommit]], list[float]] | None = None,
        ref: str = "",
    ) -> None:
        self.project = project
        self.branch = branch or project.branch()
        self.observer = Observer(project, self.branch, weigh=weigh, ref=ref)
        self.store = self.observer.store
        self.publish = publish
        project.signature()  # fail now rather than at the first commit
        self.tests = self.confirmations = self.cancelled = 0

    def strategy(self, name: str | None = None, width: int | None = None) -> tuple[st.Strategy, int]:
        """A strategy and how many probes run side by side; by default those of ``integrate.toml``."""
        configured = self.project.config.walk
        name = name or configured.strategy
        width = width or (8 if name == "parallel" and configured.width == 1 else configured.width)
        return st.make_strategy(name, width), width

    # -- probe ------------------------------------------------------------------------------------------------------

    def probe(
        self,
        seen: Observation,
        upstream: str,
        *,
        attempts: int = 0,
        needed: Callable[[], bool] = always,
        generated: Generated = NONE_GENERATED,
    ) -> Record:
        """The verdict at ``upstream``: the recorded one, else by a smoke test, which is recorded.

        Of several processes that ask for the same verdict here, one tests and the others wait.

        :param attempts: test again what is recorded as bad after fewer attempts, until it passes or has failed so often
        :param needed: see :func:`~mlir_release.integrate.walk.smoke.smoke_test`
        :param generated: what refresh commands have made for upstreams that ``seen`` has moved already
        :raises PatchConflict: if the carried patches do not apply there
        :raises TrialCancelled: once the verdict is not needed
        """
        question = self.observer.question(seen, upstream)
        log = self.project.log(question.key)

        def recorded() -> tuple[Record, bool]:
            """What is known, and whether that is enough."""
            known = self.store.load([question.key]).get(question.key, question)
            doubtful = known.verdict is st.Verdict.BAD and len(known.exits) < attempts
            return known, known is not question and not doubtful

        record, enough = recorded()
        if enough:
            return record
        with alone(log, upstream, needed):
            record, enough = recorded()  # by another process, meanwhile
            if enough:
                return record
            stack = self.observer.stack_at(seen, upstream)
            if stack.kept and any(also.value == "sha256" for also in self.project.upstream.config.also):
                export_stack(self.project, stack.tip)  # an archive is made where the commit was pushed
            head = seen.head
            if generated:
                tree = with_generated(self.project.outer, head, generated, self.project.config.upstreams)
                head = self.project.commit(tree, [head], "Try generated files\n")
            with prepared(self.project, head, stack.tip) as slot:
                console.say(f"    testing {upstream[:12]}{' again' if record.exits else ''}")
                record = self.answer(record, slot, log, attempts=attempts, needed=needed)
                record = structs.replace(record, generated={**generated, **slot.generated})
            self.store.record(record)
        console.say(f"    {upstream[:12]} is {record.verdict} after {format_seconds(record.seconds)}")
        return record

    def answer(
        self, question: Record, slot: ProbeSlot, log: Path, *, attempts: int = 0, needed: Callable[[], bool] = always
    ) -> Record:
        """``question`` with the answer of a smoke test in ``slot``, which holds its commits. Not recorded yet.

        :param question: one that has failed already is answered by all attempts together
        :param attempts: how many failures make it bad; default: as configured
        """
        usual, before = self.project.config.smoke.attempts, len(question.exits)
        wanted = max(1, (attempts or usual) - before)
        record = smoke_test(self.project, slot, question, log, attempts=wanted, needed=needed)
        made = len(record.exits) - before
        again = made if before else max(0, made - usual)
        self.tests += made - again
        self.confirmations += again
        return structs.replace(record, confirmations=question.confirmations + again)

    def probe_all(
        self, seen: Observation, known: st.Knowledge, positions: Sequence[int], width: int, *, attempts: int = 0
    ) -> None:
        """Test positions, up to ``width`` side by side; each verdict is recorded at once.

        ``attempts``: see :meth:`probe`.

        A test is cancelled when an answer of the same round has made it useless. Before the first answer all go on, or
        the strategy would decide on the same tests for ever.
        """
        fresh: dict[int, st.Verdict] = {}  # the answers of this round

        def one(position: int) -> bool:
            """Returns whether it was cancelled."""

            def needed() -> bool:
                return not fresh or st.tells(structs.replace(known, verdicts={**known.verdicts, **fresh}), position)

            upstream = seen.upstream_at(position)
            try:
                fresh[position] = self.probe(seen, upstream, attempts=attempts, needed=needed).verdict
            except PatchConflict as conflict:
                console.say(f"    {upstream[:12]} is untestable: {conflict.what}")
                fresh[position] = st.Verdict.UNTESTABLE
            except TrialCancelled:
                console.say(f"    {upstream[:12]} is not needed any more: cancelled")
                return True
            return False

        if width == 1 or len(positions) == 1:
            self.cancelled += sum(map(one, positions))
        else:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(width) as pool:
                self.cancelled += sum(pool.map(one, positions))
        if self.publish:
            self.store.push(self.project.config.downstream.remote)

    # -- advance ----------------------------------------------------------------------------------------------------

    def advance(
        self, seen: Observation, upstream: UpstreamCommit, stack: Stack, verdict: str, generated: Generated
    ) -> str:
        """Commit "Advance … to …" on the branch. The carried stack is exported before anything points at it."""
        commit = self.advance_commit(seen, upstream, stack, verdict, generated)
        self.project.move_branch(self.branch, commit)
        console.say(f"    advanced to {upstream.sha[:12]}")
        if self.publish:
            self.push_branch()
        return commit

    def advance_commit(
        self, seen: Observation, upstream: UpstreamCommit, stack: Stack, verdict: str, generated: Generated
    ) -> str:
        """Make that commit, with the ``generated`` files that were tested; the branch does not move."""
        project = self.project
        lines, trailers = self.advance_text(seen, upstream, stack, verdict)
        subject = f"Advance {project.upstream.config.title} to {upstream.sha[:12]}"
        message = format_message(subject, "\n".join(lines), trailers)
        return project.pin_commit(seen.head, stack.tip, message, generated)

    def advance_text(
        self, seen: Observation, upstream: UpstreamCommit, stack: Stack, verdict: str
    ) -> tuple[list[str], dict[str, object]]:
        """The lines and the trailers of that commit's message, for this upstream. The carried stack is exported."""
        project = self.project
        if stack.kept:
            export_stack(project, stack.tip)
        lines = [f"{upstream.sha} {in_commit(upstream.title)}"]
        lines += [f"carries {patch.sha[:12]} {in_commit(shown(patch.subject))}" for patch in stack.kept]
        told = [f"{DROPS} {patch.sha[:12]} {shown(patch.subject)}: {reason}" for patch, reason in stack.dropped]
        told += [f"{SKIPS} {line}" for line in self.observer.skipped(seen, upstream.sha)]
        told += [f"{CARRIES_AGAIN} {patch.sha[:12]} {shown(patch.subject)}" for patch in stack.awake]
        followed = follow(project, seen.head, stack.tip)
        for line in (*told, *followed.told):
            console.say(f"    {line}")
        lines += [*map(in_commit, told), *followed.told]
        dropped = " ".join([*as_trailer(stack.asleep).split(), *followed.asleep])
        trailers = {
            T_UPSTREAM: upstream.sha,
            T_PIN: stack.tip,
            T_COMMITS: len(project.upstream.affecting(seen.base, upstream.sha)),
            T_PATCHES: len(stack.kept),
            T_VERDICT: verdict,
            **({T_DROPPED: dropped} if dropped else {}),
        }
        return lines, project.named(trailers)

    def push_branch(self) -> None:
        """Push the branch and its verdicts, after the commits that it pins in other submodules.

        :raises ConflictError: if the branch has other commits at the remote
        """
        remote = self.project.config.downstream.remote
        export_others(self.project, f"refs/heads/{self.branch}", cloned=True)
        self.store.push(remote)
        if not push(self.project.outer, remote, f"refs/heads/{self.branch}:refs/heads/{self.branch}"):
            raise branch_moved_remotely(self.project, self.branch)

    def next(self, *, to: str | None = None, resolved: str | None = None) -> str | None:
        """Advance once, without a test: to the next affecting commit, or exactly to ``to``. Returns None at head.

        :param resolved: a commit with the carried stack rebased by hand onto ``to``
        :raises PatchConflict: if the carried patches do not apply there
        """
        if resolved is not None and to is None:
            raise UsageError(
                "option-invalid",
                "--resolved needs --advance-to",
                remedy="give the upstream commit that the rebased stack is on with --advance-to",
            )
        self.project.refuse_dirty()
        seen = self.observer.look()
        self.project.check_copies(seen.head)
        if to is not None:
            target = self.project.upstream.commit(to)
            if resolved is None or target.sha != seen.base:
                target = self.project.upstream.within(to, seen.base, seen.until)
        elif seen.ahead:
            target = seen.ahead[0]
        else:
            return None
        if resolved is not None:
            tip = self.project.upstream.commit(resolved).sha
            base = merge_base(self.project.upstream, tip, seen.until)
            if base != target.sha:
                raise UsageError(
                    "revision-unsuitable",
                    f"the resolved stack {tip[:12]} is not based on {target.sha[:12]}",
                    why=f"it is based on {base[:12]}" if base else "it shares no history with the upstream",
                    remedy=f"rebase it onto {target.sha}, or --advance-to the commit that it is based on",
                )
            unneeded = superseded(self.project.upstream, [a.patch for a in seen.asleep], seen.base, target.sha)
            asleep = tuple(each for each in seen.asleep if each.patch.sha in unneeded)
            stack = Stack(target.sha, tip, tuple(carried(self.project.upstream, base, tip)), asleep=asleep)
        else:
            stack = self.observer.replayed(seen, target.sha)
            if unfit := conflict(self.project, seen.head, stack.tip, target.sha):
                console.warn(f"{unfit.what}: {FIT}")
        generated = refreshed(self.project, seen.head, stack.tip)
        return self.advance(seen, target, stack, self.verdict_at(seen, target.sha), generated)

    def verdict_at(self, seen: Observation, upstream: str) -> str:
        """What is recorded of a commit, in a word."""
        known = (str(r.verdict) for r in self.observer.verdicts(seen).values() if r.upstream == upstream)
        return next(known, "untested")

    def turn(self) -> AbstractContextManager[int | None]:
        """A lock of walks in this checkout that run side by side: one at a time looks at it and moves the branch."""
        return locks.exclusive(self.project.outer.common / STATE / "walk.lock")

    # -- the loop ---------------------------------------------------------------------------------------------------

    def run(
        self, strategy: st.Strategy, *, width: int = 1, until: str | None = None, allowed: Allowed = ALL_ALLOWED
    ) -> WalkEnd:
        """Probe, advance, narrow, until the goal or a culprit; the branch is then at the last good commit."""
        if allowed.moves:
            with self.turn():
                self.project.refuse_dirty()
        if self.publish or not allowed.moves:
            self.store.pull(self.project.config.downstream.remote)
        if allowed.probes and allowed.moves:  # a probe's work tree fetches other submodules' commits from their remotes
            export_others(self.project, f"refs/heads/{self.branch}", cloned=True)
            failed = {key for key, record in self.store.load().items() if record.verdict is st.Verdict.BAD}
            tidy(self.project, kept=failed)
        goal, fetch, told = until, True, ""
        while True:
            with self.turn():
                seen = self.observer.look(until=goal, fetch=fetch)
                self.project.check_copies(seen.head)
                if fetch:
                    check_files(self.project, seen.head, seen.pin, seen.base)
                    check_fork(self.project, seen.pin, seen.base)
                goal, fetch = seen.until, False  # one walk goes to one head
                records = self.observer.verdicts(seen)
                reach = self.observer.reach(seen)
                if 0 < reach < len(seen.ahead) and not told:
                    told = f"{seen.upstream_at(reach)[:12]}, {reach} of {len(seen.ahead)} commits ahead"
                    console.say(f"    the carried patches apply up to {told}")
                known = self.observer.knowledge(seen, records, reach=reach)
                decision = strategy.decide(known)
                best = strategy.reached(known)
                if best > 0 and allowed.moves:
                    target = seen.ahead[best - 1]
                    stack = self.observer.stack_at(seen, target.sha)
                    self.advance(seen, target, stack, str(st.Verdict.GOOD), records[best].generated)
                    continue
            before = decision
            decision, attempts = self.observer.doubted(seen, known, records, before, strategy)
            if isinstance(decision, st.Probe) and decision is not before and not attempts:
                console.say(f"    upstream undoes the culprit in {seen.upstream_at(decision.positions[0])[:12]}")
            if not isinstance(decision, st.Probe):
                end = self._end(seen, records, decision)
                if end.outcome == "culprit" and allowed.probes:
                    inside = brought(self.project, seen.head, end.good, end.bad)
                    end = replace(end, suspects=(*end.suspects, *inside))
                return end
            testable = (self.observer.applies(seen, seen.upstream_at(position)) for position in decision.positions)
            if not allowed.probes and any(testable):
                return self._end(seen, records, decision)
            self.probe_all(seen, known, decision.positions, width, attempts=attempts)

    def _end(self, seen: Observation, records: dict[int, Record], decision: st.Decision) -> WalkEnd:
        retried, tested = retries(self.observer.recorded.values())
        end = partial(
            WalkEnd.of,
            self.observer,
            seen,
            smoke_tests=self.tests,
            confirmations=self.confirmations,
            cancelled=self.cancelled,
            retried=retried,
            tested=tested,
        )
        if self.publish:
            self.push_branch()
        match decision:
            case st.Probe():
                return end(outcome="untested")
            case st.Done():
                return end(outcome="head", good=seen.upstream_at(len(seen.ahead)))  # a dry walk's base stays behind
            case st.BaseBroken(position):
                record = records.get(0) or records.get(position)
                return end(outcome="broken-base", bad=seen.upstream_at(position), record=record)
            case st.Stuck(good):
                here, found = seen.upstream_at(good), self.observer.conflict_in(seen, good + 1, good + 1)
                found = explained(self.project, seen.head, here, partial(self.observer.replayed, seen), found)
                return end(
                    outcome="conflict" if found else "stuck",
                    good=here,
                    bad=seen.upstream_at(min(good + 1, len(seen.ahead))),
                    suspects=(found.by or seen.ahead[good : good + 1]) if found else seen.ahead[good:],
                    conflict=found,
                )
            case st.Culprit(bad):
                good = bad - 1
            case st.Range(good, bad):
                pass
        return end(
            outcome="culprit" if good == bad - 1 else "range",
            good=seen.upstream_at(good),
            bad=seen.upstream_at(bad),
            suspects=seen.ahead[good:bad],
            record=records.get(bad),
            conflict=self.observer.conflict_in(seen, good + 1, bad - 1),
            undone=self.observer.undoing(seen, records, decision),
        )
