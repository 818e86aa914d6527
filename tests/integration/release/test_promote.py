"""A platform that a release proves is proposed as a pull request; ``main`` stays as it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from msgspec import structs

from mlir_release.cli.app import app
from mlir_release.console import console
from mlir_release.errors import ReleaseError
from mlir_release.model.manifest import TestEntry
from mlir_release.model.matrix import Matrix
from mlir_release.model.targets import TARGETS_FILE
from tests.github_server import GitHubServer
from tests.github_server.world import Asset, Release
from tests.paper_forge import make_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = "llvm/mlir-wheels"
TAG, NEWER = "snapshot-20261120.02", "snapshot-20261121.01"
BRANCH = "promote/windows-x64"
WHEN = datetime(2026, 11, 21, tzinfo=UTC)
TEXT = (Path(__file__).parents[3] / TARGETS_FILE).read_bytes()
TESTS = [
    *(f"{suite}-mlir-windows-x64-cp3{minor}" for suite in ("smoke", "bindings") for minor in (11, 12, 13, 14)),
    "regression-mlir-windows-x64",
]


class World:
    def __init__(self, github: GitHubServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.github = github
        github.add_repository(REPOSITORY, {TARGETS_FILE: TEXT})
        self.place = github.repositories[REPOSITORY]
        token = github.token(scopes=("contents", "pull_requests"))
        for key, value in github.environment(REPOSITORY, token).items():
            monkeypatch.setenv(key, value)
        monkeypatch.setattr(console, "json_mode", False)

    def publish(self, tag: str, *tests: str) -> None:
        rows = tuple(TestEntry(name=name, suite=name.partition("-")[0], counts={"pass": 10}) for name in tests)
        content = structs.replace(make_manifest(tag), tests=rows).to_text().encode()
        release = Release(
            self.github.next_id(), tag, tag, "", False, True, WHEN, WHEN, True, ids=self.github.next_ids(1)
        )
        release.assets.append(Asset(release.ids[0], "release.json", content, WHEN))
        self.place.releases[release.id] = release

    def promote(self, *arguments: str, code: str = "") -> Any:
        done = CliRunner().invoke(
            app, ["promote", *arguments, "--forge", f"github:{REPOSITORY}", "--json"], standalone_mode=False
        )
        if code:
            assert isinstance(done.exception, ReleaseError)
            assert done.exception.id == code
            return done.exception
        assert done.exception is None, done.exception
        return json.loads(done.stdout)

    def at(self, branch: str) -> bytes | None:
        return self.place.git.read(f"refs/heads/{branch}", TARGETS_FILE)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    with GitHubServer(tmp_path / "github") as github:
        yield World(github, monkeypatch)


def test_a_proven_platform_is_proposed_once(world: World) -> None:
    world.publish(TAG, *TESTS)
    said = world.promote("windows-x64")
    assert said["proof"]["tag"] == TAG
    assert world.at("main") == TEXT
    changed = world.at(BRANCH)
    assert changed is not None
    required = {wheel.name for wheel in Matrix.parse(changed.decode()).wheels if wheel.required}
    assert {"mlir-windows-x64-cp311", "mlir-windows-x64-cp314"} <= required
    (pull,) = world.place.issues
    assert (pull["head"], pull["base"], pull["draft"]) == (BRANCH, "main", False)
    assert TAG in pull["body"]
    head = world.place.git.resolve(f"refs/heads/{BRANCH}")
    again = world.promote("windows-x64")
    assert again["url"] == said["url"]
    assert world.place.git.resolve(f"refs/heads/{BRANCH}") == head
    assert len(world.place.issues) == 1


def test_what_main_says_already_is_not_proposed(world: World) -> None:
    world.publish(TAG, *TESTS)
    world.promote("windows-x64")
    world.place.git.run("update-ref", "refs/heads/main", f"refs/heads/{BRANCH}")
    world.publish(NEWER, *TESTS)
    assert world.promote("windows-x64")["diff"] == ""


def test_a_dry_run_shows_the_edit_and_changes_nothing(world: World) -> None:
    world.publish(TAG, *TESTS)
    said = world.promote("windows-x64", "--dry-run")
    assert f'+proven = "{TAG}"' in said["diff"]
    assert said["url"] == ""
    assert world.at(BRANCH) is None
    assert not world.place.issues


def test_an_unproven_platform_is_refused(world: World) -> None:
    world.promote("windows-x64", code="release-not-ready")
    world.publish(TAG, *TESTS[:-1])
    assert "regression-mlir-windows-x64" in world.promote("windows-x64", code="release-not-ready").why
    world.promote("windows", code="option-invalid")
    assert world.at(BRANCH) is None


def test_a_local_forge_proves_nothing(tmp_path: Path) -> None:
    forge = tmp_path / "forge"
    assert CliRunner().invoke(app, ["forge", "init", str(forge)], standalone_mode=False).exception is None
    done = CliRunner().invoke(app, ["promote", "windows-x64", "--forge", f"local:{forge}"], standalone_mode=False)
    assert isinstance(done.exception, ReleaseError)
    assert done.exception.id == "needs-github"
