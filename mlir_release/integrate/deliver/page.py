"""The picture of a walk, for step summaries and pull requests: its tests in order, and their cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mlir_release.ground.console import counted, format_seconds
from mlir_release.ground.foreign import code, code_block, markdown, table
from mlir_release.ground.search import LEGEND, draw
from mlir_release.ground.strategy import Verdict
from mlir_release.integrate.state import ProbeStore, linear_tests, retries, told_retries, totals

if TYPE_CHECKING:
    from mlir_release.integrate.project import Integration

#: How many tests the table shows.
_ROWS = 60


@dataclass(frozen=True)
class SmokeRun:
    """One smoke test. ``position``: 0 is where the walk began; None: a commit that is not on its line."""

    commit: str
    title: str
    position: int | None
    sources: str  #: the downstream's tree that was tested, which a fix changes
    verdict: Verdict
    attempts: int  #: without confirmations
    seconds: float
    confirmations: int = 0


@dataclass(frozen=True, kw_only=True)
class WalkPicture:
    """A walk so far. ``tests`` are in the order in which they were recorded."""

    upstream: str  #: its name
    commits: int  #: affecting commits from the begin of the walk to the upstream's head
    here: int  #: how many of them the branch has passed
    breaks: int
    linear_tests: int  #: that one commit after the other would have taken so far
    tests: tuple[SmokeRun, ...]
    retried: int = 0  #: how many of the tests passed only on a retry

    @property
    def seconds(self) -> float:
        """The time of all smoke tests."""
        return sum(test.seconds for test in self.tests)

    @property
    def culprits(self) -> tuple[SmokeRun, ...]:
        """The tests that found a culprit: the same sources passed at the commit before. In the order of the commits.

        One that is ahead of the branch must have been confirmed.
        """
        passed = {(test.sources, test.position) for test in self.tests if test.verdict is Verdict.GOOD}
        failed = {test.position: test for test in self.tests if test.verdict is Verdict.BAD and test.position}
        sure = {position: test for position, test in failed.items() if test.confirmations or position <= self.here}
        found = (position for position, test in sure.items() if (test.sources, position - 1) in passed)
        return tuple(failed[position] for position in sorted(found))

    def line(self) -> str:
        """The commits from left to right; below, the branch and the characters' meanings.

        A character is one commit, or several of a long walk: then the worst of their verdicts.
        """
        tested = [(test.position, test.verdict) for test in self.tests if test.position is not None]
        drawn, size = draw(self.commits, tested, [test.position or 0 for test in self.culprits])
        scale = f"   (a character is {size} commits)" if size > 1 else ""
        return f"{drawn}\n{' ' * (self.here // size)}^ the branch\n{LEGEND}{scale}"

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        found = [test.commit for test in self.culprits]
        return {**asdict(self), "culprits": found, "seconds": round(self.seconds, 1)}

    def as_markdown(self) -> str:
        """For a step summary or a pull request: a summary, with the single tests folded away."""
        attempts = sum(test.attempts for test in self.tests)
        confirmations = sum(test.confirmations for test in self.tests)
        mean = self.seconds / (attempts + confirmations) if attempts else 0.0
        tests = counted(attempts, "smoke test")
        tests += f" and {counted(confirmations, 'confirmation')}" if confirmations else ""
        linear = f"{counted(self.linear_tests, 'smoke test')}, about {format_seconds(self.linear_tests * mean)}"
        broken = [f"- {test.position}: {_commit(test)}" for test in self.culprits]
        paragraphs = [
            f"### The walk: {self.here} of {self.commits} affecting commits of {markdown(self.upstream)}",
            code_block([self.line()]),
            "\n".join(["Commits that broke this project, by their place on the line:", *broken]) if broken else "",
            f"{tests} took {format_seconds(self.seconds)}. One commit after the other would "
            f"have taken {linear}. {told_retries(self.retried, len(self.tests))}".rstrip(),
        ]
        if self.tests:
            first = max(0, len(self.tests) - _ROWS)
            rows = []
            for number, test in enumerate(self.tests[first:], first + 1):
                verdict = f"**{test.verdict}**" if test.verdict is Verdict.BAD else str(test.verdict)
                every = test.attempts + test.confirmations
                verdict += f" ({every} attempts)" if every > 1 else ""
                where = "" if test.position is None else str(test.position)
                rows.append((number, where, _commit(test), verdict, format_seconds(test.seconds)))
            which = f"The last {_ROWS} of {len(self.tests)} tests" if first else f"The {len(self.tests)} tests"
            paragraphs += [
                f"<details><summary>{which}, in their order</summary>",
                table((">test", ">at", "upstream commit", "verdict", ">took"), rows),
                "</details>",
            ]
        return "\n\n".join(filter(None, paragraphs)) + "\n"


def _commit(test: SmokeRun) -> str:
    return f"{code(test.commit[:12])} {markdown(test.title[:80])}"


def pictures(project: Integration, branch: str) -> str:
    """The walks of a branch in Markdown, one after the other. See :func:`picture`."""
    return "\n".join(picture(each, branch).as_markdown() for each in project.walked(branch))


def picture(project: Integration, branch: str) -> WalkPicture:
    """The walk of a branch, from git's records here. Fetches nothing."""
    upstream = project.upstream
    head = upstream.head()
    begun = project.started_from(branch)
    line = upstream.affecting(begun, head)
    positions = {begun: 0, **{commit.sha: number for number, commit in enumerate(line, 1)}}
    titles = {commit.sha: commit.title for commit in line}
    base = upstream.base_of(project.pin(f"refs/heads/{branch}"), head)
    commits = project.commits(branch)
    here = len(upstream.affecting(begun, base))
    store = ProbeStore(project.outer, branch, project.signature)
    records = store.load()
    tests = tuple(
        SmokeRun(
            commit=record.upstream,
            title=titles.get(record.upstream, ""),
            position=positions.get(record.upstream),
            sources=record.outer,
            verdict=record.verdict,
            attempts=record.attempts,
            seconds=record.seconds,
            confirmations=record.confirmations,
        )
        for key in store.order()
        if (record := records.get(key)) is not None and project.owns(record.of)
    )
    stopped = any(test.position == here + 1 and test.confirmations for test in tests if test.verdict is Verdict.BAD)
    return WalkPicture(
        upstream=project.upstream.config.title,
        commits=len(line),
        here=here,
        breaks=totals(commits, project.names)[1],
        linear_tests=linear_tests(
            commits,
            project.names,
            attempts=project.config.smoke.attempts,
            ahead="break" if stopped else "nothing" if here == len(line) else "",
        ),
        tests=tests,
        retried=retries(records.values())[0],
    )
