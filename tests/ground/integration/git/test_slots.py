"""Slots: trees in which foreign code runs, each with a git folder of its own that is made again for every use."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git import locks
from mlir_release.ground.git.shared import SharedGit
from mlir_release.ground.git.worktrees import head_of, place_slot, take_over

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedGit:
    """Two commits, tagged old and new, in a repository with a token in its configuration."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    repository = SharedGit(tmp_path / 'the "repository"')
    repository.directory.mkdir()
    repository.run("init", "--quiet")
    for name, value in (
        ("user.name", 'x "y" \\ z'),
        ("user.email", "x@example.com"),
        ("remote.origin.url", "https://example.com/x.git"),
        ("remote.mine.url", "https://x:secret@example.com/x.git"),
        ("http.https://example.com/.extraheader", "Authorization: secret"),
    ):
        repository.run("config", name, value)
    (repository.directory / ".gitignore").write_text("build/\n")
    for tag in ("old", "new"):
        (repository.directory / "same").write_text("same\n")
        (repository.directory / "file").write_text(f"{tag}\n")
        (repository.directory / f"only-{tag}").write_text("x\n")
        repository.run("add", "--all")
        repository.run("commit", "--quiet", "-m", tag)
        repository.run("tag", "-a", "-m", tag, tag)
        (repository.directory / f"only-{tag}").unlink()
    return repository


def place(git: SharedGit, path: Path, tag: str) -> None:
    with locks.exclusive(path.with_name("lock")) as lock:
        assert lock is not None
        commit = git.resolve(tag)
        assert commit is not None
        place_slot(git, path, commit, lock=lock)


def inside(path: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", path, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def test_a_slot_has_the_files_and_the_history_but_no_secret_and_no_part_of_the_repository(
    git: SharedGit, tmp_path: Path
) -> None:
    path = tmp_path / "slot"
    place(git, path, "new")
    assert sorted(entry.name for entry in path.iterdir()) == [".git", ".gitignore", "file", "only-new", "same"]
    assert inside(path, "status", "--porcelain") == ""
    assert inside(path, "describe", "--tags", "HEAD") == "new"
    assert inside(path, "rev-parse", "HEAD", "HEAD~") == f"{git.resolve('new')}\n{git.resolve('old')}"
    assert inside(path, "rev-parse", "--path-format=absolute", "--git-common-dir") == str(path / ".git")
    assert inside(path, "config", "remote.origin.url") == "https://example.com/x.git"
    assert inside(path, "config", "user.name") == 'x "y" \\ z'
    assert "secret" not in inside(path, "config", "--list")


def test_what_was_built_stays_and_only_what_differs_is_written(git: SharedGit, tmp_path: Path) -> None:
    path = tmp_path / "slot"
    place(git, path, "old")
    (path / "build").mkdir()
    (path / "build" / "object").write_text("kept\n")
    (path / "file").write_text("half\n")
    (path / "stray").write_text("x\n")
    written = (path / "same").stat().st_mtime_ns
    place(git, path, "new")
    assert (path / "file").read_text() == "new\n"
    assert (path / "build" / "object").read_text() == "kept\n"
    assert (path / "same").stat().st_mtime_ns == written
    assert sorted(entry.name for entry in path.iterdir()) == [".git", ".gitignore", "build", "file", "only-new", "same"]


@pytest.mark.parametrize("damage", ["index", "lock", "folder", "file", "link", "nothing"])
def test_a_slot_is_made_again_whatever_is_there(git: SharedGit, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "slot"
    place(git, path, "old")
    match damage:
        case "index":
            (path / ".git" / "index").write_bytes(b"no index")
        case "lock":
            (path / ".git" / "index.lock").touch()
        case "folder":
            subprocess.run(["rm", "-rf", path / ".git"], check=True)
        case "file":
            subprocess.run(["rm", "-rf", path], check=True)
            path.touch()
        case "link":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
    place(git, path, "new")
    assert inside(path, "status", "--porcelain") == ""
    assert head_of(path) == git.resolve("new")
    if damage == "link":
        assert (tmp_path / "elsewhere" / "file").read_text() == "old\n"


def test_a_linked_work_tree_as_slots_once_were_becomes_one(git: SharedGit, tmp_path: Path) -> None:
    path = tmp_path / "slot"
    git.run("worktree", "add", "--quiet", "--detach", str(path), "old")
    (path / "build").mkdir()
    (path / "build" / "object").write_text("kept\n")
    written = (path / "same").stat().st_mtime_ns
    place(git, path, "new")
    assert (path / ".git").is_dir()
    assert inside(path, "status", "--porcelain") == ""
    assert (path / "same").stat().st_mtime_ns == written
    assert (path / "build" / "object").read_text() == "kept\n"
    assert not list((git.common / "worktrees").glob("*"))


def test_what_is_committed_in_a_slot_can_be_taken_over(git: SharedGit, tmp_path: Path) -> None:
    path = tmp_path / "slot"
    place(git, path, "new")
    take_over(git, path)
    assert not git.refs("refs/mlir-release")  # there is nothing new
    inside(path, "switch", "--quiet", "-c", "mine")
    (path / "file").write_text("mine\n")
    inside(path, "commit", "--quiet", "-a", "-m", "Mine")
    inside(path, "pack-refs", "--all")
    head = head_of(path)
    assert head == inside(path, "rev-parse", "HEAD")
    take_over(git, path)
    take_over(git, path)
    subprocess.run(["rm", "-rf", path], check=True)
    assert [ref.commit for ref in git.refs("refs/mlir-release/fix")] == [head]
    assert git.read(head, "file") == b"mine\n"
