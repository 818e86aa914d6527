"""A commit that only a fork has can be fetched from upstream by its id, and is not pinned."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import commit_files, commit_tree, tree_of
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.release_settings import ReleaseConfig
from mlir_release.release.pinning.green import select
from tests.refusals import refused
from tests.release.integration.pinning.test_pinned import ADA
from tests.release_stage import TARGETS
from tests.revision_factory import LLVM_TREE, UPSTREAM
from tests.wheel_factory import REVISION

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from mlir_release.ground.errors import ReleaseError
    from tests.github_server import GitHubServer


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
