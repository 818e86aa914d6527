"""The workflows, run by act: from a pin bump, through a failed build, to a release that pip installs; and a re-run.

Everything is signed, by attest.yml, with a Sigstore of our own in place of the public one. GitHub lists runs late, and
answers slowly; it does neither in the other tests that act runs.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.console import console
from mlir_release.ground.git.repository import Signature
from mlir_release.ground.git.trees import commit_files
from mlir_release.ground.python.platforms import Platform
from tests.github_server import GitHubServer
from tests.processes import run
from tests.scale import NOW, TAG, Veteran
from tests.sigstore.services import serve_sigstore
from tests.wheel_factory import OTHER_PYTHON, PYTHON
from tests.workflows.rehearse import REPOSITORY, Runner, install_from_pages, make_runner, toolkit_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.github_server import Record

#: Listings that do not show a run yet, and seconds before each answer.
LATE, SLOW = 2, 0.2

#: What the veteran repository has of its own.
OWN_FILES = ("llvm-project.version", "targets.toml", "yanked.toml")


def slowly(_: Record) -> None:
    """Answer late, and well."""
    time.sleep(SLOW)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A runner after the snapshot workflow and those that it dispatched, on a machine without a compiler."""
    workspace = tmp_path_factory.mktemp("workflows")
    with GitHubServer(workspace / "github") as github, serve_sigstore(workspace / "sigstore") as sigstore:
        runner = make_runner(github, workspace, sigstore)
        kept = workspace / "caches" / f"compiled-sdk-{Platform.of_host()}-1"
        kept.mkdir(parents=True)
        (kept / "entry").touch()
        github.runs_appear_after, github.faults = LATE, slowly
        runner.variables["CXX"] = "no-such-compiler"
        runner.run_all("snapshot.yml", "main")
        del runner.variables["CXX"]
        yield runner


def published(runner: Runner) -> list[str]:
    return [r.tag for r in runner.github.repositories[REPOSITORY].releases.values() if not r.draft]


def issues(runner: Runner) -> list[tuple[str, str]]:
    return [(row["title"], row["state"]) for row in runner.github.repositories[REPOSITORY].issues]


def test_a_failing_required_target_keeps_the_draft_unpublished(runner: Runner) -> None:
    assert [(workflow, success) for workflow, _, success in runner.log] == [
        ("snapshot.yml", True),
        ("release.yml", False),
        ("pages.yml", True),  # for the status: begun
        ("compiler-caches.yml", True),
        ("pages.yml", True),  # for the status: ended
    ]
    assert published(runner) == []
    ((title, state),) = issues(runner)
    assert re.fullmatch(r"mlir-linux-\w+-cp3\d+ fails", title)
    assert state == "open"


def test_a_second_release_run_publishes_a_release_that_pip_installs(runner: Runner) -> None:
    _, tag, _ = runner.log[1]
    runner.run_all("release.yml", tag)
    assert [(workflow, success) for workflow, _, success in runner.log[5:]] == [
        ("release.yml", True),
        ("compiler-caches.yml", True),
        ("pages.yml", True),
        ("latest.yml", True),
        ("probe.yml", True),
        ("canary.yml", True),
    ]
    assert published(runner) == [tag]
    assert [state for _, state in issues(runner)] == ["closed"]
    assert tag in install_from_pages(runner, tag)
    assert (runner.pages / "snapshots" / "latest" / "api" / "mlir.dialects.arith.html").is_file()
    assert (runner.pages / "docs" / "design.html").is_file()


def test_everything_is_signed_in_jobs_of_their_own_and_verifies_from_outside(runner: Runner, tmp_path: Path) -> None:
    _, tag, _ = runner.log[1]
    (release,) = (r for r in runner.github.repositories[REPOSITORY].releases.values() if not r.draft)
    names = {asset.name for asset in release.assets}
    signed = {name for name in names if name.endswith((".whl", ".tests.json")) or name == "release.json"}
    assert {name for name in names if name.endswith(".sigstore.json")} == {f"{name}.sigstore.json" for name in signed}
    assert len(signed) >= 4  # a wheel, its reports, the manifest
    log = (runner.workspace / "run-6-release.yml.log").read_text()
    ended = re.findall(r"^\[(.+?)\s*\] 🏁  Job succeeded", log, re.MULTILINE)
    attested = sorted(job.rpartition("publish: attest signed-")[2] for job in ended if "/Attest/" in job)
    assert attested == [str(Platform.of_host()), "manifest"]
    from_outside(runner, tmp_path, "verify", tag)


def from_outside(runner: Runner, folder: Path, *words: str) -> None:
    """Run a command of the toolkit that reads the releases, as somebody does who has no part in them."""
    environment = os.environ | runner.github.environment(REPOSITORY) | {
        "MLIR_RELEASE_TRUST_CONFIG": str(runner.workspace / "sigstore" / "trust-config.json")
    }  # fmt: skip
    command = (sys.executable, "-m", "mlir_release", *words, "--forge", f"github:{REPOSITORY}", "--json")
    run(*command, variables=environment, cwd=folder)


def test_compiler_caches_are_saved_for_the_next_run(runner: Runner) -> None:
    """A run on a tag restores a cache; what it compiled becomes a new cache on the default branch."""
    found = [path for path in (runner.workspace / "caches").glob("*") if (path / "entry").is_file()]
    assert len(found) == 3  # the first, and one of each run above


def test_runs_after_publication_find_nothing_to_do(runner: Runner) -> None:
    (tag,) = published(runner)
    assert runner.run("snapshot.yml", "main", {})
    assert not runner.waiting
    log = (runner.workspace / f"run-{len(runner.log)}-snapshot.yml.log").read_text()
    assert "nothing to do" in log
    assert runner.run("release.yml", tag, {})
    log = (runner.workspace / f"run-{len(runner.log)}-release.yml.log").read_text()
    assert set(re.findall(r"^\[(.+?)\s*\] 🏁  Job succeeded", log, re.MULTILINE)) == {
        "Release/plan: missing targets",
        "Release/publish: verify and publish",
        "Release/report: update issues",
    }
    assert published(runner) == [tag]


def test_the_pages_show_the_conda_channel_whose_index_is_committed(runner: Runner, tmp_path: Path) -> None:
    (tag,) = published(runner)
    checkout, origin = tmp_path / "checkout", runner.github.repositories[REPOSITORY].git.directory
    run("git", "clone", "-q", "--branch", "main", origin, checkout)
    from_outside(runner, checkout, "conda", "package", tag, "--output", ".github/conda")
    (package,) = (path.name for path in (checkout / ".github" / "conda").rglob("*.conda"))
    run("git", "-C", checkout, "add", ".github/conda/*/*/repodata.json")
    run("git", "-C", checkout, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "Conda")
    run("git", "-C", checkout, "push", "-q", "origin", "HEAD:main")
    runner.settings["MLIR_RELEASE_CONDA_URL"] = "https://conda.example.org/{folder}"
    assert runner.run("pages.yml", "main", {})
    (repodata,) = (runner.pages / "snapshots" / "conda").glob("linux-*/repodata.json")
    index = json.loads(repodata.read_bytes())
    assert set(index["packages.conda"]) == {package}
    assert index["info"]["base_url"] == f"https://conda.example.org/snapshots/{repodata.parent.name}/"
    assert "conda install -c" in (runner.pages / "snapshots" / tag / "index.html").read_text()


@pytest.mark.spread
def test_a_run_after_a_waiver_plans_and_publishes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a draft that lacks only what a person has waived, no platform's chain is started.

    Before that, a person lets release.yml build a part, of which nothing is missing: then nothing is published.
    """
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
