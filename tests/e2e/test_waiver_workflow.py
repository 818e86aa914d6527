"""release.yml, run by act on a draft that lacks only what a person has waived: no platform's chain is started.

Before that, a person lets it build a part, of which nothing is missing: then nothing is published.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mlir_release.ground.console import console
from mlir_release.ground.git.repository import Signature
from mlir_release.ground.git.trees import commit_files
from tests.scale import NOW, REPOSITORY, TAG, Veteran
from tests.wheel_factory import OTHER_PYTHON, PYTHON
from tests.workflows.rehearse import Runner, toolkit_files

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

OWN_FILES = ("llvm-project.version", "targets.toml", "yanked.toml")


def test_a_run_after_a_waiver_plans_and_publishes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    console.quiet = True
    for name in ("GITHUB_RUN_ID", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    veteran = Veteran(tmp_path, 10, pythons=(OTHER_PYTHON, PYTHON))
    with veteran.github as github:
        veteran.now = NOW
        hosted = github.repositories[REPOSITORY]
        hosted.settings["workflows"] = ("release.yml", "pages.yml")
        toolkit = {name: content for name, content in toolkit_files().items() if name not in OWN_FILES}
        main, who = hosted.git.resolve("refs/heads/main"), Signature(name="Ada", email="ada@example.org", when=NOW)
        hosted.git.run("update-ref", "refs/heads/main", commit_files(hosted.git, main, toolkit, "Add it\n", who))
        veteran.ask("snapshot")
        veteran.pythons = (OTHER_PYTHON,)
        veteran.ask("publish", TAG, "--dist", str(veteran.dist()), "--upload-only")
        runner = Runner(github, tmp_path / "runs", veteran.token)
        (tmp_path / "runs").mkdir()
        assert not runner.run("release.yml", TAG, {"only": f"python={OTHER_PYTHON}"})
        log = (tmp_path / "runs" / "run-1-release.yml.log").read_text()
        assert "::error title=Only a part was built::2 wheels and tests are missing" in log
        assert set(re.findall(r"^\[(.+?)\s*\] 🏁  Job succeeded", log, re.MULTILINE)) == {
            "Release/plan: missing targets",
            "Release/report: update issues",
        }
        assert not hosted.issues
        assert [dispatch.workflow for dispatch in runner.waiting] == ["pages.yml"]
        assert TAG not in [release.tag for release in hosted.releases.values() if not release.draft]
        runner.waiting.clear()
        veteran.ask("release", "waive", TAG, f"mlir-linux-x86_64-{PYTHON}", "--reason", "no time")
        assert runner.run("release.yml", TAG, {})
        log = (tmp_path / "runs" / "run-2-release.yml.log").read_text()
        assert set(re.findall(r"^\[(.+?)\s*\] 🏁  Job succeeded", log, re.MULTILINE)) == {
            "Release/plan: missing targets",
            "Release/publish: verify and publish",
            "Release/report: update issues",
        }
        assert [dispatch.workflow for dispatch in runner.waiting] == ["pages.yml"]
        assert TAG in [release.tag for release in hosted.releases.values() if not release.draft]
