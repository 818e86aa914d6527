"""The workflows themselves, run by act: from a pin bump to a release that pip installs, and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.github_server import GitHubServer
from tests.workflows.rehearse import REPOSITORY, Runner, install_as_stranger, make_runner

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A runner whose snapshot workflow ran, and what that dispatched."""
    workspace = tmp_path_factory.mktemp("workflows")
    with GitHubServer(workspace / "github") as github:
        runner = make_runner(github, workspace)
        runner.run_all("snapshot.yml", "main")
        yield runner


def published(runner: Runner) -> list[str]:
    return [r.tag for r in runner.github.repositories[REPOSITORY].releases.values() if not r.draft]


def test_a_bump_becomes_a_release_that_pip_installs(runner: Runner) -> None:
    (tag,) = published(runner)
    assert [(workflow, ref) for workflow, ref, _ in runner.log[:3]] == [
        ("snapshot.yml", "main"),
        ("release.yml", tag),
        ("pages.yml", "main"),
    ]
    assert all(success for _, _, success in runner.log)
    assert tag in install_as_stranger(runner, tag)


def test_run_again_they_find_nothing_to_do(runner: Runner) -> None:
    (tag,) = published(runner)
    assert runner.run("snapshot.yml", "main", {})
    assert not runner.waiting
    log = (runner.workspace / f"run-{len(runner.log)}-snapshot.yml.log").read_text()
    assert "nothing to do" in log
    assert runner.run("release.yml", tag, {})
    log = (runner.workspace / f"run-{len(runner.log)}-release.yml.log").read_text()
    assert "wheels build" not in log
    assert published(runner) == [tag]
