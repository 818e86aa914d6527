"""What a branch's trailers say: where LLVM stands, who worked on it since, how often upstream breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.documents.trailers import format_message
from mlir_release.ground.git.repository import Git
from mlir_release.ground.strategy import BreakRate
from mlir_release.integrate.state import T_BREAKS, T_COMMITS, T_START, T_UPSTREAM, T_VERDICT, past_of
from tests.integrate.integration import miniature

if TYPE_CHECKING:
    from pathlib import Path

A, B = "a" * 40, "b" * 40


class History:
    """A repository whose commits are made one by one on ``main`` (or elsewhere)."""

    def __init__(self, folder: Path) -> None:
        miniature.git(folder, "init", "-q", "--bare", "-b", "main", "history.git")
        self.git = Git(folder / "history.git")
        self.tree = self.git.run("mktree", input=b"").stdout.decode().strip()
        self.when = 1_700_000_000

    def commit(self, *parents: str, trailers: dict[str, str] | None = None) -> str:
        self.when += 60
        env = {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "x"), ("EMAIL", "x@example.com"), ("DATE", f"{self.when} +0000"))
        }
        options = [option for parent in parents for option in ("-p", parent)]
        message = format_message("A commit", "", trailers).encode()
        return self.git.run("commit-tree", self.tree, *options, input=message, env=env).stdout.decode().strip()

    def many(self, count: int, onto: str) -> str:
        stream = [f"reset refs/heads/many\nfrom {onto}\n\n"]
        for _ in range(count):
            self.when += 60
            stream.append(f"commit refs/heads/many\ncommitter x <x@example.com> {self.when} +0000\ndata 2\nx\n\n")
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
