"""Whatever fails on the way to a release on GitHub, running the same job again ends in the same release.

Every request of a whole job (pin, tag, draft, dispatch, uploads, verification, publication) goes wrong in turn, in
every way. By default a sample is tried; ``MLIR_RELEASE_EXHAUSTIVE=1`` tries them all.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.console import console
from mlir_release.errors import ReleaseError
from mlir_release.forge import github_client
from mlir_release.forge.github import GitHubForge
from mlir_release.publish.release import publish, upload
from mlir_release.revision import Revision
from mlir_release.snapshot import snapshot
from mlir_release.targets import Matrix
from tests.github_server import Fault, GitHubServer, Record
from tests.release_stage import TARGETS
from tests.wheel_factory import PYTHON, REVISION, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
REPOSITORY = "llvm/mlir-wheels"
TAG = "snapshot-20261120.01"
EXHAUSTIVE = os.environ.get("MLIR_RELEASE_EXHAUSTIVE") == "1"

#: Ways of going wrong. ``kill``: the process dies, before or after GitHub has done what it asked.
FAULTS: dict[str, Callable[[], Fault]] = {
    "500": lambda: Fault(status=500),
    "secondary limit": lambda: Fault(
        status=403, headers={"retry-after": "30"}, message="You have exceeded a secondary rate limit."
    ),
    "429": lambda: Fault(status=429, headers={"retry-after": "7"}, message="Too many requests"),
    "timeout": lambda: Fault(delay=1.3),
    "reset": lambda: Fault(drop="before"),
    "answer lost": lambda: Fault(drop="after"),
    "truncated": lambda: Fault(drop="truncate"),
}


@contextmanager
def world(folder: Path) -> Iterator[GitHubServer]:
    with GitHubServer(folder / "github", clock=lambda: NOW) as server:
        files = {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": TARGETS.encode()}
        server.add_repository(REPOSITORY, files)
        yield server


def job(environ: Mapping[str, str], dist: Path) -> None:
    """What the workflows do, from selection to publication."""
    forge = GitHubForge.open(REPOSITORY, environ=environ)
    matrix = Matrix.parse(TARGETS).only(f"python={PYTHON} and llvm=mlir")
    revision = Revision(sha=REVISION, epoch=1, subject="A change", selector="head", trailers={})
    tag = snapshot(forge, revision, matrix.release, request_id="run-1").tag
    upload(forge, tag, dist, matrix)
    publish(forge, tag, matrix)


def make_dist(folder: Path) -> Path:
    wheel = make_wheel(folder, tag=TAG, version="20261120.1", python=PYTHON)
    make_report(folder, wheel, target=f"smoke-mlir-linux-x86_64-{PYTHON}")
    return folder


def end_state(server: GitHubServer) -> dict[str, object]:
    """Everything that lasts; ids and addresses are the server's own affair."""
    repository = server.repositories[REPOSITORY]
    refs = repository.git.run("for-each-ref", "--format=%(refname) %(objectname) %(contents)").stdout.decode()
    releases = [
        (
            release.tag,
            release.draft,
            release.name,
            release.body.replace(server.url, ""),
            Counter((asset.name, hashlib.sha256(asset.content).hexdigest()) for asset in release.assets),
        )
        for release in repository.releases.values()
    ]
    return {"refs": refs.replace(server.url, ""), "releases": releases, "dispatches": len(repository.dispatches)}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dist(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def undisturbed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], list[str]]:
    """The end state of a job that nothing disturbs, and its requests."""
    with world(tmp_path_factory.mktemp("undisturbed")) as server:
        job(server.environment(REPOSITORY, server.token()), dist)
        return end_state(server), [f"{r.method} {r.path}" for r in server.requests]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(github_client, "TIMEOUT", 1)
    monkeypatch.setattr(console, "quiet", True)


def sample(requests: list[str], kind: int, method: str = "") -> list[int]:
    """Numbers of requests to disturb, from 1; others for each way of going wrong."""
    if EXHAUSTIVE:
        return list(range(1, len(requests) + 1))
    found = [number for number, request in enumerate(requests, 1) if request.startswith(method)]
    step = 4 if method else 16
    return found[kind % step :: step]


@pytest.mark.parametrize("kind", FAULTS)
def test_every_request_may_fail(
    kind: str, dist: Path, undisturbed: tuple[dict[str, object], list[str]], tmp_path: Path
) -> None:
    wanted, requests = undisturbed
    tried = recovered = 0
    for number in sample(requests, list(FAULTS).index(kind), "POST" if kind == "truncated" else ""):
        with world(tmp_path / f"{number}") as server:
            environ = server.environment(REPOSITORY, server.token())
            server.faults = lambda record, number=number: FAULTS[kind]() if record.number == number else None  # type: ignore[misc]
            said = ""
            try:
                job(environ, dist)
                recovered += 1
            except ReleaseError as error:
                said = str(error)
            assert environ["GITHUB_TOKEN"] not in said
            server.faults = lambda record: None
            job(environ, dist)
            assert end_state(server) == wanted, f"{kind} at request {number}: {requests[number - 1]}"
            tried += 1
    print(f"\n{kind}: {tried} of {len(requests)} requests disturbed, {recovered} jobs went on by themselves")
    assert tried


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_process_may_be_killed_at_every_request(
    moment: str, dist: Path, undisturbed: tuple[dict[str, object], list[str]], tmp_path: Path
) -> None:
    wanted, requests = undisturbed
    tried = 0
    for number in sample(requests, 3 if moment == "before" else 7):
        with world(tmp_path / f"{number}") as server:
            environ = server.environment(REPOSITORY, server.token())
            process: list[subprocess.Popen[bytes]] = []

            def kill(
                record: Record, number: int = number, process: list[subprocess.Popen[bytes]] = process
            ) -> Fault | None:
                if record.number != number:
                    return None
                if moment == "before":
                    process[0].send_signal(signal.SIGKILL)
                    return Fault(drop="before")
                return Fault(drop="after", delay=0.0, on_done=lambda: process[0].send_signal(signal.SIGKILL))

            server.faults = kill
            command = [sys.executable, "-c", f"from {__name__} import job; import os, pathlib, sys; "
                       "job(os.environ, pathlib.Path(sys.argv[1]))", str(dist)]  # fmt: skip
            process.append(subprocess.Popen(command, env=os.environ | environ, cwd=Path(__file__).parents[2]))
            assert process[0].wait(timeout=120) == -signal.SIGKILL, requests[number - 1]
            server.faults = lambda record: None
            job(environ, dist)
            assert end_state(server) == wanted, f"killed {moment} request {number}: {requests[number - 1]}"
            tried += 1
    print(f"\nkilled {moment} {tried} of {len(requests)} requests")
    assert tried
