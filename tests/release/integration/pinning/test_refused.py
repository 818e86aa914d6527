"""A scheduled snapshot of an upstream whose head demands newer tools than the jobs have: one issue, nothing else."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.release.forge.github.forge import GitHubForge
from tests.release_stage import TARGETS
from tests.revision_factory import UPSTREAM
from tests.wheel_factory import REVISION

if TYPE_CHECKING:
    from tests.github_server import GitHubServer
    from tests.github_server.world import Repository

RELEASES = "llvm/mlir-wheels"


@pytest.fixture
def releases(
    github: GitHubServer, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Repository:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path_factory.mktemp("cache")))
    targets = TARGETS.replace("https://github.com/llvm/llvm-project.git", f"{github.url}/{UPSTREAM}.git")
    files = {PIN_FILE: f"{REVISION}\n".encode(), "targets.toml": targets.encode()}
    github.add_repository(RELEASES, files, workflows=("release.yml",))
    demand(minimum="4.1")
    return github.repositories[RELEASES]


def demand(*, minimum: str) -> str:
    """Have the upstream's head demand a CMake, and no index be asked about its requirements."""
    forge = GitHubForge.open(UPSTREAM)
    files = {
        "llvm/CMakeLists.txt": f"cmake_minimum_required(VERSION {minimum})\n".encode(),
        "mlir/python/requirements.txt": b"# BUILD dependencies\nnanobind>=2.9, <3.0\n",
    }
    return forge.commit("main", expected=forge.head("main"), files=files, message=f"Demand CMake {minimum}\n")


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mlir_release", "snapshot", "--forge", f"github:{RELEASES}", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_one_issue_says_so_until_a_snapshot_can_be_made(releases: Repository) -> None:
    for _ in range(2):
        refused = run("--track")
        assert refused.returncode == 2
        assert "error[revision-unsuitable]" in refused.stderr
        assert "needs CMake>=4.1, not 3.31" in refused.stderr
        assert not releases.git.text("tag")
        assert not releases.releases
        assert releases.git.resolve("refs/heads/snapshots") is None
        (issue,) = releases.issues
        assert (issue["title"], issue["state"]) == ("No snapshot can be made", "open")
        assert "needs CMake>=4.1, not 3.31" in issue["body"]
    releases.issues.append({**issue, "number": 2})  # of another run at the same time
    run("--track")
    assert [issue["state"] for issue in releases.issues] == ["open", "closed"]
    sha = demand(minimum="3.31.0")
    made = run("--track")
    assert made.returncode == 0, made.stderr
    assert releases.git.text("tag")
    issue, _ = releases.issues
    assert issue["state"] == "closed"
    assert issue["body"].startswith(f"A snapshot of `{sha[:12]}` can be made.")


@pytest.mark.parametrize("options", [("--track", "--dry-run"), ("--track", "--policy", "main")])
def test_what_a_person_tries_opens_no_issue(releases: Repository, options: tuple[str, ...]) -> None:
    assert run(*options).returncode == 2
    assert releases.issues == []


def test_without_the_right_to_issues_the_error_is_the_same(
    releases: Repository, github: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in github.environment(RELEASES, github.token(scopes=("contents", "actions"))).items():
        monkeypatch.setenv(name, value)
    refused = run("--track")
    assert refused.returncode == 2
    assert "error[revision-unsuitable]" in refused.stderr
    assert "the issue about refused snapshots is not up to date" in refused.stderr
    assert releases.issues == []
