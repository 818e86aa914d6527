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
from mlir_release.model.manifest import TestEntry
from mlir_release.model.matrix import Matrix
from mlir_release.model.release_settings import TARGETS_FILE
from tests.github_server.world import Asset, Release
from tests.github_stage import REPOSITORY, GitHubStage
from tests.paper_forge import make_manifest
from tests.refusals import check_error

if TYPE_CHECKING:
    from collections.abc import Iterator

TAG, NEWER = "snapshot-20261120.02", "snapshot-20261121.01"
BRANCH = "promote/windows-x64"
WHEN = datetime(2026, 11, 21, tzinfo=UTC)
ROOT = Path(__file__).parents[3]
TEXT = (ROOT / TARGETS_FILE).read_bytes()
LINE = "matrices/22.1.toml"
OF_LINE = (ROOT / LINE).read_bytes()
TESTS = [
    *(f"{suite}-mlir-windows-x64-cp3{minor}" for suite in ("smoke", "bindings") for minor in (11, 12, 13, 14)),
    "regression-mlir-windows-x64",
]


class PromoteStage(GitHubStage):
    """Releases with results of tests, and the command that proposes what they prove."""

    def publish(self, tag: str, *tests: str) -> None:
        rows = tuple(TestEntry(name=name, suite=name.partition("-")[0], counts={"pass": 10}) for name in tests)
        content = structs.replace(make_manifest(tag), tests=rows).to_text().encode()
        release = Release(
            self.server.next_id(), tag, tag, "", False, True, WHEN, WHEN, True, ids=self.server.next_ids(1)
        )
        release.assets.append(Asset(release.ids[0], "release.json", content, WHEN))
        self.repository.releases[release.id] = release

    def promote(self, *arguments: str, code: str = "") -> Any:
        done = CliRunner().invoke(
            app, ["promote", *arguments, "--forge", f"github:{REPOSITORY}", "--json"], standalone_mode=False
        )
        if code:
            return check_error(done.exception, code)
        assert done.exception is None, done.exception
        return json.loads(done.stdout)

    def at(self, branch: str, file: str = TARGETS_FILE) -> bytes | None:
        return self.repository.git.read(f"refs/heads/{branch}", file)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PromoteStage]:
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    with PromoteStage(tmp_path, {TARGETS_FILE: TEXT, LINE: OF_LINE}, scopes=("contents", "pull_requests")) as made:
        for key, value in made.environment.items():
            monkeypatch.setenv(key, value)
        yield made


def test_a_proven_platform_is_proposed_once(stage: PromoteStage) -> None:
    stage.publish(TAG, *TESTS)
    said = stage.promote("windows-x64")
    assert said["proof"]["tag"] == TAG
    assert stage.at("main") == TEXT
    changed = stage.at(BRANCH)
    assert changed is not None
    required = {wheel.name for wheel in Matrix.parse(changed.decode()).wheels if wheel.required}
    assert {"mlir-windows-x64-cp311", "mlir-windows-x64-cp314"} <= required
    (pull,) = stage.repository.issues
    assert (pull["head"], pull["base"], pull["draft"]) == (BRANCH, "main", False)
    assert TAG in pull["body"]
    head = stage.repository.git.resolve(f"refs/heads/{BRANCH}")
    again = stage.promote("windows-x64")
    assert again["url"] == said["url"]
    assert stage.repository.git.resolve(f"refs/heads/{BRANCH}") == head
    assert len(stage.repository.issues) == 1


def test_what_main_says_already_is_not_proposed(stage: PromoteStage) -> None:
    stage.publish(TAG, *TESTS)
    stage.promote("windows-x64")
    stage.repository.git.run("update-ref", "refs/heads/main", f"refs/heads/{BRANCH}")
    stage.publish(NEWER, *TESTS)
    assert stage.promote("windows-x64")["diff"] == ""


def test_a_release_of_a_line_proves_a_platform_in_the_lines_own_file(stage: PromoteStage) -> None:
    stage.publish("llvm-22.1.8.01", *TESTS)
    stage.publish(NEWER)
    said = stage.promote("windows-x64", "--line", "22.1")
    assert (said["proof"]["tag"], said["file"], said["branch"]) == ("llvm-22.1.8.01", LINE, "promote/22.1/windows-x64")
    changed, before = stage.at("promote/22.1/windows-x64", LINE), Matrix.parse(TEXT.decode())
    assert stage.at("promote/22.1/windows-x64") == TEXT
    assert (stage.at("main", LINE), changed == OF_LINE) == (OF_LINE, False)
    after = before.of_line("22.1", (changed or b"").decode(), where="")
    required = {wheel.name for wheel in after.wheels if wheel.required and wheel.runtime.name == "windows-x64"}
    assert required == {f"mlir-windows-x64-cp3{minor}" for minor in (11, 12, 13, 14)}
    (pull,) = stage.repository.issues
    assert "From the next release of LLVM 22.1 on" in pull["body"]


def test_other_releases_prove_nothing_in_a_lines_file(stage: PromoteStage) -> None:
    stage.publish(TAG, *TESTS)
    stage.publish("llvm-22.2.0.01", *TESTS)
    stage.promote("windows-x64", "--line", "22.1", code="release-not-ready")
    assert "matrices/23.1.toml" in stage.promote("windows-x64", "--line", "23.1", code="input-missing").what
    stage.promote("windows-x64", "--line", "22", code="option-invalid")


def test_a_dry_run_shows_the_edit_and_changes_nothing(stage: PromoteStage) -> None:
    stage.publish(TAG, *TESTS)
    said = stage.promote("windows-x64", "--dry-run")
    assert f'+proven = "{TAG}"' in said["diff"]
    assert said["url"] == ""
    assert stage.at(BRANCH) is None
    assert not stage.repository.issues


def test_an_unproven_platform_is_refused(stage: PromoteStage) -> None:
    stage.promote("windows-x64", code="release-not-ready")
    stage.publish(TAG, *TESTS[:-1])
    assert "regression-mlir-windows-x64" in stage.promote("windows-x64", code="release-not-ready").why
    stage.promote("windows", code="option-invalid")
    assert stage.at(BRANCH) is None


def test_a_local_forge_proves_nothing(tmp_path: Path) -> None:
    forge = tmp_path / "forge"
    assert CliRunner().invoke(app, ["forge", "init", str(forge)], standalone_mode=False).exception is None
    done = CliRunner().invoke(app, ["promote", "windows-x64", "--forge", f"local:{forge}"], standalone_mode=False)
    check_error(done.exception, "needs-github")
