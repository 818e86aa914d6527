"""A whole job on the loopback GitHub, from a pin to the pages that show the release, and what it leaves.

Tests disturb its requests: a sample, or (marked ``slow``) all of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.forge.github.forge import GitHubForge
from mlir_release.host.tempdirs import scratch_folder
from mlir_release.index.generate import generate
from mlir_release.issues.tracking import track_release
from mlir_release.model.matrix import Matrix
from mlir_release.release.draft import Draft
from mlir_release.release.publish import publish
from mlir_release.release.sweep import sweep
from mlir_release.release.upload import upload
from mlir_release.snapshot.transaction import snapshot
from tests.github_server import GitHubServer
from tests.release_stage import TARGETS
from tests.revision_factory import make_revision
from tests.wheel_factory import PYTHON, REVISION, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
REPOSITORY = "llvm/mlir-wheels"
TAG = "snapshot-20261120.01"


@contextmanager
def world(folder: Path) -> Iterator[GitHubServer]:
    """A GitHub with a repository that has no release yet; its clock stands still."""
    with GitHubServer(folder / "github", clock=lambda: NOW) as server:
        files = {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": TARGETS.encode()}
        server.add_repository(REPOSITORY, files)
        yield server


def job(environ: Mapping[str, str], dist: Path) -> None:
    """What the workflows do, from selection to the index."""
    forge = GitHubForge.open(REPOSITORY, environ=environ)
    matrix = Matrix.parse(TARGETS).only(f"python={PYTHON} and llvm=mlir")
    tag = snapshot(forge, make_revision(REVISION, subject="A change"), matrix, request_id="run-1").tag
    draft = Draft.load(forge, tag, matrix=matrix)
    upload(draft, dist)
    publish(draft)
    assert not sweep(forge, branch="main").failures
    track_release(forge, tag, log_url="")
    with scratch_folder("pages") as folder:
        address = f"{environ['GITHUB_SERVER_URL']}/pages/{REPOSITORY}/"
        assert generate(forge, folder / "site", base_url=address).releases == 1


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
    issues = [(issue["title"], issue["state"], issue["body"]) for issue in repository.issues]
    dispatches = len(repository.dispatches)
    return {"refs": refs.replace(server.url, ""), "releases": releases, "dispatches": dispatches, "issues": issues}


@dataclass(frozen=True)
class Undisturbed:
    """A job that nothing disturbs: what it builds from, its requests (``POST /repos/…``), and its end state."""

    dist: Path
    requests: list[str]
    end: dict[str, object]

    @classmethod
    def run(cls, folder: Path) -> Undisturbed:
        """Do it in ``folder``."""
        dist = folder / "dist"
        dist.mkdir()
        wheel = make_wheel(dist, tag=TAG, version="20261120.1", python=PYTHON)
        make_report(dist, wheel, target=f"smoke-mlir-linux-x86_64-{PYTHON}")
        with world(folder) as server:
            job(server.environment(REPOSITORY, server.token()), dist)
            return cls(dist, [f"{r.method} {r.path}" for r in server.requests], end_state(server))

    def sample(self, kind: int, method: str = "", *, exhaustive: bool) -> list[int]:
        """Numbers of requests to disturb, from 1; others for each way of going wrong. ``exhaustive``: all.

        :param kind: number of the way
        :param method: how the requests begin (``POST /api``); then more of them
        """
        found = [number for number, request in enumerate(self.requests, 1) if request.startswith(method)]
        if exhaustive:
            return found
        step = 10 if method else 40
        return found[kind % step :: step]
