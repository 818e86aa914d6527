"""Revision selection against a real upstream repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import UsageError
from mlir_release.ground.llvm.llvm_facts import LlvmFacts
from mlir_release.ground.llvm.projects import all_projects
from mlir_release.ground.llvm.upstream import Upstream
from tests.attacks.hostile_repository import git
from tests.refusals import refused
from tests.revision_factory import LLVM_FILES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


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
    assert not revision.represents  # upstream's messages choose nothing


def test_full_sha_need_not_be_a_ref(repository: Path, upstream: Upstream) -> None:
    sha = git(repository, "rev-parse", "main~2")
    assert upstream.resolve(sha).sha == sha
    assert upstream.resolve(sha).sha == sha, "from the cache too"


def test_head_follows_the_branch(repository: Path, upstream: Upstream) -> None:
    before = upstream.resolve("head").sha
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "newer")
    assert upstream.resolve("head").sha != before


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("0" * 39 + "1", "the upstream has no commit"),
        ("no-such-branch", "the upstream has no branch or tag"),
        ("--upload-pack=false", "the upstream has no branch or tag"),
        ("abcdef1", "is an abbreviated commit"),
    ],
)
def test_selectors_that_name_nothing(upstream: Upstream, selector: str, said: str) -> None:
    refused(lambda: upstream.resolve(selector), said=said, kind=UsageError)


def test_a_name_that_is_both_is_ambiguous(repository: Path, upstream: Upstream) -> None:
    git(repository, "tag", "release/22.x", "main")
    refused(lambda: upstream.resolve("release/22.x"), "revision-unknown")


def test_unreachable(tmp_path: Path) -> None:
    refused(lambda: Upstream(str(tmp_path / "nothing"), cache=tmp_path / "cache").resolve("head"), "network-failed")


# -- facts of a commit ------------------------------------------------------------------------------------------------


def commit_tree(repository: Path, files: Mapping[str, str]) -> str:
    """Commit these files, and a large one that nothing needs, as all that there is."""
    git(repository, "rm", "-rq", "--ignore-unmatch", ".")
    for path, text in {**files, "clang/large": "x" * 1_000_000}.items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "--quiet", "-m", "[mlir] A tree")
    return git(repository, "rev-parse", "HEAD")


def requests(trace: Path) -> int:
    """How often the upstream was asked for something."""
    return trace.read_text().count("run_command: unset") if trace.exists() else 0


@pytest.mark.parametrize("filters", [True, False], ids=["filters", "no filters"])
def test_facts_cost_two_small_requests_once(
    repository: Path, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filters: bool
) -> None:
    """A server that can't filter sends everything with the commit, and is not asked again."""
    git(repository, "config", "uploadpack.allowFilter", str(filters).lower())
    sha = commit_tree(repository, LLVM_FILES)
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE", str(trace))
    revision = upstream.resolve(sha)
    assert requests(trace) == 1
    assert revision.facts() == LlvmFacts.read(LLVM_FILES.get)
    assert requests(trace) == (3 if filters else 1)
    (cache,) = (path for path in (tmp_path / "cache" / "revisions").iterdir() if path.is_dir())
    held = git(cache, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectsize)").splitlines()
    assert sum(line.startswith("blob") for line in held) == len(LLVM_FILES) + (not filters)
    repository.rename(tmp_path / "gone")
    assert Upstream(upstream.url, cache=tmp_path / "cache").resolve(sha).facts().version == "23.1.1"


def test_a_selection_reads_no_tree(repository: Path, upstream: Upstream, tmp_path: Path) -> None:
    git(repository, "config", "uploadpack.allowFilter", "true")
    revision = upstream.resolve(commit_tree(repository, LLVM_FILES))
    repository.rename(tmp_path / "gone")
    refused(revision.facts, "network-failed")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({project.needs: None for project in all_projects()}, "has no project that wheels can be released of"),
        (dict.fromkeys(LLVM_FILES), "has no project that wheels can be released of"),
        ({"cmake/Modules/LLVMVersion.cmake": "set(LLVM_VERSION_MAJOR 23)\n"}, "does not say which LLVM version it is"),
        ({"mlir/python/requirements.txt": "numpy == \n"}, "cannot be read"),
    ],
)
def test_a_tree_that_can_be_no_release(
    repository: Path, upstream: Upstream, changes: dict[str, str | None], said: str
) -> None:
    files = {path: text for path, text in (LLVM_FILES | changes).items() if text is not None}
    revision = upstream.resolve(commit_tree(repository, files))
    error = refused(revision.facts, said=said, kind=UsageError)
    assert revision.sha in error.where


def test_a_process_that_died_while_it_made_the_cache_is_in_no_ones_way(
    repository: Path, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.resolve("head")
    (cache,) = (path for path in (tmp_path / "cache" / "revisions").iterdir() if path.is_dir())
    unfinished = cache.with_suffix(".new")
    cache.rename(unfinished)
    (unfinished / "config").unlink()
    assert upstream.resolve("head").sha == git(repository, "rev-parse", "main")
