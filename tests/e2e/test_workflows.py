"""The workflows, run by act: from a pin bump, through a failed build, to a release that pip installs; and a re-run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from mlir_release.model.platforms import Platform
from tests.github_server import GitHubServer
from tests.workflows.rehearse import REPOSITORY, Runner, install_from_pages, make_runner

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A runner after the snapshot workflow and those that it dispatched, on a machine without a compiler."""
    workspace = tmp_path_factory.mktemp("workflows")
    with GitHubServer(workspace / "github") as github:
        runner = make_runner(github, workspace)
        kept = workspace / "caches" / f"compiled-sdk-{Platform.of_host()}-1"
        kept.mkdir(parents=True)
        (kept / "entry").touch()
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
        ("probe.yml", True),
    ]
    assert published(runner) == [tag]
    assert [state for _, state in issues(runner)] == ["closed"]
    assert tag in install_from_pages(runner, tag)


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
