"""``green`` from a real upstream repository and what GitHub knows of its commits."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.ground.llvm.upstream import Upstream
from mlir_release.release.forge.github.client import GitHubClient
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.forge.github.runs import GitHubChecks
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.release_settings import GreenPolicy, ReleaseConfig
from mlir_release.release.pinning.green import select
from tests.github_server import Fault, GitHubServer
from tests.refusals import refused
from tests.release_stage import TARGETS
from tests.revision_factory import UPSTREAM
from tests.wheel_factory import REVISION

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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
    repository, (commit, *_) = github.repositories[UPSTREAM], add_commits(github, 1)
    many: list[tuple[str, str | None]] = [(f"other {number}", "failure") for number in range(230)]

    def linux(*conclusions: str | None) -> object:
        known: dict[str, object] = repository.checks  # type: ignore[assignment]
        known[commit] = [*[("linux", conclusion) for conclusion in conclusions], *many]
        return GitHubChecks(GitHubClient.of_environment(UPSTREAM)).states(commit, ["linux"]).get("linux")

    assert linux("failure", "success") == "success"  # found on the third page
    assert linux("success", "failure") == "failure"
    assert linux("success", None) == "pending"  # it runs again
    for conclusion in ("neutral", "skipped", "cancelled", "timed_out", "action_required"):
        assert linux(conclusion) == conclusion
    assert linux() is None
    repository.statuses[commit] = {"linux": "success"}
    assert linux("failure") == "failure"
    assert linux(None) == "pending"  # a status of the same name does not stand in for it
    assert linux() == "success"


def test_statuses_are_found_on_any_page_and_stand_beside_check_runs(github: GitHubServer) -> None:
    checks = GitHubChecks(GitHubClient.of_environment(UPSTREAM))
    repository, (commit, *_) = github.repositories[UPSTREAM], add_commits(github, 1)
    many = {f"other {number}": "failure" for number in range(150)}
    repository.checks[commit] = {"linux": "success"}
    for state in ("success", "error", "pending"):
        repository.statuses[commit] = {**many, "buildbot": state}
        found = checks.states(commit, ["linux", "buildbot"])
        assert (found["linux"], found["buildbot"]) == ("success", state)


def asked(github: GitHubServer) -> list[str]:
    return [record.operation.rpartition("/")[2] for record in github.requests if record.operation]


def test_selected_and_resolved_in_few_requests(github: GitHubServer, tmp_path: Path) -> None:
    commits = add_commits(github, 6)
    repository = github.repositories[UPSTREAM]
    repository.checks = {commits[1]: {"linux": "failure"}, commits[3]: {"linux": "success"}, commits[4]: {}}
    settings = config(github, "linux", depth=5)
    upstream = Upstream(settings.upstream, cache=tmp_path / "cache")
    assert select(settings, "green", upstream).sha == commits[3]
    # The list; of each commit its runs, and its statuses where a run is missing; nothing after the green one.
    assert asked(github) == ["commits", "check-runs", "status", "check-runs", "check-runs", "status", "check-runs"]
    repository.checks.pop(commits[3])
    error = refused(lambda: select(settings, "green", upstream), "nothing-green", "last 5")
    assert error.why == "linux: 4 missing, 1 failure"
    fallback = config(github, "linux", depth=5, fallback="head")
    assert select(fallback, "green", upstream).sha == commits[0]


def test_buildbots_cost_one_request_a_commit(github: GitHubServer, tmp_path: Path) -> None:
    """What is found among the statuses is not looked for among the check runs of later commits."""
    commits = add_commits(github, 4)
    states = ["failure", "error", "failure", "success"]
    github.repositories[UPSTREAM].statuses = {
        commit: {"mlir-nvidia": state, "premerge-monolithic-linux": "success"}
        for commit, state in zip(commits, states, strict=False)
    }
    settings = config(github, "mlir-nvidia", "premerge-monolithic-linux")
    assert select(settings, "green", Upstream(settings.upstream, cache=tmp_path / "cache")).sha == commits[3]
    assert asked(github) == ["commits", "check-runs", "status", "status", "status", "status"]


def test_a_used_up_rate_limit_ends_the_search_with_its_own_error(github: GitHubServer, tmp_path: Path) -> None:
    add_commits(github, 2)
    later = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(time.time()) + 86_400)}
    github.faults = lambda record: (
        Fault(status=403, headers=later, message="API rate limit exceeded") if "check-runs" in record.path else None
    )
    settings = config(github, "linux")
    refused(
        lambda: select(settings, "green", Upstream(settings.upstream, cache=tmp_path / "cache")), "forge-rate-limited"
    )


def test_without_a_token_the_small_limit_is_named(
    github: GitHubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = add_commits(github, 1)
    monkeypatch.delenv("GITHUB_TOKEN")
    github.repositories[UPSTREAM].checks = {commits[0]: {"linux": "success"}}
    settings = config(github, "linux")
    assert select(settings, "green", Upstream(settings.upstream, cache=tmp_path / "cache")).sha == commits[0]
    assert "60 requests an hour" in capsys.readouterr().err


def targets(github: GitHubServer) -> str:
    old, new = 'upstream = "https://github.com/llvm/llvm-project.git"', f'upstream = "{github.url}/{UPSTREAM}.git"'
    assert old in TARGETS
    return TARGETS.replace(old, new) + '\n[release.green]\nchecks = ["linux"]\n'


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mlir_release", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_dry_run_explains_the_choice(github: GitHubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = add_commits(github, 2)
    github.repositories[UPSTREAM].checks = {commits[0]: {"linux": "failure"}, commits[1]: {"linux": "success"}}
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    files = {PIN_FILE: f"{REVISION}\n".encode(), "targets.toml": targets(github).encode()}
    forge = LocalForge.create(tmp_path / "forge", files)
    command = ("snapshot", "--forge", f"local:{tmp_path / 'forge'}", "--policy", "green", "--dry-run")
    shown = run(*command)
    assert shown.returncode == 0, shown.stderr
    first, second = (next(line for line in shown.stdout.splitlines() if commit[:12] in line) for commit in commits[:2])
    assert first.rstrip().endswith("failure: linux")
    assert second.split()[-1] == "taken"
    assert f"green: {commits[1][:12]}, 1 commit and" in shown.stderr
    data = json.loads(run(*command, "--json").stdout)
    assert data["revision"] == data["green"]["commit"] == commits[1]
    candidates = [(row["green"], row["subject"]) for row in data["green"]["candidates"]]
    assert candidates == [(False, "m"), (True, "m")]
    assert forge.tags() == []
    by_head = run("snapshot", "--forge", f"local:{tmp_path / 'forge'}", "--policy", "head", "--dry-run", "--json")
    assert json.loads(by_head.stdout)["green"] is None
