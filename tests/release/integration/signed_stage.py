"""A release on the loopback GitHub whose files are signed by a made Sigstore, as attest.yml would sign them."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from mlir_release.release.forge.github.forge import GitHubForge
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_tags import parse_tag
from mlir_release.release.pinning.state import tag_message
from mlir_release.release.provenance.verify import publish_provenance
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import PublishOutcome, publish
from mlir_release.release.transaction.start import start
from mlir_release.release.transaction.upload import UploadOutcome, upload
from tests.github_server import GitHubServer
from tests.revision_factory import make_revision
from tests.sigstore.instance import MadeSigstore, statement_of, workflow_claims
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import PYTHON, REVISION, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

    from tests.github_server.world import Asset, Release

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
REPOSITORY = "octo/releases"
TAG = "snapshot-20261120.01"
VERSION = "20261120.1"
REPORT = f"smoke-mlir-linux-x86_64-{PYTHON}.tests.json"
#: Nothing is said of provenance: on GitHub it is required.
TARGETS = make_targets(make_row(), pythons=[PYTHON], provenance="")


@dataclass
class SignedStage:
    """The repository with a tag and its draft, and a folder with what the run's jobs handed over."""

    server: GitHubServer
    made: MadeSigstore
    folder: Path
    token: str
    tag: str = TAG
    version: str = VERSION

    @property
    def forge(self) -> GitHubForge:
        """The repository as another process sees it."""
        return GitHubForge.open(REPOSITORY, environ=self.server.environment(REPOSITORY, self.token))

    @property
    def url(self) -> str:
        return f"{self.server.url}/{REPOSITORY}"

    @property
    def dist(self) -> Path:
        return self.folder / "dist"

    @property
    def wheel(self) -> Path:
        (path,) = self.dist.glob("*.whl")
        return path

    @property
    def commit(self) -> str:
        tag = self.forge.tag(self.tag)
        assert tag is not None
        return tag.commit

    @property
    def release(self) -> Release:
        releases = self.server.repositories[REPOSITORY].releases.values()
        return next(release for release in releases if release.tag == self.tag)

    def asset(self, name: str) -> Asset:
        """A file of the release, which a test may change as who may write can."""
        return next(asset for asset in self.release.assets if asset.name == name)

    def names(self) -> set[str]:
        return {asset.name for asset in self.release.assets}

    def bundle(self, name: str, content: bytes, **claims: str) -> bytes:
        """The bundle that attest.yml makes; ``claims``: of the run, where it is another."""
        return self.made.bundle(statement_of((name, sha256(content).hexdigest())), self.claims(**claims))

    def claims(self, **changes: str) -> dict[str, str]:
        given = {"tag": self.tag, "repository": REPOSITORY, "commit": self.commit, "server": self.server.url}
        return workflow_claims(**(given | changes))

    def sign(self, path: Path, **claims: str) -> None:
        """Put the bundle beside a file, and the provenance beside a wheel."""
        bundle = self.bundle(path.name, path.read_bytes(), **claims)
        path.with_name(f"{path.name}.sigstore.json").write_bytes(bundle)
        if path.suffix == ".whl":
            path.with_name(f"{path.name}.provenance").write_bytes(publish_provenance(bundle))

    def build(self, *, content: str = "") -> None:
        """Build, test and sign."""
        self.dist.mkdir(exist_ok=True)
        wheel = make_wheel(self.dist, tag=self.tag, version=self.version, python=PYTHON, content=content)
        report = make_report(self.dist, wheel, target=REPORT.removesuffix(".tests.json"))
        self.sign(wheel)
        self.sign(report)

    def number(self, tag: str, version: str) -> SignedStage:
        """The same with a numbered release of the same revision."""
        parsed = parse_tag(tag)
        assert parsed is not None
        message = tag_message(parsed, revision=REVISION, request_id=f"r-{tag}", wheel_version=version)
        self.forge.create_tag(tag, self.commit, message)
        self.forge.create_draft(tag, title=tag, body="", prerelease=False)
        folder = self.folder / tag
        folder.mkdir()
        return replace(self, tag=tag, version=version, folder=folder)

    def upload(self) -> UploadOutcome:
        return upload(Draft.load(self.forge, self.tag), self.dist)

    def publish(self, **options: object) -> PublishOutcome:
        draft, place = Draft.load(self.forge, self.tag), self.folder / "manifest"
        return publish(draft, dist=self.dist, manifest_to=place, **options)  # type: ignore[arg-type]

    def sign_manifest(self, **claims: str) -> None:
        """What attest.yml does with what publish has written."""
        path = self.dist / "release.json"
        path.write_bytes((self.folder / "manifest" / "release.json").read_bytes())
        self.sign(path, **claims)
        path.unlink()

    def fill(self) -> None:
        """Build, test, sign and upload."""
        self.build()
        self.upload()

    def approve(self) -> None:
        """Have the draft verified, and its manifest signed."""
        assert self.publish().unsigned
        self.sign_manifest()

    def whole(self) -> PublishOutcome:
        self.fill()
        self.approve()
        return self.publish()


@contextmanager
def signed_stage(folder: Path, patch: pytest.MonkeyPatch, *, targets: str = TARGETS) -> Iterator[SignedStage]:
    """A stage whose Sigstore is the one that the toolkit trusts."""
    made = MadeSigstore()
    config = folder / "trust-config.json"
    config.write_text(json.dumps(made.client_config("http://127.0.0.1:1")))
    patch.setenv("MLIR_RELEASE_TRUST_CONFIG", str(config))
    with GitHubServer(folder / "github", clock=lambda: NOW) as server:
        files = {"llvm-project.version": b"b" * 40 + b"\n", "targets.toml": targets.encode()}
        server.add_repository(REPOSITORY, files, workflows=("pages.yml", "release.yml"))
        stage = SignedStage(server, made, folder, server.token())
        revision = make_revision(REVISION, subject="A change")
        done = start(stage.forge, revision, Matrix.parse(targets), request_id="run-1")
        assert done.tag == TAG
        yield stage
