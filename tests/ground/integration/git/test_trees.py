"""Trees and commits as objects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.repository import Git, Signature
from mlir_release.ground.git.trees import commit_files, entry_at, make_blob, tree_of, tree_with

if TYPE_CHECKING:
    from pathlib import Path

SIGNATURE = Signature(name="Ada", email="ada@example.org", when=datetime(2026, 11, 20, tzinfo=UTC))


@pytest.fixture
def git(tmp_path: Path) -> Git:
    git = Git(tmp_path)
    git.run("init", "--quiet", "--bare")
    return git


def paths(git: Git, tree: str) -> list[str]:
    return git.text("ls-tree", "-r", "--name-only", tree).split()


def test_a_commit_sets_files_and_keeps_the_rest(git: Git) -> None:
    first = commit_files(git, None, {"a": b"1", "deep/er/b": b"2", "deep/c": b"3"}, "One\n", SIGNATURE)
    second = commit_files(git, first, {"deep/er/b": b"4", "deep/new/d": b"5"}, "Two\n", SIGNATURE)
    assert paths(git, second) == ["a", "deep/c", "deep/er/b", "deep/new/d"]
    assert git.read(second, "deep/er/b") == b"4"
    assert git.read(second, "deep/c") == b"3"
    assert git.text("rev-parse", f"{second}^") == first
    assert git.text("log", "-1", "--format=%an %ae %at", second) == "Ada ada@example.org 1795132800"


def test_an_entry_is_replaced_and_removed(git: Git) -> None:
    commit = commit_files(git, None, {"a": b"1", "deep/b": b"2"}, "One\n", SIGNATURE)
    blob = make_blob(git, b"3")
    changed = tree_with(git, commit, {"deep/b": blob, "a": None})
    assert paths(git, changed) == ["deep/b"]
    assert entry_at(git, changed, "deep/b") == blob
    assert entry_at(git, changed, "a") is None
    assert tree_with(git, changed, {"deep/b": make_blob(git, b"2"), "a": make_blob(git, b"1")}) == tree_of(git, commit)


def test_a_file_in_the_way_becomes_a_folder(git: Git) -> None:
    commit = commit_files(git, None, {"a": b"1"}, "One\n", SIGNATURE)
    assert paths(git, tree_with(git, commit, {"a/b": make_blob(git, b"2")})) == ["a/b"]
