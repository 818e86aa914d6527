"""What is read of git's own files, to spare a process, is what git says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_release.ground.git.repository import Git, GitError, folders_of
from mlir_release.ground.git.shared import SharedGit
from mlir_release.ground.git.worktrees import current_branch
from tests.integrate.integration.miniature import git


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Repositories of all kinds, by name."""
    config = tmp_path / "gitconfig"
    config.write_text("[user]\n\tname = x\n\temail = x@example.com\n[protocol]\n\tallow = always\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    git(tmp_path, "init", "-q", "-b", "topic/main", "plain")
    plain = tmp_path / "plain"
    git(plain, "commit", "-q", "--allow-empty", "-m", "Begin")
    git(plain, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--bare", str(plain), "bare.git")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{plain}", "partial")
    git(plain, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    git(plain, "worktree", "add", "-q", "--detach", str(tmp_path / "detached"))
    git(tmp_path, "init", "-q", "-b", "unborn", "empty")
    git(tmp_path, "init", "-q", "outer")
    git(tmp_path / "outer", "submodule", "--quiet", "add", str(plain), "inner")
    (plain / "folder").mkdir()
    names = ("plain", "bare.git", "partial", "linked", "detached", "empty", "outer/inner", "plain/folder")
    return {name: tmp_path / name for name in names}


KINDS = ("plain", "bare.git", "partial", "linked", "detached", "empty", "outer/inner")


@pytest.mark.parametrize("name", KINDS)
def test_the_folders_and_the_branch_are_those_that_git_names(places: dict[str, Path], name: str) -> None:
    place = places[name]
    asked = ("rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir")
    assert folders_of(place) == tuple(Path(line) for line in git(place, *asked).splitlines())
    branch = None if name == "detached" else git(place, "symbolic-ref", "--short", "HEAD")
    assert current_branch(Git(place)) == branch


def test_below_the_top_folder_git_is_asked(places: dict[str, Path]) -> None:
    assert folders_of(places["plain/folder"]) is None
    assert SharedGit(places["plain/folder"]).common == places["plain"] / ".git"
    assert current_branch(Git(places["plain/folder"])) == "topic/main"


@pytest.mark.parametrize("content", [b"", b"gitdir: nowhere\n", b"gitdir: \xff\0\n", b"no git folder\n"])
def test_a_damaged_link_to_the_folder_is_left_to_git(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    assert folders_of(tmp_path) is None


def test_a_clone_that_was_killed_half_way_has_no_folder(places: dict[str, Path]) -> None:
    (places["empty"] / ".git" / "HEAD").unlink()
    assert folders_of(places["empty"]) is None


def test_a_branch_in_a_table_of_refs_is_left_to_git(places: dict[str, Path]) -> None:
    (places["plain"] / ".git" / "HEAD").write_text("ref: refs/heads/.invalid\n")
    with pytest.raises(GitError):
        current_branch(Git(places["plain"]))


@pytest.mark.parametrize("name", KINDS)
def test_a_partial_clone_is_told_from_a_whole_one(places: dict[str, Path], name: str) -> None:
    expected = {"origin": "blob:none"} if name == "partial" else {}
    assert Git(places[name]).left_out == expected


def test_a_partial_clone_is_told_from_a_file_that_its_settings_include(places: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "more").write_text('[remote "origin"]\n\tpromisor = true\n\tpartialclonefilter = tree:0\n')
    git(places["plain"], "config", "include.path", str(tmp_path / "more"))
    assert Git(places["plain"]).left_out == {"origin": "tree:0"}


def test_a_whole_clone_needs_no_process_for_that(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    trace = places["plain"] / "trace"
    monkeypatch.setenv("GIT_TRACE", str(trace))
    whole = SharedGit(places["plain"], lazy=True)
    assert (whole.left_out, whole.common, current_branch(whole)) == ({}, places["plain"] / ".git", "topic/main")
    assert not trace.exists()
