"""What is read of the trailers of an integrate branch, which anybody may have written."""

from __future__ import annotations

import pytest

from mlir_release.integrate.state import (
    CULPRITS,
    T_BREAKS,
    T_COMMITS,
    T_CULPRITS,
    T_UPSTREAM,
    T_VERDICT,
    count_of,
    culprits_in,
    totals,
)
from mlir_release.model.trailers import format_message


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


A, B = "a" * 40, "b" * 40


@pytest.mark.parametrize(
    ("body", "trailers", "expected"),
    [
        ("", {T_UPSTREAM: A, T_VERDICT: "bad"}, [A]),
        ("", {T_UPSTREAM: A, T_VERDICT: "good"}, []),
        ("", {T_VERDICT: "bad"}, []),
        (f"### {CULPRITS}\n\n- {A}\n- {B}\n\n### More\n\n- {'c' * 40}", {T_BREAKS: 2}, [A, B]),  # as it once was
        (f"### {CULPRITS}\n\n- llvm/llvm-project@{A} A subject", {T_BREAKS: 2, T_CULPRITS: f"{A} {B}"}, [A, B]),
        (f"### {CULPRITS}\n\n- {A}", {T_BREAKS: 1, T_CULPRITS: f"--all {B}x HEAD {B}"}, [B]),
        ("", {T_BREAKS: 1, T_CULPRITS: ""}, []),
    ],
)
def test_the_culprits_that_a_commit_names(body: str, trailers: dict[str, object], expected: list[str]) -> None:
    assert culprits_in(format_message("Integrate", body, trailers)) == expected
