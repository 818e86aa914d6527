"""``green`` from a real upstream repository and what GitHub knows of its commits."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mlir_release.errors import NeedsPersonError
from mlir_release.forge.github import client as github_client
from mlir_release.forge.github.checks import GitHubChecks
from mlir_release.forge.github.client import GitHubClient
from mlir_release.forge.github.forge import GitHubForge
from mlir_release.model.pin import PIN_FILE
from mlir_release.model.targets import GreenPolicy, ReleaseConfig
from mlir_release.snapshot.green import select
from mlir_release.snapshot.upstream import Upstream
from tests.github_server import GitHubServer
from tests.release_stage import TARGETS
from tests.wheel_factory import REVISION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UPSTREAM = "llvm/llvm-project"


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    monkeypatch.setattr(github_client, "FIRST_WAIT", 0.0)
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository(UPSTREAM, {"README": b"LLVM\n"})
        for name, value in server.environment("llvm/mlir-wheels", server.token()).items():
            monkeypatch.setenv(name, value)
        yield server


def add_commits(github: GitHubServer, count: int) -> list[str]:
    """Newest first."""
    forge = GitHubForge.open(UPSTREAM)
    commits = [str(forge.head("main"))]
    for number in range(count):
        commits.append(forge.commit("main", expected=commits[-1], files={"a": b"%d" % number}, message="m\n"))
    github.requests.clear()
    return commits[::-1]


def config(github: GitHubServer, *checks: str, **policy: object) -> ReleaseConfig:
    green = GreenPolicy(checks=checks, **policy)  # type: ignore[arg-type]
    return ReleaseConfig(upstream=f"{github.url}/{UPSTREAM}.git", green=green)


def test_the_newest_run_of_a_check_counts(github: GitHubServer) -> None:
    checks = GitHubChecks(GitHubClient.of_environment(UPSTREAM))
    repository, (commit, *_) = github.repositories[UPSTREAM], add_commits(github, 1)
    many: list[tuple[str, str | None]] = [(f"other {number}", "failure") for number in range(230)]

    def linux(*conclusions: str | None) -> object:
        known: dict[str, object] = repository.checks  # type: ignore[assignment]
        known[commit] = [*[("linux", conclusion) for conclusion in conclusions], *many]
        return checks.results(commit, ["linux"]).get("linux")

    assert linux("failure", "success") is True  # found on the third page
    assert linux("success", "failure") is False
    assert linux("success", None) is None  # it runs again
    for conclusion in ("neutral", "skipped", "cancelled", "timed_out", "action_required"):
        assert linux(conclusion) is False
    repository.statuses[commit] = {"linux": "success"}
    assert linux("failure") is False
    assert linux(None) is None  # a status of the same name does not stand in for it
    assert linux() is True


def test_the_newest_status_of_a_context_counts(github: GitHubServer) -> None:
    checks = GitHubChecks(GitHubClient.of_environment(UPSTREAM))
    repository, (commit, *_) = github.repositories[UPSTREAM], add_commits(github, 1)
    many = [(f"other {number}", "failure") for number in range(150)]
    for states, expected in (
        (("failure", "success"), True),
        (("success", "error"), False),
        (("success", "pending"), None),
    ):
        known: dict[str, object] = repository.statuses  # type: ignore[assignment]
        known[commit] = [*[("buildbot", state) for state in states], *many]
        assert checks.results(commit, ["buildbot"]).get("buildbot") is expected


def test_selected_and_resolved_in_few_requests(github: GitHubServer, tmp_path: Path) -> None:
    commits = add_commits(github, 6)
    repository = github.repositories[UPSTREAM]
    repository.checks = {commits[1]: {"linux": "failure"}, commits[3]: {"linux": "success"}, commits[4]: {}}
    settings = config(github, "linux", depth=5)
    upstream = Upstream(settings.upstream, cache=tmp_path / "cache")
    assert select(settings, "green", upstream).sha == commits[3]
    asked = [record.operation.rpartition("/")[2] for record in github.requests if record.operation]
    # The list; of each commit its runs, and its statuses where a run is missing; nothing after the green one.
    assert asked == ["commits", *["check-runs", "statuses"], "check-runs", *["check-runs", "statuses"], "check-runs"]
    repository.checks.pop(commits[3])
    with pytest.raises(NeedsPersonError) as caught:
        select(settings, "green", upstream)
    assert caught.value.id == "nothing-green"
    assert "last 5" in caught.value.what
    fallback = config(github, "linux", depth=5, fallback="head")
    assert select(fallback, "green", upstream).sha == commits[0]


def test_the_pin_is_set_to_it(github: GitHubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = add_commits(github, 2)
    github.repositories[UPSTREAM].checks = {commits[1]: {"linux": "success"}}
    upstream = f'upstream = "{github.url}/{UPSTREAM}.git"\n\n[release.green]\nchecks = ["linux"]'
    targets = TARGETS.replace('upstream = "https://github.com/llvm/llvm-project.git"', upstream)
    assert targets != TARGETS
    (tmp_path / "targets.toml").write_text(targets)
    (tmp_path / PIN_FILE).write_text(REVISION + "\n")
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    command = [sys.executable, "-m", "mlir_release", "pin", "set", "green", "-C", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / PIN_FILE).read_text().strip() == commits[1]
