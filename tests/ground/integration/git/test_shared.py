"""A git that fails, the locks that keep several apart, and a repository in which git of ours was killed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git import locks
from mlir_release.ground.git.repository import Git, GitError
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


@pytest.mark.parametrize(
    ("line", "id"), [("No space left on device", "disk-full"), ("Input/output error", "program-failed")]
)
def test_thousands_of_lines_of_a_git_that_fails_are_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, id: str
) -> None:
    script = (
        f'#!/bin/sh\ni=0\nwhile [ $i -lt 3000 ]; do echo "error: file $i: {line}" >&2; i=$((i+1)); done\nexit 128\n'
    )
    (tmp_path / "git").write_text(script)
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(GitError) as caught:
        Git(tmp_path).run("checkout", "HEAD")
    assert caught.value.id == id
    assert len(str(caught.value).splitlines()) < 90
    assert caught.value.stderr.count("\n") == 3000  # whole for those who look for words in it
    assert f"file 2999: {line}" in str(caught.value)


# -- locks on files, between two descriptors as between two processes --------------------------------------------------


def test_one_holds_a_lock_alone(tmp_path: Path) -> None:
    path = tmp_path / "made" / "lock"
    with locks.exclusive(path) as held:
        assert held is not None
        with locks.exclusive(path, wait=False) as second:
            assert second is None
    with locks.exclusive(path, wait=False) as again:
        assert again is not None


def test_several_hold_it_shared(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open() as first, path.open() as second, path.open() as third:
        assert locks.lock(first.fileno(), shared=True)
        assert locks.lock(second.fileno(), shared=True, wait=False)
        assert not locks.lock(third.fileno(), wait=False)
        locks.unlock(first.fileno())
        locks.unlock(second.fileno())
        assert locks.lock(third.fileno(), wait=False)
