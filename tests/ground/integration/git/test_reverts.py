"""Reverts by the messages of real commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.reverts import land_again, pull_request, read_reverts, reverted_by, standing
from tests.upstream_history import UpstreamHistory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def upstream(tmp_path: Path) -> UpstreamHistory:
    return UpstreamHistory(tmp_path / "upstream")


def add(upstream: UpstreamHistory, message: str) -> str:
    """A commit, at once. Returns its id."""
    upstream.commit(message)
    upstream.write()
    return upstream.ids[-1]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f"Revert x\n\nThis reverts commit {'a' * 40}.", ["a" * 40]),
        ("Revert x\n\nThis reverts commit abcdef0 because.", ["abcdef0"]),
        ("Revert x\n\nThis reverts commits abcdef0, abcdef1, and abcdef2.", ["abcdef0", "abcdef1", "abcdef2"]),
        ("Revert x (#9)\n\nReverts llvm/llvm-project#7", ["#7"]),
        (f"Reland x\n\n> This reverts commit {'a' * 40}.", []),
        ("x\n\nThis reverts commit message checks.", []),
        ("x\n\nThis reverts commit abcdef0123 which fixed abcdef0124", ["abcdef0123"]),
        ("Reverts the order (#12)", []),
    ],
)
def test_what_a_message_reverts(message: str, expected: list[str]) -> None:
    assert reverted_by(message) == expected


def test_the_pull_request_stands_at_the_end_of_a_subject() -> None:
    assert pull_request('Revert "[mlir] Fold (#12)" (#34)') == "#34"
    assert pull_request("[mlir] Fold (#12) again") == ""


def test_an_abbreviated_id_is_resolved(upstream: UpstreamHistory) -> None:
    first = add(upstream, "First")
    by = add(upstream, f"Revert First\n\nThis reverts commit {first[:9]}.")
    (found,) = read_reverts(upstream.git, "main")
    assert (found.sha, found.reverted) == (by, (first,))


def test_a_commit_that_does_not_exist_is_a_name_like_any_other(upstream: UpstreamHistory) -> None:
    add(upstream, f"Revert it\n\nThis reverts commits {'1' * 40}, 2222222.")
    assert standing(read_reverts(upstream.git, "main")).keys() == {"1" * 40, "2222222"}


def test_a_revert_that_was_reverted_does_not_stand_and_lands_its_change_again(upstream: UpstreamHistory) -> None:
    first = add(upstream, "First")
    revert = add(upstream, f"Revert First\n\nThis reverts commit {first}.")
    again = add(upstream, f"Reland First\n\nThis reverts commit {revert}.")
    commits = read_reverts(upstream.git, "main")
    assert standing(commits).keys() == {revert}
    assert land_again(commits) == {revert: False, again: True}
    last = add(upstream, f"Revert the relanding\n\nThis reverts commit {again}.")
    commits = read_reverts(upstream.git, "main")
    assert {name: found[0].sha for name, found in standing(commits).items()} == {first: revert, again: last}


def test_a_subject_tells_of_a_relanding_where_the_revert_is_older_than_the_history(upstream: UpstreamHistory) -> None:
    old = "3" * 40
    shas = [
        add(upstream, f'{subject}\n\nThis reverts commit {old}.')
        for subject in ("[mlir][linalg] Reland x", "Reapply x", 'Revert "Revert "x""', 'Revert "x"', "Relate x")
    ]  # fmt: skip
    lands = land_again(read_reverts(upstream.git, "main"))
    assert [lands[sha] for sha in shas] == [True, True, True, False, False]


def test_reverts_of_themselves_and_of_each_other_mean_nothing(upstream: UpstreamHistory) -> None:
    add(upstream, "One (#1)\n\nReverts llvm/llvm-project#2\nReverts llvm/llvm-project#1")
    two = add(upstream, "Two (#2)\n\nReverts llvm/llvm-project#1")
    found = standing(read_reverts(upstream.git, "main"))
    assert {name: [each.sha for each in commits] for name, commits in found.items()} == {"#1": [two]}


def test_three_thousand_reverts_of_reverts_are_read_without_recursion(upstream: UpstreamHistory) -> None:
    for number in range(3_000):
        upstream.commit(f"Commit (#{number})\n\nReverts llvm/llvm-project#{number - 1}" if number else "Commit (#0)")
    upstream.write()
    commits = read_reverts(upstream.git, "main")
    assert len(commits) == 2_999
    assert "#0" in standing(commits)
    assert land_again(commits)["#2998"] is True
