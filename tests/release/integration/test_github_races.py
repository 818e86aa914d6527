"""Many `mlir-release snapshot` at once on one repository of GitHub: nothing is lost, nothing is made twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.release.forge.github.forge import GitHubForge
from tests.attacks.selected_stage import local_upstream
from tests.github_server import GitHubServer
from tests.release_stage import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mlir_release.ground.git.repository import Git

REPOSITORY = "llvm/mlir-wheels"
NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)  # no midnight comes between two forced snapshots
ROOT = Path(__file__).parents[3]


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    upstream, _ = local_upstream(tmp_path / "upstream.git")
    targets = TARGETS.replace("https://github.com/llvm/llvm-project.git", str(upstream.directory))
    with GitHubServer(tmp_path / "github", clock=lambda: NOW) as server:
        server.add_repository(REPOSITORY, {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": targets.encode()})
        yield server


@pytest.fixture
def racers(*, exhaustive: bool) -> int:
    return 16 if exhaustive else 5


def race(github: GitHubServer, folder: Path, arguments: Sequence[Sequence[str]]) -> None:
    """Run the command with each of ``arguments`` at once; all of them must succeed."""
    environment = os.environ | github.environment(REPOSITORY, github.token())
    environment |= {"MLIR_RELEASE_CACHE": str(folder / "cache"), "MLIR_RELEASE_FORGE": f"github:{REPOSITORY}"}

    def run(options: Sequence[str]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mlir_release", "snapshot", *options]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False
        )

    with ThreadPoolExecutor(len(arguments)) as pool:
        for done in pool.map(run, arguments):
            assert done.returncode == 0, done.stderr


def outcome(github: GitHubServer) -> tuple[list[str], int, Counter[str]]:
    """Tags that live, pin commits, and drafts by tag."""
    forge = GitHubForge.open(REPOSITORY, environ=github.environment(REPOSITORY, github.token()))
    names = [tag.name for tag in forge.tags()]
    living = [name for name in names if not name.startswith("abandoned/") and f"abandoned/{name}" not in names]
    git: Git = github.repositories[REPOSITORY].git
    pins = int(git.text("rev-list", "--count", "snapshots", "^main"))
    return living, pins, Counter(release.tag for release in forge.releases())


def test_one_revision_is_pinned_and_tagged_once(github: GitHubServer, tmp_path: Path, racers: int) -> None:
    race(github, tmp_path, [["--request-id", f"r{n}"] for n in range(racers)])
    living, pins, drafts = outcome(github)
    assert (len(living), pins, sorted(drafts.values())) == (1, 1, [1])
    assert list(drafts) == living


def test_forced_snapshots_get_consecutive_tags(github: GitHubServer, tmp_path: Path, racers: int) -> None:
    race(github, tmp_path, [["--force", "--request-id", f"r{n}"] for n in range(racers)])
    living, pins, drafts = outcome(github)
    assert [name[-2:] for name in living] == [f"{n:02}" for n in range(1, racers + 1)]
    assert (pins, drafts) == (1, Counter(living))


def test_one_request_is_one_tag(github: GitHubServer, tmp_path: Path, racers: int) -> None:
    race(github, tmp_path, [["--force", "--request-id", "same"]] * racers)
    living, pins, drafts = outcome(github)
    assert (len(living), pins, drafts) == (1, 1, Counter(living))
