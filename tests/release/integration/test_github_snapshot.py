"""Processes of `mlir-release snapshot` on a repository of GitHub: many at once, and where something is wrong."""

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

from mlir_release.release.forge.files import head_of
from mlir_release.release.forge.github.forge import GitHubForge
from tests.attacks.selected_stage import local_upstream
from tests.github_server import GitHubServer
from tests.github_stage import REPOSITORY
from tests.release_stage import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.github_server.world import Repository

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)  # no midnight comes between two forced snapshots
ROOT = Path(__file__).parents[3]
FIRST = "snapshot-20261120.01"


@pytest.fixture
def targets(tmp_path: Path) -> str:
    upstream, _ = local_upstream(tmp_path / "upstream.git")
    return TARGETS.replace("https://github.com/llvm/llvm-project.git", str(upstream.directory))


@pytest.fixture
def github(tmp_path: Path, targets: str) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github", clock=lambda: NOW) as server:
        server.add_repository(REPOSITORY, {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": targets.encode()})
        yield server


@pytest.fixture
def repository(github: GitHubServer) -> Repository:
    return github.repositories[REPOSITORY]


def snapshot(github: GitHubServer, folder: Path, token: str, *options: str) -> tuple[int, str]:
    """Exit code, and all that was said."""
    environment = os.environ | github.environment(REPOSITORY, token)
    environment |= {"MLIR_RELEASE_CACHE": str(folder / "cache"), "MLIR_RELEASE_FORGE": f"github:{REPOSITORY}"}
    command = [sys.executable, "-m", "mlir_release", "snapshot", *options]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    said = done.stdout + done.stderr
    assert token not in said
    assert "Traceback" not in said
    return done.returncode, said


# -- at once: nothing is lost, nothing is made twice ------------------------------------------------------------------


@pytest.fixture
def racers(*, exhaustive: bool) -> int:
    return 16 if exhaustive else 5


def race(github: GitHubServer, folder: Path, arguments: Sequence[Sequence[str]]) -> None:
    """Run the command with each of ``arguments`` at once; all of them must succeed."""
    token = github.token()
    with ThreadPoolExecutor(len(arguments)) as pool:
        for code, said in pool.map(lambda options: snapshot(github, folder, token, *options), arguments):
            assert code == 0, said


def open_forge(github: GitHubServer) -> GitHubForge:
    return GitHubForge.open(REPOSITORY, environ=github.environment(REPOSITORY, github.token()))


def outcome(github: GitHubServer) -> tuple[list[str], int, Counter[str]]:
    """Tags that live, pin commits, and drafts by tag."""
    forge = open_forge(github)
    names = [tag.name for tag in forge.tags()]
    living = [name for name in names if not name.startswith("abandoned/") and f"abandoned/{name}" not in names]
    pins = int(github.repositories[REPOSITORY].git.text("rev-list", "--count", "snapshots", "^main"))
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


# -- what is wrong is one message, and nothing is half-done -----------------------------------------------------------


def refs(repository: Repository) -> str:
    return repository.git.run("for-each-ref").stdout.decode()


@pytest.mark.parametrize(
    ("trouble", "id"),
    [
        ("a wrong token", "token-invalid"),
        ("a missing scope", "token-lacks-right"),
        ("a protected branch", "rule-forbids"),
        ("a typo in targets.toml", "config-invalid"),
    ],
)
def test_nothing_is_done(trouble: str, id: str, github: GitHubServer, repository: Repository, tmp_path: Path) -> None:
    token = github.token(scopes=()) if "scope" in trouble else github.token()
    if "typo" in trouble:
        forge = open_forge(github)
        head = head_of(forge, "main")
        text = (forge.read("targets.toml", commit=head) or b"").replace(b"suites =", b"suits =")
        forge.commit("main", expected=head, files={"targets.toml": text}, message="m\n")
    if "protected" in trouble:
        repository.settings["rules"] = ("refs/heads/snapshots",)
    before = refs(repository)
    code, said = snapshot(github, tmp_path, "ghs_wrong" if "wrong" in trouble else token)
    assert code != 0
    assert said.count(id) == 1, said
    assert refs(repository) == before
    assert not repository.releases


def test_a_tag_rule_stops_after_the_pin_and_the_next_run_goes_on(
    github: GitHubServer, repository: Repository, tmp_path: Path
) -> None:
    repository.settings["rules"] = ("refs/tags/snapshot-.*",)
    code, said = snapshot(github, tmp_path, github.token())
    assert code != 0
    assert said.count("rule-forbids") == 1, said
    assert "refs/tags/" not in refs(repository)
    repository.settings["rules"] = ()
    pinned = refs(repository)
    assert snapshot(github, tmp_path, github.token())[0] == 0
    assert refs(repository).startswith(pinned)  # the tag is added, no second pin
    assert f"refs/tags/{FIRST}" in refs(repository)


def test_an_unknown_workflow_is_told_and_dispatched_once_it_is_there(
    github: GitHubServer, repository: Repository, tmp_path: Path
) -> None:
    there, repository.settings["workflows"] = repository.settings["workflows"], ()
    code, said = snapshot(github, tmp_path, github.token())
    assert code != 0
    assert said.count("not-on-forge") == 1, said
    repository.settings["workflows"] = there
    assert snapshot(github, tmp_path, github.token())[0] == 0
    assert [release.tag for release in repository.releases.values()] == [FIRST]
    assert [dispatch.ref for dispatch in repository.dispatches] == [FIRST]


def test_a_release_by_hand_under_the_next_name_is_left_alone(github: GitHubServer, tmp_path: Path) -> None:
    forge = open_forge(github)
    forge.create_tag(FIRST, head_of(forge, "main"), "by hand\n")
    by_hand = forge.publish(forge.create_draft(FIRST, title="Mine", body="by hand", prerelease=False))
    code, said = snapshot(github, tmp_path, github.token())
    assert code == 0, said
    assert f"{FIRST} was not made by mlir-release" in " ".join(said.split())
    theirs, ours = forge.releases()
    assert (theirs, ours.tag, ours.draft) == (by_hand, "snapshot-20261120.02", True)
