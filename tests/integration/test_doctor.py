"""The doctor on a GitHub that answers as its description says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.doctor import REQUIRED_FILES
from tests.github_server import GitHubServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPOSITORY = "llvm/mlir-wheels"
TAGS = {"ref_name": {"include": ["refs/tags/snapshot-*", "refs/tags/llvm-*"], "exclude": []}}
SETTINGS: dict[str, Any] = {
    "workflows": ("snapshot.yml", "release.yml", "numbered-release.yml", "pages.yml"),
    "immutable": True,
    "pages": "workflow",
    "environments": {"pypi": ["llvm-*"], "github-pages": None},
    "rulesets": [
        {"target": "tag", "conditions": TAGS, "rules": [{"type": "deletion"}, {"type": "update"}]},
        {"rules": [{"type": "deletion"}, {"type": "non_fast_forward"}]},
    ],
}


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        yield server


def examine(github: GitHubServer, token: str, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, str], int]:
    for key, value in github.environment(REPOSITORY, token).items():
        monkeypatch.setenv(key, value)
    done = CliRunner().invoke(app, ["doctor", "--forge", f"github:{REPOSITORY}", "--json"], standalone_mode=False)
    assert done.exception is None, done.output
    rows = json.loads(done.stdout)
    worst: dict[str, str] = {}
    for row in rows:
        worst[row["check"]] = max(row["level"], worst.get(row["check"], ""))
    return worst, done.return_value or 0


def test_a_repository_that_is_set_up(github: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    github.add_repository(REPOSITORY, dict.fromkeys(REQUIRED_FILES, b"x\n"), **SETTINGS)
    found, code = examine(github, github.token(scopes=("contents", "admin", "repo")), monkeypatch)
    assert set(found.values()) == {"ok"}
    assert code == 0


def test_a_new_repository(github: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"README": b"x\n", "integrate.toml": b"\n"}
    review = {"type": "pull_request"}
    bypassed = {"rules": [{"type": "required_signatures"}], "current_user_can_bypass": "always"}
    protected = {"lock_branch": {"enabled": True}, "enforce_admins": {"enabled": False, "url": "http://x/y"}}
    github.add_repository(
        REPOSITORY,
        files,
        disabled=("release.yml",),
        issues=False,
        rulesets=[{"rules": [review]}, bypassed],
        protection=protected,
    )
    found, code = examine(github, github.token(scopes=("contents", "admin", "repo")), monkeypatch)
    assert {check for check, level in found.items() if level == "ok"} == {"token", "actions"}
    assert set(found.values()) == {"ok", "problem"}
    assert code == 7


def test_a_token_that_sees_little(github: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    github.add_repository(REPOSITORY, dict.fromkeys(REQUIRED_FILES, b"x\n"), **SETTINGS)
    found, _ = examine(github, github.token(scopes=()), monkeypatch)
    assert found["token"] == "problem"
    assert found["actions"] == found["immutable-releases"] == "unknown"
