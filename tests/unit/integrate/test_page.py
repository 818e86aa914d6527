"""The picture of a walk."""

from __future__ import annotations

from mlir_release.integrate.page import SmokeRun, WalkPicture
from mlir_release.integrate.strategy import Verdict


def ran(position: int | None, verdict: Verdict, *, attempts: int = 1) -> SmokeRun:
    return SmokeRun(f"{position or 0:040d}", "Change | <it>", position, verdict, attempts, 60.0)


def drawn(*tests: SmokeRun, commits: int = 10, here: int = 4) -> WalkPicture:
    return WalkPicture(upstream="LLVM", commits=commits, here=here, breaks=1, tests=tests)


def test_commits_are_on_a_line_with_the_branch_below() -> None:
    shown = drawn(ran(0, Verdict.GOOD), ran(10, Verdict.BAD), ran(4, Verdict.GOOD), ran(7, Verdict.UNTESTABLE))
    assert shown.line() == "o...o..?..x\n    ^ the branch"


def test_a_long_walk_shows_the_worst_verdict_of_several_commits() -> None:
    shown = drawn(ran(301, Verdict.BAD), ran(300, Verdict.GOOD), ran(2, Verdict.GOOD), commits=400, here=300)
    line, below = shown.line().split("\n")
    marks = line.partition(" ")[0]
    assert len(marks) <= 101
    assert "one character: 5 commits" in line
    assert (marks[0], marks[60], marks.count(".")) == ("o", "x", len(marks) - 2)
    assert below.index("^") == 60


def test_the_table_has_the_order_the_time_and_what_linear_would_have_cost() -> None:
    tests = (
        ran(10, Verdict.BAD, attempts=2),
        ran(4, Verdict.GOOD),
        ran(None, Verdict.GOOD),
    )
    text = drawn(*tests).as_markdown()
    rows = [row for row in text.splitlines() if row.startswith("| ")][2:]
    assert [row.split("|")[1].strip() for row in rows] == ["1", "2", "3"]
    assert "Change \\| &lt;it>" in rows[0]
    assert "**bad** (2 attempts)" in rows[0]
    assert "4 smoke tests, 3 min 00 s; 1 breaks" in text
    assert "5 smoke tests, about 3 min 45 s" in text  # four commits and a fix, one by one


def test_only_the_last_tests_of_a_long_walk_are_in_the_table() -> None:
    text = drawn(*(ran(number, Verdict.GOOD) for number in range(100)), commits=100).as_markdown()
    assert "The first 40 tests are not shown." in text
    assert "| 41 |" in text
    assert "| 40 | 39" not in text


def test_a_walk_without_tests_has_no_table() -> None:
    assert "| test |" not in drawn(here=0).as_markdown()
