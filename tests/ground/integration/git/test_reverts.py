"""Reverts by the messages of real commits."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.reverts import Effects, Reverting, aliases, pull_request, read_reverts, reverted_by
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


def effects(upstream: UpstreamHistory) -> Effects:
    return Effects(read_reverts(upstream.git, "main"))


def taken(upstream: UpstreamHistory) -> dict[str, str]:
    return {name: by.sha for name, by in effects(upstream).taken().items()}


def test_a_commit_that_does_not_exist_is_a_name_like_any_other(upstream: UpstreamHistory) -> None:
    add(upstream, f"Revert it\n\nThis reverts commits {'1' * 40}, 2222222.")
    assert taken(upstream).keys() == {"1" * 40, "2222222"}


def test_a_revert_that_was_reverted_lands_its_change_again(upstream: UpstreamHistory) -> None:
    first = add(upstream, "First")
    revert = add(upstream, f"Revert First\n\nThis reverts commit {first}.")
    again = add(upstream, f"Reland First\n\nThis reverts commit {revert}.")
    found = effects(upstream)
    assert (found.undone(first), found.undone(again), found.taken()) == (None, None, {})
    assert [found.lands(each) for each in (first, revert, again)] == [True, False, True]
    last = add(upstream, f"Revert the relanding\n\nThis reverts commit {again}.")
    assert taken(upstream) == {first: revert, again: last}


@pytest.mark.parametrize("named", ["id", "number"])
def test_a_subject_with_the_number_tells_of_a_relanding(upstream: UpstreamHistory, named: str) -> None:
    first = add(upstream, "[mlir] Fold (#7)")
    said = f"This reverts commit {first}." if named == "id" else "Reverts llvm/llvm-project#7"
    revert = add(upstream, f'Revert "[mlir] Fold (#7)" (#8)\n\n{said}')
    assert set(taken(upstream).values()) == {revert}
    add(upstream, '[mlir] Reapply "Fold (#7)" (#9)\n\nIt was not to blame.')
    assert taken(upstream) == {}
    last = add(upstream, 'Revert "[mlir] Reapply "Fold (#7)" (#9)" (#10)')
    assert last in taken(upstream).values()
    add(upstream, 'Revert "Revert "[mlir] Reapply "Fold (#7)""" (#11)')
    assert taken(upstream) == {}


@pytest.mark.parametrize(
    "said", ["This relands commit ID.", "This re-applies SHORT", "Reland of #7", "This reapplies llvm/llvm-project#7."]
)
def test_a_message_tells_of_a_relanding(upstream: UpstreamHistory, said: str) -> None:
    first = add(upstream, "[mlir] Fold (#7)")
    add(upstream, f"Think again\n\nThis reverts commit {first}.")
    add(upstream, f"[mlir] Fold, with a test (#9)\n\n{said.replace('ID', first).replace('SHORT', first[:9])}")
    assert taken(upstream) == {}
    last = add(upstream, "Revert it again\n\nReverts llvm/llvm-project#9")
    assert last in taken(upstream).values()
    assert reverted_by("Relands openxla/xla#7", url="https://github.com/llvm/llvm-project", landed=True) == []


def test_a_subject_tells_of_a_relanding_where_the_revert_is_older_than_the_history(upstream: UpstreamHistory) -> None:
    old = "3" * 40
    shas = [
        add(upstream, f'{subject}\n\nThis reverts commit {old}.')
        for subject in ("[mlir][linalg] Reland x", "Reapply x", 'Revert "Revert "x""', 'Revert "x"', "Relate x")
    ]  # fmt: skip
    assert [effects(upstream).lands(sha) for sha in shas] == [True, True, True, False, False]


def test_a_title_that_one_commit_alone_has_names_it_without_a_number(upstream: UpstreamHistory) -> None:
    subjects = [
        "[T] Remove it (#1)",
        "NFC (#2)",
        "NFC (#3)",
        'Revert "[T] Remove it" (#4)',
        "[RELAND][T] Remove it (#5)",
    ]
    bodies = ["", "", "", "Sadly, o/r#1.", "Reverts o/r#4"]
    ids = [add(upstream, f"{subject}\n\n{body}") for subject, body in zip(subjects, bodies, strict=True)]
    last = add(upstream, 'Revert "[RELAND][T] Remove it" (#6)')
    add(upstream, 'Revert "NFC" (#7)')
    found = Effects(read_reverts(upstream.git, "main"), aliases(zip(ids, subjects, strict=True)))
    undone = [by.sha if (by := found.next(commit)) else "" for commit in ids]
    assert undone == [ids[3], "", "", ids[4], last]


def test_reverts_of_themselves_and_of_each_other_mean_nothing(upstream: UpstreamHistory) -> None:
    one = add(upstream, "One (#1)\n\nReverts llvm/llvm-project#2\nReverts llvm/llvm-project#1")
    two = add(upstream, "Two (#2)\n\nReverts llvm/llvm-project#1")
    assert taken(upstream) == {one: two}


def test_a_pull_request_of_another_repository_is_not_meant() -> None:
    message = "Revert it\n\nReverts openxla/xla#7\nReverts fork/llvm-project#8\nReverts #9"
    assert reverted_by(message, url="https://github.com/llvm/llvm-project.git") == ["#8", "#9"]
    assert reverted_by(message, url="https://elsewhere.example/llvm.git") == ["#7", "#8", "#9"]


def test_three_thousand_reverts_of_reverts_are_read_by_one_process(
    upstream: UpstreamHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3_000):
        upstream.commit(f"Commit (#{number})\n\nReverts llvm/llvm-project#{number - 1}" if number else "Commit (#0)")
    upstream.write()
    trace = upstream.folder.with_suffix(".trace")
    monkeypatch.setenv("GIT_TRACE", str(trace))
    commits = read_reverts(upstream.git, "main")
    assert len(commits) == 2_999
    assert trace.read_text().count("trace: built-in:") == 1
    found = Effects(commits)
    assert found.undone("#0") is not None
    assert [found.lands(f"#{number}") for number in (2997, 2998)] == [False, True]


@pytest.mark.parametrize("seed", range(50))
def test_the_last_revert_or_relanding_of_a_chain_counts(seed: int) -> None:
    chance, on = random.Random(seed), True
    made = [Reverting(sha=f"{0:040x}", seconds=0, subject="[mlir] Fold (#0)", reverted=())]
    count = chance.randint(2, 40)
    for number in range(1, count):
        name = chance.choice([*(each.sha for each in made), *(f"#{place}" for place in range(number))])
        sha, subject = f"{number:040x}", f"Change (#{number})"
        made.append(Reverting(sha=sha, seconds=0, subject=subject, reverted=(name, sha, f"{count - 1:040x}")))
    found = Effects(made[:0:-1], {"#0": made[0].sha})
    lands = {0: True}
    for number, each in enumerate(made[1:], 1):
        meant = int(each.reverted[0].removeprefix("#"), 10 if each.reverted[0][0] == "#" else 16)
        lands[number] = on = not lands[meant]
    assert [found.lands(each.sha) for each in made] == [*lands.values()]
    assert [found.undone(each.sha) is None for each in made] == [lands[number] is on for number in lands]
