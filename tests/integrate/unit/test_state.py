"""What is read of the trailers of an integrate branch, which anybody may have written; and which record counts."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from benchmarks.simulate import load_walks, replay
from mlir_release.ground.documents.decode import MalformedError, from_json
from mlir_release.ground.documents.trailers import format_message
from mlir_release.ground.git.repository import Git, Signature
from mlir_release.ground.git.trees import commit_tree
from mlir_release.ground.strategy import BreakRate, Linear, Verdict
from mlir_release.integrate.config import SmokeTable
from mlir_release.integrate.state import (
    CULPRITS,
    T_BREAKS,
    T_COMMITS,
    T_CULPRITS,
    T_START,
    T_UPSTREAM,
    T_VERDICT,
    ProbeStore,
    Record,
    count_of,
    culprits_in,
    linear_tests,
    past_of,
    setting_of,
    totals,
)

WHO = Signature(name="x", email="x@example.com", when=datetime(2026, 11, 20, tzinfo=UTC))
RECORDED = Path(__file__).parents[3] / "benchmarks" / "data" / "iree-walks.json"


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


def advances(*breaks: int, to: int) -> list[tuple[str, str, dict[str, str]]]:
    """The commits of a walk that stepped onto each break, where it was fixed, and then went on."""
    edges = sorted({*breaks, *(position - 1 for position in breaks), to} - {0})
    return [
        ("1" * 40, "Advance", {T_COMMITS: str(here - before), T_VERDICT: "bad" if here in breaks else "good"})
        for before, here in pairwise([0, *edges])
    ]


def test_linears_tests_are_those_that_a_linear_walk_takes() -> None:
    for world in load_walks(RECORDED):
        commits = advances(*world.breaks, to=world.n)
        assert totals(commits) == (world.n, len(world.breaks))
        assert linear_tests(commits, attempts=1, ahead="nothing") == replay(world, Linear(), retries=0).tests
        assert linear_tests(commits, attempts=3, ahead="nothing") == replay(world, Linear(), retries=2).tests
    assert linear_tests(advances(4, to=4), attempts=2) == 5
    assert linear_tests(advances(4, to=4), attempts=2, ahead="break") == 8  # the fix is tested before 5 is blamed
    assert linear_tests(advances(to=4), attempts=2, ahead="break") == 6


def answered(verdict: Verdict, *exits: int | None, seconds: float = 1.0, confirmations: int = 0) -> Record:
    tree = "1" * 40
    return Record(
        verdict=verdict,
        upstream=tree,
        upstream_tree=tree,
        pristine_tree=tree,
        outer=tree,
        setting="s",
        exits=exits,
        confirmations=confirmations,
        seconds=seconds,
    )


def store_in(folder: Path) -> ProbeStore:
    git = Git(folder)
    folder.mkdir()
    git.run("init", "--quiet", "--bare")
    return ProbeStore(git, "b", lambda: WHO)


def test_a_record_is_replaced_only_by_one_that_passed_or_has_more_attempts(tmp_path: Path) -> None:
    store = store_in(tmp_path / "here")
    failed = answered(Verdict.BAD, 1, 1)
    confirmed = answered(Verdict.BAD, 1, 1, 1, confirmations=1)
    flaked = answered(Verdict.GOOD, 1, 0)

    def after(record: Record) -> Record:
        store.record(record)
        return store.load()[record.key]

    assert after(failed) == failed
    assert after(answered(Verdict.BAD, 1, 1, seconds=9.0)) == failed
    assert after(confirmed) == confirmed
    assert after(failed) == confirmed
    assert after(flaked) == flaked
    assert after(confirmed) == flaked
    assert store.order() == [failed.key]


@pytest.mark.parametrize(
    ("one", "other", "winner"),
    [
        (answered(Verdict.BAD, 1, 1), answered(Verdict.BAD, 1, 1, 1), "other"),
        (answered(Verdict.BAD, 1, 1, 1), answered(Verdict.GOOD, 0), "other"),
        (answered(Verdict.GOOD, 1, 0), answered(Verdict.BAD, 1, 1, 1), "one"),
        (answered(Verdict.BAD, 1, seconds=1.0), answered(Verdict.BAD, 1, seconds=2.0), ""),
    ],
)
def test_two_machines_agree_on_the_record_that_counts(tmp_path: Path, one: Record, other: Record, winner: str) -> None:
    remote = tmp_path / "remote"
    stores = {"one": store_in(tmp_path / "one"), "other": store_in(tmp_path / "other")}
    store_in(remote)
    stores["one"].record(one)
    stores["other"].record(other)
    alone = {name: msgspec.structs.replace(one, outer=digit * 40) for name, digit in (("one", "2"), ("other", "3"))}
    for name, record in alone.items():
        stores[name].record(record)
    for name in ("one", "other", "one"):
        stores[name].push(str(remote))
    kept = [store.load()[one.key] for store in stores.values()]
    assert kept[0] == kept[1]
    for store in stores.values():
        assert {one.key, *(record.key for record in alone.values())} == store.load().keys()
    if winner:
        assert kept[0] == {"one": one, "other": other}[winner]
    swapped = store_in(tmp_path / "swapped"), store_in(tmp_path / "first")
    swapped[0].record(one)
    swapped[1].record(other)
    swapped[1].push(str(swapped[0].git.directory))
    assert swapped[1].load() == {one.key: kept[0]}, "whichever of them pushes first"


def test_a_record_of_an_older_version_is_read_and_counts_as_not_confirmed() -> None:
    data = msgspec.to_builtins(answered(Verdict.BAD, 1, 1))
    del data["confirmations"]
    old = from_json(json.dumps(data).encode(), Record)
    assert (old.attempts, old.confirmations) == (2, 0)
    with pytest.raises(MalformedError):
        from_json(json.dumps({**data, "confirmations": -1}).encode(), Record)


def test_another_command_depends_on_the_files_outside_that_it_names(tmp_path: Path) -> None:
    smoke, script = SmokeTable(command="./smoke.sh"), tmp_path / "test.sh"
    command = (str(script), "smoke.sh", "\0", "x" * 5000)
    found = set()
    for content in (None, "true\n", "false\n"):
        if content is not None:
            script.write_text(content)
        found.add(setting_of(smoke, command))
    assert len(found) == 3
    script.write_text("true\n")
    assert setting_of(smoke, command) in found
    for unreadable in (tmp_path, tmp_path / "nothing"):
        assert setting_of(smoke, (str(unreadable),)) != setting_of(smoke)


# -- what a branch's history says --------------------------------------------------------------------------------------


class History:
    """A repository whose commits are made one by one on ``main`` (or elsewhere)."""

    def __init__(self, folder: Path) -> None:
        self.git = Git(folder)
        self.git.run("init", "--quiet", "--bare", "-b", "main")
        self.tree = self.git.run("mktree", input=b"").stdout.decode().strip()
        self.when = WHO.when

    def commit(self, *parents: str, trailers: dict[str, str] | None = None) -> str:
        self.when += timedelta(minutes=1)
        message = format_message("A commit", "", trailers)
        return commit_tree(self.git, self.tree, parents, message, dataclasses.replace(WHO, when=self.when))

    def many(self, count: int, onto: str) -> str:
        stream = [f"reset refs/heads/many\nfrom {onto}\n\n"]
        for _ in range(count):
            self.when += timedelta(minutes=1)
            when = f"{self.when.timestamp():.0f} +0000"
            stream.append(f"commit refs/heads/many\ncommitter x <x@example.com> {when}\ndata 2\nx\n\n")
        self.git.run("fast-import", "--quiet", "--force", input="".join(stream).encode())
        return self.git.text("rev-parse", "refs/heads/many")


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def test_nothing_is_recorded(history: History) -> None:
    root = history.commit()
    past = past_of(history.git, root)
    assert (past.head, past.upstream, past.fixed, past.rate) == (root, "", True, BreakRate())


def test_the_last_advance_and_what_came_after_it(history: History) -> None:
    begun = history.commit(history.commit(), trailers={T_START: "x", T_UPSTREAM: A})
    assert (past_of(history.git, begun).upstream, past_of(history.git, begun).fixed) == (A, False)
    advanced = history.commit(begun, trailers={T_UPSTREAM: B, T_COMMITS: "7", T_VERDICT: "good"})
    assert (past_of(history.git, advanced).upstream, past_of(history.git, advanced).fixed) == (B, False)
    fixed = history.commit(advanced)
    assert (past_of(history.git, fixed).upstream, past_of(history.git, fixed).fixed) == (B, True)


def test_the_break_rate_of_kept_squashed_and_merged_integrates(history: History) -> None:
    root = history.commit()
    squashed = history.commit(root, trailers={T_UPSTREAM: A, T_COMMITS: "30", T_BREAKS: "2"})
    kept = history.commit(squashed, trailers={T_UPSTREAM: A, T_COMMITS: "10", T_VERDICT: "good"})
    kept = history.commit(kept, trailers={T_UPSTREAM: A, T_COMMITS: "1", T_VERDICT: "bad"})
    merged = history.commit(squashed, kept)  # as the forge merges a branch: the advances are behind the second parent
    odd = history.commit(merged, trailers={T_COMMITS: "many"})
    rate = past_of(history.git, odd).rate
    assert rate == BreakRate().after(commits=30, breaks=2).after(commits=10, breaks=0).after(commits=1, breaks=1)


def test_a_merge_that_brings_more_than_is_read_hides_no_advance(history: History) -> None:
    root = history.commit()
    advanced = history.commit(root, trailers={T_UPSTREAM: A, T_COMMITS: "7"})
    synced = history.commit(advanced, history.many(1100, root))
    past = past_of(history.git, synced)
    assert (past.upstream, past.fixed) == (A, True)
