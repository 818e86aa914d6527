"""A local forge with a tag, its draft and a folder of small wheels: what publishing begins with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlir_release.ground.python.cpython import ANY_PYTHON
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_tags import parse_tag
from mlir_release.release.pinning.state import tag_message
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import PublishOutcome, publish
from mlir_release.release.transaction.upload import UploadOutcome, upload
from tests.pin_factory import make_pin
from tests.targets_factory import PROFILES, make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON, REVISION, TAG, VERSION, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.ground.llvm.llvm_facts import LlvmFacts
    from mlir_release.release.forge.base import Forge, Release
    from mlir_release.release.forge.local.forge import LocalForge

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
WHO = "Ada Lovelace <ada@example.org>"
NEXT_REVISION = "b" * 40

TARGETS = make_targets(
    make_row(),
    make_row("mlir-core", pythons=[PYTHON], required=False),
    pythons=[OTHER_PYTHON, PYTHON],
    upstream="https://github.com/llvm/llvm-project.git",
)
#: The same without the experimental target.
REQUIRED_TARGETS = make_targets(make_row(), pythons=[OTHER_PYTHON, PYTHON])


def find_release(forge: Forge, tag: str) -> Release:
    """The release of ``tag``, or its oldest draft."""
    listed = (release for release in forge.releases() if release.tag == tag)
    found = min(listed, key=lambda release: release.draft, default=None)
    assert found is not None
    return found


@dataclass
class Stage:
    """Where a test acts."""

    forge: LocalForge
    dist: Path
    matrix: Matrix
    tag: str = TAG
    base_url: str | None = None  #: where the releases are served

    def again(self) -> LocalForge:
        """The forge as another process sees it."""
        return type(self.forge)(self.forge.root, clock=lambda: NOW, base_url=self.base_url, identity=WHO)

    def add_tag(
        self, tag: str, version: str, *, revision: str = REVISION, draft: bool = True, facts: LlvmFacts | None = None
    ) -> None:
        """Allocate a tag as the snapshot transaction does, and open its draft."""
        commit = make_pin(self.forge, revision)
        parsed = parse_tag(tag)
        assert parsed is not None
        message = tag_message(
            parsed,
            revision=revision,
            request_id=f"r-{tag}",
            wheel_version=version,
            facts=facts,
        )
        self.forge.create_tag(tag, commit, message)
        if draft:
            self.forge.create_draft(tag, title=tag, body="", prerelease=True)

    def fill(
        self,
        *,
        tag: str = TAG,
        version: str = VERSION,
        revision: str = REVISION,
        pythons: Sequence[str] = (OTHER_PYTHON, PYTHON),
        distribution: str = "mlir",
        content: str = "",
        padding: int = 0,
        files: dict[str, bytes] | None = None,
    ) -> Path:
        """Write wheels and passing reports for ``tag``, as ``py3`` of an SDK; returns the folder."""
        folder = self.dist / tag
        for python in pythons:
            wheel = make_wheel(
                folder,
                tag=tag,
                version=version,
                revision=revision,
                python=python,
                distribution=distribution,
                profile=PROFILES[distribution],
                content=content,
                padding=padding,
                files=files,
            )
            suite = "smoke" if python != ANY_PYTHON else "sdk"
            make_report(folder, wheel, suite=suite, target=f"{suite}-{distribution}-linux-x86_64-{python}")
        return folder

    def draft(self, tag: str = "") -> Draft:
        """A tag's draft or release, as another process reads it; default: the stage's tag."""
        return Draft.load(self.again(), tag or self.tag)

    def upload(self, folder: Path, *, tag: str = "", dry_run: bool = False) -> UploadOutcome:
        """Upload what a folder has to a tag's draft."""
        return upload(self.draft(tag), folder, dry_run=dry_run)

    def publish(self, folder: Path | None = None, *, tag: str = "", dry_run: bool = False) -> PublishOutcome:
        """Publish a tag's draft, after an upload of what a folder has."""
        if folder is not None:
            self.upload(folder, tag=tag)
        return publish(self.draft(tag), dry_run=dry_run)


def make_stage(root: Path, *, base_url: str | None = None, targets: str = TARGETS) -> Stage:
    """A forge in ``root`` with :data:`TAG`, its empty draft, and an empty dist folder."""
    from mlir_release.release.forge.local.forge import (
        LocalForge,  # not on Windows, where unit tests use the constants above
    )

    forge = LocalForge.create(
        root / "forge",
        {"llvm-project.version": REVISION.encode() + b"\n", "targets.toml": targets.encode()},
        clock=lambda: NOW,
        identity=WHO,
        base_url=base_url,
    )
    stage = Stage(forge=forge, dist=root / "dist", matrix=Matrix.parse(targets), base_url=base_url)
    stage.add_tag(TAG, VERSION)
    return stage
