"""The picture of a walk, and the shortening of a message to what a service takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as given_

from mlir_release.ground.strategy import Verdict
from mlir_release.integrate.deliver.deliver import shortened
from mlir_release.integrate.deliver.page import SmokeRun, WalkPicture


def ran(
    position: int | None, verdict: Verdict, *, attempts: int = 1, confirmations: int = 0, sources: str = ""
) -> SmokeRun:
    return SmokeRun(f"{position or 0:040d}", "Change | <it>", position, sources, verdict, attempts, 60.0, confirmations)


def drawn(*tests: SmokeRun, commits: int = 10, here: int = 4) -> WalkPicture:
    return WalkPicture(upstream="LLVM", commits=commits, here=here, breaks=1, linear_tests=5, tests=tests, retried=1)


def test_commits_are_on_a_line_with_the_branch_below() -> None:
    shown = drawn(ran(0, Verdict.GOOD), ran(10, Verdict.BAD), ran(4, Verdict.GOOD), ran(7, Verdict.UNTESTABLE))
    assert shown.line().splitlines()[:2] == ["o...o..?..x", "    ^ the branch"]


def test_a_commit_that_broke_the_project_is_one_that_failed_with_the_same_sources_that_passed_before_it() -> None:
    tests = (ran(5, Verdict.BAD), ran(4, Verdict.BAD), ran(3, Verdict.GOOD), ran(4, Verdict.GOOD, sources="fixed"))
    shown = drawn(*tests)
    assert [test.position for test in shown.culprits] == [4]
    assert shown.line().splitlines()[0] == "...oXx....."
    assert f"\n- 4: `{0:012d}` Change" in shown.as_markdown()
    assert shown.as_json()["culprits"] == [f"{4:040d}"]
    assert "X a commit that broke it" in shown.line()
    again = drawn(*tests, ran(5, Verdict.BAD, sources="fixed"))
    assert [test.position for test in again.culprits] == [4], "ahead of the branch, and not confirmed"
    again = drawn(*tests, ran(5, Verdict.BAD, confirmations=1, sources="fixed"))
    assert [test.position for test in again.culprits] == [4, 5]
    assert "broke this project" not in drawn(ran(4, Verdict.BAD), ran(3, Verdict.GOOD, sources="fixed")).as_markdown()


def test_a_long_walk_shows_the_worst_verdict_of_several_commits() -> None:
    shown = drawn(
        ran(301, Verdict.BAD, confirmations=1), ran(300, Verdict.GOOD), ran(2, Verdict.GOOD), commits=400, here=300
    )
    marks, below, legend = shown.line().split("\n")
    assert len(marks) <= 101
    assert "a character is 5 commits" in legend
    assert (marks[0], marks[60], marks.count(".")) == ("o", "X", len(marks) - 2)
    assert below.index("^") == 60


def test_the_table_has_the_order_the_time_and_what_linear_would_have_cost() -> None:
    tests = (ran(10, Verdict.BAD, attempts=2, confirmations=1), ran(4, Verdict.GOOD), ran(None, Verdict.GOOD))
    text = drawn(*tests).as_markdown()
    rows = [row for row in text.splitlines() if row.startswith("| ")][2:]
    assert [row.split("|")[1].strip() for row in rows] == ["1", "2", "3"]
    assert "Change \\| &lt;it>" in rows[0]
    assert "**bad** (3 attempts)" in rows[0]
    assert "4 smoke tests and 1 confirmation took 3 min 00 s." in text
    assert "<summary>The 3 tests, in their order</summary>\n\n| test |" in text  # the empty line makes it a table
    assert "\n\n4 smoke tests" in text
    assert "1 of 3 smoke tests needed a retry to pass.\n" in text
    assert "5 smoke tests, about 3 min 00 s" in text  # four commits and a fix, one by one


def test_only_the_last_tests_of_a_long_walk_are_in_the_table() -> None:
    text = drawn(*(ran(number, Verdict.GOOD) for number in range(100)), commits=100).as_markdown()
    assert "The last 60 of 100 tests" in text
    assert "| 41 |" in text
    assert "| 40 | 39" not in text


# -- messages ----------------------------------------------------------------------------------------------------------


def test_a_short_message_stays() -> None:
    assert shortened("## Fails\n", 9) == "## Fails\n"


def test_a_long_one_ends_after_a_line() -> None:
    assert shortened("one\ntwo\nthree\nfour\nfive\n", 16) == "one\ntwo\n…"


def test_a_code_block_is_closed() -> None:
    assert shortened("a\n```text\nerror\nerror\n```\n", 23) == "a\n```text\nerror\n```\n…"


@given(given_.lists(given_.sampled_from(["```", "x", "a longer line of text", ""])), given_.integers(10, 80))
def test_it_always_fits_and_closes_what_it_opens(lines: list[str], limit: int) -> None:
    text = "\n".join([*lines, "```"] if lines.count("```") % 2 else lines)
    short = shortened(text, limit)
    assert len(short) <= limit
    assert short.count("```") % 2 == 0
