"""A repository in which git of ours was killed: what it left is cleaned up, and what a person wrote stays."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.repository import GitError
from mlir_release.ground.git.shared import SharedGit

if TYPE_CHECKING:
    from pathlib import Path

FILES = ("changed", "gone", "new")


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedGit:
    """Two commits, tagged old and new: one file changes, one goes, one comes. The old one is checked out."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    repository = SharedGit(tmp_path)
    repository.run("init", "--quiet")
    repository.run("config", "user.name", "x")
    repository.run("config", "user.email", "x@example.com")
    for tag, contents in (("old", ("1\n2\n", "1\n", None)), ("new", ("3\n4\n", None, "3\n4\n"))):
        for name, text in zip(FILES, contents, strict=True):
            if text is None:
                (tmp_path / name).unlink(missing_ok=True)
            else:
                (tmp_path / name).write_text(text)
        repository.run("add", "--all")
        repository.run("commit", "--quiet", "-m", tag)
        repository.run("tag", tag)
    repository.run("checkout", "--quiet", "--detach", "old")
    return repository


def killed(git: SharedGit, *command: str) -> None:
    """As if this command of ours had been killed: its name is still in the lock file, and git's own locks are there."""
    folder = git.directory / ".git"
    (folder / "mlir-release.lock").write_text(json.dumps([str(git.directory), *command]))
    (folder / "index.lock").write_text("")


MOVE = ("checkout", "--quiet", "--detach", "new")


def arrived(git: SharedGit) -> bool:
    return git.text("status", "--porcelain") == "" and git.resolve("HEAD") == git.resolve("new")


@pytest.mark.parametrize("name", FILES)
def test_killed_while_it_wrote_a_file(git: SharedGit, name: str) -> None:
    if name == "gone":
        (git.directory / name).unlink()
    else:
        (git.directory / name).write_text("3\n")
    killed(git, *MOVE)
    git.run(*MOVE)
    assert arrived(git)


def test_killed_after_it_replaced_the_index(git: SharedGit) -> None:
    old = git.text("rev-parse", "old")
    git.run(*MOVE)
    git.run("update-ref", "--no-deref", "HEAD", old)  # which git does last
    killed(git, *MOVE)
    git.run(*MOVE)
    assert arrived(git)


def test_what_a_person_wrote_meanwhile_stays(git: SharedGit) -> None:
    (git.directory / "new").write_text("mine\n")
    killed(git, *MOVE)
    with pytest.raises(GitError):
        git.run(*MOVE)
    assert (git.directory / "new").read_text() == "mine\n"
    assert git.resolve("HEAD") == git.resolve("old")


def test_a_persons_lock_is_respected(git: SharedGit) -> None:
    (git.directory / ".git" / "index.lock").write_text("")
    with pytest.raises(GitError, match=r"index\.lock"):
        git.run(*MOVE)
