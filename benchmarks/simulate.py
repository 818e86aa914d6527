"""Replay recorded or generated walks through the same strategy code, counting smoke tests and rounds.

Usage: ``python -m benchmarks.simulate --help``, in a checkout of the toolkit.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from math import comb, log2
from pathlib import Path
from statistics import fmean as mean
from typing import TYPE_CHECKING, Annotated, Any

import click
from msgspec import Meta, Struct

from mlir_release.cli.app import main
from mlir_release.cli.options import json_option
from mlir_release.ground import strategy as st
from mlir_release.ground.console import console
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.errors import UsageError
from mlir_release.ground.storage.files import read_document
from mlir_release.integrate.walk.doubt import attempts_wanted, blamed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Scenario:
    """One integrate: the downstream's result at each of ``n`` affecting commits.

    :param breaks: position of a break -> position where upstream fixes it by itself, or None if it persists
    :param untestable: positions where no smoke test can run
    :param flaky: probability that a test of a good commit fails all the same
    :param factors: relative risk of each commit as a strategy may know it; empty: nothing known
    :param minutes: recorded durations of smoke tests: one is drawn for each test; empty: all take one minute
    """

    n: int
    breaks: Mapping[int, int | None]
    untestable: frozenset[int] = frozenset()
    flaky: float = 0.0
    factors: Sequence[float] = ()
    minutes: Sequence[float] = ()

    @property
    def linear_tests(self) -> int:
        """One test a commit, and one more a fix."""
        return self.n + len(self.breaks)

    def verdict(self, position: int, fixed: frozenset[int]) -> st.Verdict:
        """The verdict of a reliable smoke test at ``position`` with some breaks fixed downstream."""
        if position in self.untestable:
            return st.Verdict.UNTESTABLE
        for start, healed in self.breaks.items():
            if start <= position and start not in fixed and (healed is None or position < healed):
                return st.Verdict.BAD
        return st.Verdict.GOOD


@dataclass
class ReplayResult:
    """The cost and the answers of one replayed integrate."""

    tests: int = 0  #: that came to an answer, retries included, confirmations not
    confirmations: int = 0  #: repetitions of failed tests, before a commit was named
    cancelled: int = 0  #: ended without one, because an answer of the same round had made them useless
    rounds: int = 0
    minutes: float = 0.0  #: of all machines
    elapsed: float = 0.0  #: minutes in which something was tested
    culprits: list[int] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    false_culprits: int = 0
    finished: bool = False


def replay(
    world: Scenario,
    strategy: st.Strategy,
    *,
    rate: st.BreakRate | None = None,
    retries: int = 1,
    retest: bool = False,
    confirm: bool = True,
    generator: random.Random | None = None,
) -> ReplayResult:
    """Walk through ``world``: probe, advance, confirm the culprit, name it, fix it there, continue.

    :param retest: test every fix separately, instead of relying on the next probe ahead
    :param confirm: False: name a culprit after its first failed test, as if tests never failed for no reason
    """
    outcome = ReplayResult()
    fixed: frozenset[int] = frozenset()
    here = 0  # the affecting commit that the branch is at
    rate = rate or st.BreakRate()
    generator = generator or random.Random(0)
    passed: list[int] = []
    while True:
        known: dict[int, st.Verdict] = {}
        failures: dict[int, int] = {}
        factors = world.factors[here:] if world.factors else [1.0] * (world.n - here)
        chances = st.risks(rate, factors, fixed=bool(fixed))
        forced = retest and bool(fixed)
        while True:
            knowledge = st.Knowledge(world.n - here, known, chances)
            decision = st.Probe((0,)) if forced and not known else strategy.decide(knowledge)
            probing = _Round(world, here, fixed, retries, generator, outcome, failures, passed)
            if isinstance(decision, st.Probe):
                probing.run(knowledge, decision.positions, known)
                continue
            bad = blamed(knowledge, decision)
            wanted = attempts_wanted(knowledge, decision, failures, passed, attempts=1 + retries) if confirm else 0
            if bad is None or failures.get(bad, 0) >= wanted:
                break
            known[bad] = probing.confirm(bad, wanted)
        match decision:
            case st.Done() | st.Stuck():
                outcome.finished = isinstance(decision, st.Done)
                return outcome
            case st.Culprit(bad):
                outcome.culprits.append(here + bad)
            case st.Range(good, bad):
                outcome.ranges.append((here + good, here + bad))
            case st.BaseBroken(bad):
                pass
        broken = here + bad
        culprits = {start for start in world.breaks if start <= broken} - fixed
        if not culprits:
            outcome.false_culprits += 1
            if isinstance(decision, st.BaseBroken):  # a flaky base: a person looks, and starts the walk again
                continue
        low = max((p for p, verdict in known.items() if verdict is st.Verdict.GOOD and here + p < broken), default=0)
        rate = rate.after(commits=broken - here, breaks=1)
        fixed |= {start for start in culprits if start > here + low} or culprits
        here = broken


@dataclass(frozen=True)
class _Round:
    """Probes that begin together, from the branch's position ``here``; each answer may cancel others."""

    world: Scenario
    here: int
    fixed: frozenset[int]
    retries: int
    generator: random.Random
    outcome: ReplayResult
    failures: dict[int, int]  #: how often each bad position has failed
    passed: list[int]  #: how often each test that passed had failed before

    def run(self, knowledge: st.Knowledge, positions: Sequence[int], known: dict[int, st.Verdict]) -> None:
        """Add the answers to ``known``, which ``knowledge`` reads."""
        takes = self.world.minutes
        running = sorted((self.generator.choice(takes) if takes else 1.0, position) for position in positions)
        self.outcome.rounds += 1
        now = 0.0
        while running:
            now, position = running.pop(0)
            known[position] = self._test(position)
            # A test that ends at the same moment can't be cancelled any more.
            needed = [test for test in running if test[0] == now or st.tells(knowledge, test[1])]
            cancelled = len(running) - len(needed)
            self.outcome.cancelled += cancelled
            self.outcome.minutes += now * (1 + cancelled)
            running = needed
        self.outcome.elapsed += now

    def confirm(self, position: int, wanted: int) -> st.Verdict:
        """Repeat a failed test until it passes or has failed ``wanted`` times.

        That is counted, but in neither rounds nor minutes: a linear walk has to do the same.
        """
        before = self.failures.pop(position, 0)
        verdict, attempts = self._attempt(self.here + position, before, wanted)
        self.outcome.confirmations += attempts
        return self._keep(position, verdict, before + attempts)

    def _test(self, position: int) -> st.Verdict:
        verdict, attempts = self._attempt(self.here + position, 0, 1 + self.retries)
        self.outcome.tests += attempts
        return self._keep(position, verdict, attempts)

    def _keep(self, position: int, verdict: st.Verdict, attempts: int) -> st.Verdict:
        if verdict is st.Verdict.BAD:
            self.failures[position] = attempts
        elif verdict is st.Verdict.GOOD:
            self.passed.append(attempts - 1)
        return verdict

    def _attempt(self, commit: int, before: int, wanted: int) -> tuple[st.Verdict, int]:
        """The verdict on a commit that has failed ``before`` times, and how many attempts more that took."""
        truth = self.world.verdict(commit, self.fixed)
        for attempt in range(before + 1, wanted + 1):
            flaked = truth is st.Verdict.GOOD and self.world.flaky > 0 and self.generator.random() < self.world.flaky
            if truth is not st.Verdict.BAD and not flaked:
                return truth, attempt - before
        return st.Verdict.BAD, wanted - before


# -- sets of walks -----------------------------------------------------------------------------------------------------


#: Minutes between two advances that were a smoke test: below, a script advanced by many; above, people were away.
_SHORTEST, _LONGEST = 0.5, 15.0


class _Walk(Struct, frozen=True, kw_only=True):
    """A recorded walk. Simulating one takes time and memory by its advances: the longest had some hundreds."""

    date: str
    advances: Annotated[int, Meta(ge=1, le=10_000)]
    fix_after_advance: tuple[int, ...]  #: positions
    minutes_between_advances: tuple[float, ...] = ()


class _Recorded(Struct, frozen=True):
    walks: Annotated[tuple[_Walk, ...], Meta(min_length=1)]


def load_walks(path: Path) -> list[Scenario]:
    """Recorded walks, oldest first. :raises UsageError: if the file is not of that form."""
    try:
        walks = sorted(from_json(read_document(path), _Recorded).walks, key=lambda walk: walk.date)
    except (OSError, MalformedError) as error:
        raise UsageError(
            "input-invalid",
            "the file with the recorded walks can't be read",
            where=str(path),
            why=str(error),
            remedy='give a JSON file {"walks": [{"date": …, "advances": N, "fix_after_advance": [positions]}, …]}',
        ) from error
    pauses = [pause for walk in walks for pause in walk.minutes_between_advances]
    minutes = [pause for pause in pauses if _SHORTEST < pause <= _LONGEST]
    return [Scenario(n=walk.advances, breaks=dict.fromkeys(walk.fix_after_advance), minutes=minutes) for walk in walks]


def generate_walks(
    *, commits: int, break_rate: float, flaky: float, seeds: int, telling: float = 0.0
) -> list[Scenario]:
    """``seeds`` walks over ``commits`` commits, each of which breaks with probability ``break_rate``.

    :param telling: share of the commits that can't break the downstream, because they touch nothing that it uses. The
        others break it more often, and the strategy knows which is which.
    """
    worlds = []
    for seed in range(seeds):
        generator = random.Random(seed)
        idle = [generator.random() < telling for _ in range(commits)]
        rate = break_rate / (1 - telling)
        breaks = {i + 1: None for i, skip in enumerate(idle) if generator.random() < (0.0 if skip else rate)}
        # Not zero: even a commit that seems irrelevant may break something.
        factors = [0.02 if skip else 1 / (1 - telling) for skip in idle] if telling else ()
        worlds.append(Scenario(n=commits, breaks=breaks, flaky=flaky, factors=factors))
    return worlds


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Sums over a set of walks. Ratios are to ``linear`` and ``floor``."""

    strategy: str
    walks: int
    tests: int  #: that came to an answer
    confirmations: int  #: of culprits, apart from ``tests``
    cancelled: int
    rounds: int
    minutes: float  #: of all machines
    elapsed: float
    linear: int  #: one test a commit, one re-test a fix
    linear_minutes: float
    floor: float  #: Σ log2 C(n, d) + d, in tests
    culprits: int
    missed: int  #: breaks that were not named
    false_culprits: int

    def as_json(self) -> dict[str, object]:
        """The sums, and the ratios that people compare."""
        return {
            **vars(self),
            **{key: round(getattr(self, key), 2) for key in ("floor", "minutes", "elapsed", "linear_minutes")},
            "tests_to_linear": round(self.tests / self.linear, 4),
            "tests_to_floor": round(self.tests / self.floor, 4) if self.floor else None,
            "rounds_to_linear": round(self.rounds / self.linear, 4),
            "minutes_to_linear": round(self.minutes / self.linear_minutes, 4),
            "elapsed_to_linear": round(self.elapsed / self.linear_minutes, 4),
        }


def summarize(
    worlds: Sequence[Scenario],
    name: str,
    *,
    width: int = 1,
    retries: int = 1,
    learn: bool = True,
    retest: bool = False,
    confirm: bool = True,
) -> Summary:
    """Replay all of ``worlds`` in order. ``learn``: each walk's break rate is known to the next, as it is in git.

    The other parameters: see :func:`replay`.
    """
    strategy = st.make_strategy(name, width)
    rate = st.BreakRate()
    outcomes = []
    for number, world in enumerate(worlds):
        generator = random.Random(f"flaky {number}")
        outcome = replay(
            world, strategy, rate=rate, retries=retries, retest=retest, confirm=confirm, generator=generator
        )
        outcomes.append(outcome)
        if learn:
            rate = rate.after(commits=world.n, breaks=len(outcome.culprits) + len(outcome.ranges))
    named = [set(outcome.culprits) | {bad for _, bad in outcome.ranges} for outcome in outcomes]
    added = ("tests", "confirmations", "cancelled", "rounds", "minutes", "elapsed", "false_culprits")
    return Summary(
        strategy=name if width == 1 or name == "linear" else f"{name} x{width}",
        walks=len(worlds),
        linear=sum(world.linear_tests for world in worlds),
        linear_minutes=sum(world.linear_tests * mean(world.minutes or [1.0]) for world in worlds),
        floor=sum(log2(comb(world.n, len(world.breaks))) + len(world.breaks) for world in worlds),
        culprits=sum(len(outcome.culprits) for outcome in outcomes),
        missed=sum(len(set(world.breaks) - found) for world, found in zip(worlds, named, strict=True)),
        **{field: sum(getattr(outcome, field) for outcome in outcomes) for field in added},
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--walks", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Recorded walks (JSON).")
@click.option("--commits", help="Generated walks: affecting commits in each.", type=click.IntRange(1), default=150)
@click.option(
    "--break-rate",
    help="Generated walks: how likely each commit breaks the downstream.",
    type=click.FloatRange(0, 1),
    default=0.02,
)
@click.option(
    "--flaky", help="How likely a smoke test fails though nothing is broken.", type=click.FloatRange(0, 1), default=0.0
)
@click.option("--seeds", help="Generated walks: how many.", type=click.IntRange(1), default=100)
@click.option("--strategy", "name", default="adaptive", help="The strategy to count for.")
@click.option("--width", type=click.IntRange(1, 256), default=1, help="Probes side by side.")
@click.option("--retries", type=click.IntRange(0), default=1, help="Of a failed smoke test.")
@json_option
def simulate(walks: Path | None, flaky: float, name: str, width: int, retries: int, **generated: Any) -> None:
    """Replay recorded or generated walks through a strategy, counting smoke tests and rounds."""
    worlds = load_walks(walks) if walks else generate_walks(flaky=flaky, **generated)
    summary = summarize(worlds, name, width=width, retries=retries if flaky else 0).as_json()
    console.result("\n".join(f"{key}: {value}" for key, value in summary.items()), summary)


if __name__ == "__main__":
    main(simulate, "python -m benchmarks.simulate")
