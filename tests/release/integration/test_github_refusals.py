"""`mlir-release snapshot` on a repository of GitHub that is not as it should be: one message, nothing half-done."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.release.forge.files import head_of
from mlir_release.release.forge.github.forge import GitHubForge
from tests.attacks.selected_stage import local_upstream
from tests.github_server import GitHubServer
from tests.release_stage import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.ground.git.repository import Git

REPOSITORY = "llvm/mlir-wheels"
ROOT = Path(__file__).parents[3]
PIN = b"b" * 40 + b"\n"
NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
FIRST = "snapshot-20261120.01"


@pytest.fixture
def targets(tmp_path: Path) -> str:
    upstream, _ = local_upstream(tmp_path / "upstream.git")
    return TARGETS.replace("https://github.com/llvm/llvm-project.git", str(upstream.directory))


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github", clock=lambda: NOW) as server:
        yield server


def snapshot(github: GitHubServer, folder: Path, token: str) -> tuple[int, str]:
    """Exit code, and all that was said."""
    environment = os.environ | github.environment(REPOSITORY, token)
    environment |= {"MLIR_RELEASE_CACHE": str(folder / "cache"), "MLIR_RELEASE_FORGE": f"github:{REPOSITORY}"}
    done = subprocess.run(
        [sys.executable, "-m", "mlir_release", "snapshot"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    said = done.stdout + done.stderr
    assert token not in said
    assert "Traceback" not in said
    return done.returncode, said


def refs(github: GitHubServer) -> str:
    git: Git = github.repositories[REPOSITORY].git
    return git.run("for-each-ref").stdout.decode()


@pytest.mark.parametrize(
    ("trouble", "id"),
    [
        ("a wrong token", "token-invalid"),
        ("a missing scope", "token-lacks-right"),
        ("a protected branch", "rule-forbids"),
        ("a typo in targets.toml", "config-invalid"),
    ],
)
def test_nothing_is_done(trouble: str, id: str, github: GitHubServer, targets: str, tmp_path: Path) -> None:
    text = targets.replace("suites =", "suits =") if "typo" in trouble else targets
    assert (text == targets) == ("typo" not in trouble)
    github.add_repository(REPOSITORY, {"llvm-project.version": PIN, "targets.toml": text.encode()})
    token = github.token(scopes=()) if "scope" in trouble else github.token()
    if "protected" in trouble:
        github.repositories[REPOSITORY].settings["rules"] = ("refs/heads/snapshots",)
    before = refs(github)
    code, said = snapshot(github, tmp_path, "ghs_wrong" if "wrong" in trouble else token)
    assert code != 0
    assert said.count(id) == 1, said
    assert refs(github) == before
    assert not github.repositories[REPOSITORY].releases


def test_a_tag_rule_stops_after_the_pin_and_the_next_run_goes_on(
    github: GitHubServer, targets: str, tmp_path: Path
) -> None:
    github.add_repository(REPOSITORY, {"llvm-project.version": PIN, "targets.toml": targets.encode()})
    settings = github.repositories[REPOSITORY].settings
    settings["rules"] = ("refs/tags/snapshot-.*",)
    code, said = snapshot(github, tmp_path, github.token())
    assert code != 0
    assert said.count("rule-forbids") == 1, said
    assert "refs/tags/" not in refs(github)
    settings["rules"] = ()
    pinned = refs(github)
    assert snapshot(github, tmp_path, github.token())[0] == 0
    assert refs(github).startswith(pinned)  # the tag is added, no second pin
    assert f"refs/tags/{FIRST}" in refs(github)


def test_an_unknown_workflow_is_told_and_dispatched_once_it_is_there(
    github: GitHubServer, targets: str, tmp_path: Path
) -> None:
    github.add_repository(REPOSITORY, {"llvm-project.version": PIN, "targets.toml": targets.encode()})
    repository = github.repositories[REPOSITORY]
    there, repository.settings["workflows"] = repository.settings["workflows"], ()
    code, said = snapshot(github, tmp_path, github.token())
    assert code != 0
    assert said.count("not-on-forge") == 1, said
    repository.settings["workflows"] = there
    assert snapshot(github, tmp_path, github.token())[0] == 0
    assert [release.tag for release in repository.releases.values()] == [FIRST]
    assert [dispatch.ref for dispatch in repository.dispatches] == [FIRST]


def test_a_release_by_hand_under_the_next_name_is_left_alone(
    github: GitHubServer, targets: str, tmp_path: Path
) -> None:
    github.add_repository(REPOSITORY, {"llvm-project.version": PIN, "targets.toml": targets.encode()})
    token = github.token()
    forge = GitHubForge.open(REPOSITORY, environ=github.environment(REPOSITORY, token))
    head = head_of(forge, "main")
    forge.create_tag(FIRST, head, "by hand\n")
    by_hand = forge.publish(forge.create_draft(FIRST, title="Mine", body="by hand", prerelease=False))
    code, said = snapshot(github, tmp_path, token)
    assert code == 0, said
    assert f"{FIRST} was not made by mlir-release" in " ".join(said.split())
    theirs, ours = forge.releases()
    assert (theirs, ours.tag, ours.draft) == (by_hand, "snapshot-20261120.02", True)
