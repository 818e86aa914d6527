"""What is read of the trailers of an integrate branch, which anybody may have written."""

from __future__ import annotations

import pytest

from mlir_release.integrate.state import T_BREAKS, T_COMMITS, T_VERDICT, count_of, totals


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "9" * 5000, "٣"])
def test_what_is_no_number_is_none(text: str) -> None:
    assert count_of({T_COMMITS: text}, T_COMMITS) is None


def test_the_totals_of_a_branch_leave_out_what_is_no_number() -> None:
    commits = [
        ("1" * 40, "Start", {}),
        ("2" * 40, "Advance", {T_COMMITS: "3", T_VERDICT: "good"}),
        ("3" * 40, "Advance", {T_COMMITS: "1", T_VERDICT: "bad"}),
        ("4" * 40, "Squashed", {T_COMMITS: "5", T_BREAKS: "2"}),
        ("5" * 40, "By hand", {T_COMMITS: "several", T_BREAKS: "9" * 5000}),
    ]
    assert totals(commits) == (9, 3)
