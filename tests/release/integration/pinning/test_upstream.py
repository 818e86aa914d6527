"""Revision selection against a real upstream repository."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.errors import UsageError
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files, commit_tree, tree_of
from mlir_release.ground.llvm.llvm_facts import LlvmFacts
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.ground.llvm.projects import all_projects
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.release_settings import ReleaseConfig
from mlir_release.release.pinning.green import select
from tests.attacks.hostile_repository import git
from tests.refusals import refused
from tests.release.integration.pinning.test_pinned import ADA
from tests.release_stage import TARGETS
from tests.revision_factory import LLVM_FILES, LLVM_TREE, UPSTREAM
from tests.wheel_factory import REVISION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mlir_release.ground.errors import ReleaseError
    from tests.github_server import GitHubServer


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


def commit_all(repository: Path, files: Mapping[str, str]) -> str:
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
    sha = commit_all(repository, LLVM_FILES)
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
    revision = upstream.resolve(commit_all(repository, LLVM_FILES))
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
    revision = upstream.resolve(commit_all(repository, files))
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


# -- a commit that only a fork has: it can be fetched from upstream by its id, and is not pinned -----------------------


class Project:
    """An upstream with a branch, release branches, a committer's branch, a tag, and objects of a fork."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self.old = git.text("rev-parse", "refs/heads/main")
        self.head = self._add(self.old, "main")
        older = self._add(self.old, "release/9.x")
        self._add(older, "release/9.x")
        self.released = self._add(self.old, "release/22.x")
        self._add(self.released, "release/22.x")
        self.users = self._add(self.old, "users/ada/work")
        self.tagged = self._add(self.old)
        tag = git.make_tag_object("llvmorg-22.1.8", self.tagged, "LLVM 22.1.8\n", ADA)
        git.run("update-ref", "refs/tags/llvmorg-22.1.8", tag)
        self.forked = self._add(self.old)

    def _add(self, parent: str, branch: str = "") -> str:
        count = len(self.git.text("rev-list", "--all").split())
        commit = commit_tree(self.git, tree_of(self.git, parent), [parent], f"[mlir] Change {count} {branch}\n", ADA)
        if branch:
            self.git.run("update-ref", f"refs/heads/{branch}", commit)
        return commit


def not_upstream(config: ReleaseConfig, sha: str, cache: Path) -> ReleaseError:
    """The error about a commit that is on no branch of upstream."""
    return refused(lambda: select(config, sha, Upstream(config.upstream, cache=cache)), "revision-not-upstream", sha)


def test_on_github_branches_are_asked(github: GitHubServer, tmp_path: Path) -> None:
    project = Project(github.repositories[UPSTREAM].git)
    config = ReleaseConfig(upstream=f"{github.url}/{UPSTREAM}.git")
    upstream = Upstream(config.upstream, cache=tmp_path / "cache")
    # Tips are known from git; then the branch that is followed, then the newest release branch.
    for sha, requests in (
        (project.head, 0),
        (project.users, 0),
        (project.tagged, 0),
        (project.old, 1),
        (project.released, 2),
    ):
        github.requests.clear()
        assert select(config, sha, upstream).sha == sha
        assert len([record for record in github.requests if record.operation]) == requests
    github.requests.clear()
    error = not_upstream(config, project.forked, tmp_path / "cache")
    assert "release/*" in error.why
    asked = [record.path.rpartition("...")[0][-40:] for record in github.requests if record.operation]
    heads = [project.git.text("rev-parse", name) for name in ("main", "release/22.x", "release/9.x")]
    assert asked == heads


def test_elsewhere_the_history_is_fetched_without_files(tmp_path: Path) -> None:
    git = Git(tmp_path / "llvm-project.git")
    git.directory.mkdir()
    git.run("init", "--quiet", "--bare", "--initial-branch=main")
    git.run("config", "uploadpack.allowFilter", "true")
    git.run("config", "uploadpack.allowAnySHA1InWant", "true")
    git.run("update-ref", "refs/heads/main", commit_files(git, None, LLVM_TREE, "[mlir] Begin\n", ADA))
    project = Project(git)
    config = ReleaseConfig(upstream=str(git.directory))
    upstream = Upstream(config.upstream, cache=tmp_path / "cache")
    histories = tmp_path / "cache" / "revisions"
    assert select(config, project.users, upstream).sha == project.users
    assert not list(histories.glob("*.history"))
    for sha in (project.old, project.released):
        assert select(config, sha, upstream).sha == sha
    not_upstream(config, project.forked, tmp_path / "cache")
    (history,) = histories.glob("*.history")
    kinds = Git(history).text("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    assert set(kinds) == {"commit", "tag"}
    # A branch that upstream deletes leads nowhere.
    git.run("update-ref", "-d", "refs/heads/release/22.x")
    not_upstream(config, project.released, tmp_path / "cache")


def test_every_command_that_takes_a_commit_refuses_it(
    github: GitHubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(github.repositories[UPSTREAM].git)
    targets = TARGETS.replace("https://github.com/llvm/llvm-project.git", f"{github.url}/{UPSTREAM}.git")
    assert targets != TARGETS
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    files = {PIN_FILE: f"{REVISION}\n".encode(), "targets.toml": targets.encode()}
    forge = LocalForge.create(tmp_path / "forge", files, identity="Ada <ada@example.org>")
    place = f"local:{forge.root}"
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name, content in files.items():
        (checkout / name).write_bytes(content)
    run = partial(CliRunner().invoke, app, standalone_mode=False, catch_exceptions=False)
    for command in (
        ("snapshot", "--forge", place, "--policy", project.forked),
        ("release", "start", "--version", "22.1.8", "--forge", place, "--revision", project.forked),
        ("pin", "set", project.forked, "-C", str(checkout)),
    ):
        refused(partial(run, command), "revision-not-upstream")
    assert not forge.tags()
    assert forge.head("snapshots") is None
    assert (checkout / PIN_FILE).read_text().strip() == REVISION
    (checkout / PIN_FILE).write_text(f"{project.forked}\n")
    refused(lambda: run(("pin", "check", "-C", str(checkout))), "revision-not-upstream")
