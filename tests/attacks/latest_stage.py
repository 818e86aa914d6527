"""A signed repository on the loopback GitHub with two snapshots, a mirror of it, and pointers to put there."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.documents.times import format_time
from mlir_release.ground.errors import VerificationError
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.latest.latest import POINTER_FILE
from mlir_release.release.model.release_index import INDEX_NAME, make_index
from mlir_release.release.model.release_settings import LATEST_BRANCH
from mlir_release.release.provenance.pointer import ChannelRelease, Pointer
from mlir_release.release.transaction.release_assets import RemoteRelease
from mlir_release.use import install
from mlir_release.use.mirror import mirror
from tests.refusals import check_error
from tests.release.integration.signed_stage import TAG, SignedStage, signed_stage
from tests.sigstore.instance import branch_claims

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pytest

    from mlir_release.release.forge.base import Forge
    from mlir_release.release.model.manifest import Manifest, WheelEntry
    from mlir_release.use.install_target import InstallTarget

OLD, NEW = TAG, "snapshot-20261120.02"
WHO = "Mirror <m@example.org>"


@dataclass
class LatestStage:
    """Where a test acts."""

    signed: SignedStage
    folder: Path
    whole: Path  #: a mirror that nobody touches
    installed: list[str] = field(default_factory=list)  #: tags of what pip would have installed

    @property
    def mirror(self) -> LocalForge:
        """As another process sees it."""
        return LocalForge(self.folder / "mirror", identity=WHO)

    def copy(self, *, until: str = NEW) -> None:
        """Mirror the repository, without what is newer than a tag."""
        if not self.whole.exists():
            made = LocalForge.create(self.whole, {"README": b"a mirror\n"}, identity=WHO)
            mirror(self.signed.forge, made)
        shutil.copytree(self.whole, self.folder / "mirror")
        there = self.mirror
        for release in there.releases():
            if release.tag > until:
                (self.folder / "hidden").mkdir(exist_ok=True)
                (there.root / "releases" / release.tag).rename(self.folder / "hidden" / release.tag)

    @cached_property
    def index(self) -> dict[str, bytes]:
        """The files of the repository's index."""
        forge = self.signed.forge
        published = (release for release in forge.releases() if not release.draft)
        return make_index((RemoteRelease(forge, each).manifest() for each in published), repository=self.signed.url)

    def pointer(self, tag: str, *, age: float = 0, lifetime: float = 14, **changes: Any) -> Pointer:
        """What says that a tag is the newest, signed some days ago."""
        release = self.signed.forge.published(tag)
        assert release is not None
        manifest = release.asset("release.json")
        assert manifest is not None
        now = datetime.now(UTC) - timedelta(days=age)
        values: dict[str, Any] = {
            "index": digest(self.index[INDEX_NAME]),
            "repository": self.signed.url,
            "tag": tag,
            "commit": self.signed.commit,
            "manifest": manifest.sha256,
            "issued": format_time(now),
            "expires": format_time(now + timedelta(days=lifetime)),
            "good": ChannelRelease(tag=tag, commit=self.signed.commit, manifest=manifest.sha256),
        }
        return Pointer(**(values | changes))

    def sign(self, statement: dict[str, Any], **claims: str) -> bytes:
        """The bundle that attest.yml of main makes in a run on main; ``claims``: where the run is another."""
        given = {"repository": "octo/releases", "server": self.signed.server.url}
        return self.signed.made.bundle(statement, branch_claims(**(given | claims)))

    def point(self, tag: str, *, forge: Forge | None = None, **changes: Any) -> bytes:
        """Put a proper pointer into the mirror, or another forge."""
        bundle = self.sign(self.pointer(tag, **changes).statement())
        self.put(bundle, forge=forge)
        return bundle

    def put(self, bundle: bytes, *, forge: Forge | None = None) -> None:
        """What whoever can write to the mirror can do."""
        forge = forge or self.mirror
        head = forge.head(LATEST_BRANCH)
        base = forge.head("main") if head is None else None
        forge.commit(LATEST_BRANCH, expected=head, files={**self.index, POINTER_FILE: bundle}, message="x\n", base=base)

    def install(self, *options: str, asked: bool = True) -> Outcome:
        """``install latest`` from the mirror, by who asks for the signatures of the repository, or doesn't."""
        signer = ["--signed-by", self.signed.url] if asked else []
        arguments = ["install", "latest", "--forge", f"local:{self.mirror.root}", *signer, "--no-deps", *options]
        arguments += ["--python", sys.executable]
        before = len(self.installed)
        done = CliRunner().invoke(app, arguments)
        tags = self.installed[before:]
        return Outcome(done.exception, done.output, tags[0] if tags else "")


@dataclass
class Outcome:
    """How a command ended."""

    error: BaseException | None
    output: str
    tag: str  #: that was installed; empty: nothing was

    def installed_nothing(self, id: str, text: str = "") -> None:
        """Check that it ended with an error, and that nothing was installed."""
        error = check_error(self.error, id)
        assert isinstance(error, VerificationError)
        assert text in str(error)
        assert self.tag == ""


@contextmanager
def latest_stage(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[LatestStage]:
    """Two published snapshots; no pointer and no mirror yet. Nobody's memory of pointers is touched."""
    patch.setenv("MLIR_RELEASE_CACHE", str(folder / "cache"))
    with signed_stage(folder, patch) as stage:
        stage.whole()
        stage.number(NEW, "20261120.2").whole()
        made = LatestStage(stage, folder, folder / "whole")

        def pip(
            target: InstallTarget,
            wheels: Sequence[WheelEntry],
            paths: Sequence[Path],
            manifest: Manifest,
            options: Sequence[str],
        ) -> None:
            made.installed.append(manifest.tag)

        patch.setattr(install, "_install", pip)
        yield made


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()
