"""Revision selection against a real upstream repository."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from mlir_release.errors import MachineError, UsageError
from mlir_release.snapshot.upstream import Upstream

if TYPE_CHECKING:
    from pathlib import Path


def git(directory: Path, *args: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", *args]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "llvm-project"
    folder.mkdir()
    git(folder, "init", "--quiet", "-b", "main")
    for number in range(3):
        git(
            folder, "commit", "--quiet", "--allow-empty", "-m", f"[mlir] Change {number}\n\nLLVM-Version: 22.1.{number}"
        )
        git(folder, "tag", *(["-a", "-m", "x"] if number else []), f"llvmorg-22.1.{number}")
    git(folder, "branch", "release/22.x", "HEAD~1")
    return folder


@pytest.fixture
def upstream(repository: Path, tmp_path: Path) -> Upstream:
    return Upstream(str(repository), cache=tmp_path / "cache")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("head", "main"),
        ("main", "main"),
        ("release/22.x", "main~1"),
        ("llvmorg-22.1.0", "main~2"),
        ("llvmorg-22.1.1", "main~1"),
    ],
)
def test_names(repository: Path, upstream: Upstream, selector: str, expected: str) -> None:
    revision = upstream.resolve(selector)
    assert revision.sha == git(repository, "rev-parse", expected)
    assert revision.epoch == int(git(repository, "log", "-1", "--format=%ct", expected))
    assert revision.subject.startswith("[mlir] Change")
    assert revision.trailers["LLVM-Version"].startswith("22.1.")


def test_full_sha_need_not_be_a_ref(repository: Path, upstream: Upstream) -> None:
    sha = git(repository, "rev-parse", "main~2")
    assert upstream.resolve(sha).sha == sha
    assert upstream.resolve(sha).sha == sha, "from the cache too"


def test_head_follows_the_branch(repository: Path, upstream: Upstream) -> None:
    before = upstream.resolve("head").sha
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "newer")
    assert upstream.resolve("head").sha != before


@pytest.mark.parametrize(
    ("selector", "identifier"),
    [
        ("0" * 39 + "1", "revision-unknown"),
        ("no-such-branch", "revision-unknown"),
        ("--upload-pack=false", "revision-unknown"),
        ("abcdef1", "revision-short"),
    ],
)
def test_selectors_that_name_nothing(upstream: Upstream, selector: str, identifier: str) -> None:
    with pytest.raises(UsageError) as caught:
        upstream.resolve(selector)
    assert caught.value.id == identifier


def test_a_name_that_is_both_is_ambiguous(repository: Path, upstream: Upstream) -> None:
    git(repository, "tag", "release/22.x", "main")
    with pytest.raises(UsageError) as caught:
        upstream.resolve("release/22.x")
    assert caught.value.id == "revision-ambiguous"


def test_unreachable(tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        Upstream(str(tmp_path / "nothing"), cache=tmp_path / "cache").resolve("head")
    assert caught.value.id == "upstream-unreachable"
