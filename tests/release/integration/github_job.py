"""A whole job on the loopback GitHub, from a pin to the pages that show the signed release, and what it leaves.

Tests disturb its requests: a sample, or (marked ``slow``) all of them. Sigstore's services are not disturbed here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from unittest.mock import patch

from mlir_release.ground.storage.tempdirs import scratch_folder
from mlir_release.operate.issues import track_release
from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.index.generate import generate
from mlir_release.release.model.manifest import MANIFEST_NAME
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.provenance.bundle import is_about
from mlir_release.release.provenance.policy import BUNDLE_SUFFIX, PROVENANCE_SUFFIX
from mlir_release.release.provenance.verify import publish_provenance
from mlir_release.release.transaction.attest import attest_release
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.start import start
from mlir_release.release.transaction.sweep import sweep
from mlir_release.release.transaction.upload import upload
from tests.github_server import GitHubServer
from tests.revision_factory import make_revision
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON, REVISION, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.github_server.world import Release
    from tests.sigstore.services import Services

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
REPOSITORY = "llvm/mlir-wheels"
TAG = "snapshot-20261120.01"
#: Nothing is said of provenance: on GitHub it is required.
TARGETS = make_targets(make_row(), pythons=[PYTHON], provenance="")
IDENTITY = "ACTIONS_ID_TOKEN_REQUEST_URL"


@contextmanager
def world(folder: Path) -> Iterator[GitHubServer]:
    """A GitHub with a repository that has no release yet; its clock does not move."""
    with GitHubServer(folder / "github", clock=lambda: NOW) as server:
        files = {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": TARGETS.encode()}
        server.add_repository(REPOSITORY, files, workflows=("release.yml", "latest.yml"))
        yield server


def environment(server: GitHubServer, sigstore: Services) -> dict[str, str]:
    """What the jobs of a run on :data:`TAG` have."""
    token = server.token(scopes=("contents", "actions", "issues", "attestations"))
    identity = sigstore.environment(tag=TAG, repository=REPOSITORY, server=server.url)
    return server.environment(REPOSITORY, token) | identity


def job(environ: Mapping[str, str], dist: Path) -> None:
    """What the workflows do, from selection to the index. Run again, it signs again, as a re-run of all jobs does."""
    with patch.dict(os.environ, environ), scratch_folder("job") as folder:
        forge = GitHubForge.open(REPOSITORY, environ=environ)
        made = start(forge, make_revision(REVISION, subject="A change"), Matrix.parse(TARGETS), request_id="run-1")
        tag = forge.tag(made.tag)
        assert tag is not None
        os.environ |= {IDENTITY: f"{environ[IDENTITY]}&commit={tag.commit}", "GITHUB_SHA": tag.commit}
        _release(forge, made.tag, shutil.copytree(dist, folder / "dist"), folder / "manifest")
        assert not sweep(forge, branch="main").failures
        track_release(forge, made.tag, log_url="")
        address = f"{environ['GITHUB_SERVER_URL']}/pages/{REPOSITORY}/"
        assert generate(forge, folder / "site", base_url=address).releases == 1


def _release(forge: GitHubForge, tag: str, dist: Path, manifest: Path) -> None:
    """Sign and upload, then publish: first up to the manifest, and once that is signed, too."""
    attest_release(forge, tag, dist, dist, kinds=("wheels", "reports"), branch="main")
    draft = Draft.load(forge, tag)
    upload(draft, dist)
    if publish(draft, dist=dist, manifest_to=manifest).unsigned:
        attest_release(forge, tag, manifest, dist, kinds=("manifest",), branch="main")
        assert not publish(Draft.load(forge, tag), dist=dist).unsigned


def end_state(server: GitHubServer) -> dict[str, object]:
    """Everything that lasts; ids and addresses are the server's own affair."""
    repository = server.repositories[REPOSITORY]
    refs = repository.git.run("for-each-ref", "--format=%(refname) %(objectname) %(contents)").stdout.decode()
    releases = [
        (release.tag, release.draft, release.name, release.body.replace(server.url, ""), _files(server, release))
        for release in repository.releases.values()
    ]
    issues = [(issue["title"], issue["state"], issue["body"]) for issue in repository.issues]
    dispatches = len(repository.dispatches)
    return {"refs": refs.replace(server.url, ""), "releases": releases, "dispatches": dispatches, "issues": issues}


def _files(server: GitHubServer, release: Release) -> Counter[tuple[str, str]]:
    """The files of a release with their digests. No two signatures are the same: of those, whether they fit."""
    content = {asset.name: asset.content for asset in release.assets}

    def plain(name: str) -> bytes:
        """Without the server's address, also where the manifest has the digests of files that name it."""
        text = content[name].replace(server.url.encode(), b"")
        for lock in ("requirements.txt", "pylock.toml") if name == MANIFEST_NAME else ():
            if lock in content:
                text = text.replace(hashlib.sha256(content[lock]).hexdigest().encode(), plain(lock))
        return text

    def state(name: str) -> str:
        if (signed := name.removesuffix(BUNDLE_SUFFIX)) != name:
            fits = is_about(content[name], hashlib.sha256(content[signed]).hexdigest())
        elif (signed := name.removesuffix(PROVENANCE_SUFFIX)) != name:
            fits = content[name] == publish_provenance(content[signed + BUNDLE_SUFFIX])
        else:
            return hashlib.sha256(plain(name)).hexdigest()
        return "fits" if fits else "is of another file"

    return Counter((asset.name, state(asset.name)) for asset in release.assets)


@dataclass(frozen=True)
class Undisturbed:
    """A job that nothing disturbs: what it builds from, its requests (``POST /repos/…``), and its end state."""

    dist: Path
    requests: list[str]
    end: dict[str, object]

    @classmethod
    def run(cls, folder: Path, sigstore: Services) -> Undisturbed:
        dist = folder / "dist"
        dist.mkdir()
        wheel = make_wheel(dist, tag=TAG, version="20261120.1", python=PYTHON)
        make_report(dist, wheel, target=f"smoke-mlir-linux-x86_64-{PYTHON}")
        with world(folder) as server:
            job(environment(server, sigstore), dist)
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
