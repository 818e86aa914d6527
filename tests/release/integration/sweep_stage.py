"""A local forge whose clock moves, with snapshots of several days: what a sweep looks after."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.model.release_tags import SnapshotTag, parse_release_tag
from mlir_release.release.pinning.state import tag_message
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.upload import upload
from tests.pin_factory import make_pin
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import OTHER_PYTHON, PYTHON, make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mlir_release.release.forge.base import Release

BEGIN = datetime(2026, 11, 16, 3, 17, tzinfo=UTC)
WHO = "Ada Lovelace <ada@example.org>"
TARGETS = make_targets(
    make_row(), make_row("mlir-core", pythons=[PYTHON], required=False), pythons=[OTHER_PYTHON, PYTHON]
)


def revision_of(tag: str) -> str:
    """The llvm-project commit of a snapshot."""
    return tag.removeprefix("snapshot-").replace(".", "").rjust(40, "0")


def version_of(tag: str) -> str:
    return str(parse_release_tag(tag).version)


@dataclass
class Clock:
    """What time it is."""

    now: datetime = BEGIN

    def __call__(self) -> datetime:
        return self.now


@dataclass
class SweepStage:
    """Where a test acts. ``day`` 1 is the first."""

    root: Path
    clock: Clock = field(default_factory=Clock)
    targets: str = TARGETS

    def __post_init__(self) -> None:
        files = {"llvm-project.version": b"0" * 40 + b"\n", "targets.toml": self.targets.encode()}
        LocalForge.create(self.root / "forge", files, clock=self.clock, identity=WHO)

    @property
    def forge(self) -> LocalForge:
        """The forge as a new process sees it."""
        return LocalForge(self.root / "forge", clock=self.clock, base_url="https://example.org/releases", identity=WHO)

    def wait(self, hours: float) -> None:
        """Let time pass."""
        self.clock.now += timedelta(hours=hours)

    def snapshot(self, *, draft: bool = True, dispatched: bool = True, shown: bool = True, revision: str = "") -> str:
        """Tag a snapshot now, as far as its maker comes; returns the tag.

        :param shown: whether the pages are generated at once, as by the sweep that follows each snapshot
        """
        forge, today = self.forge, self.clock.now.date()
        names = {tag.name for tag in forge.tags()}
        name = next(str(tag) for n in range(1, 99) if str(tag := SnapshotTag(today, n)) not in names)
        self.tag(name, revision=revision or revision_of(name))
        if draft:
            forge.create_draft(name, title=name, body="", prerelease=True)
        if dispatched:
            forge.dispatch("release.yml", ref=name, inputs={})
        if shown:
            forge.dispatch("pages.yml", ref="main", inputs={"tag": ""})
            self.end_run("success", workflow="pages.yml")
        return name

    def tag(self, name: str, *, revision: str) -> None:
        """Make a tag that is ours."""
        commit = make_pin(self.forge, revision)
        message = tag_message(
            parse_release_tag(name),
            revision=revision,
            request_id=f"r-{name}",
            wheel_version=version_of(name),
        )
        self.forge.create_tag(name, commit, message)

    def fill(
        self,
        tag: str,
        pythons: Sequence[str] = (OTHER_PYTHON, PYTHON),
        *,
        distribution: str = "mlir",
        passed: bool = True,
        tested: bool = True,
        forge: LocalForge | None = None,
    ) -> None:
        """Upload wheels, and reports of their smoke tests."""
        folder = self.root / "dist" / tag / f"{distribution}-{'-'.join(pythons)}"
        for python in pythons:
            wheel = make_wheel(
                folder,
                tag=tag,
                version=version_of(tag),
                revision=revision_of(tag),
                python=python,
                distribution=distribution,
                profile={"mlir": "host", "mlir-core": "core"}[distribution],
            )
            if tested:
                make_report(folder, wheel, target=f"smoke-{distribution}-linux-x86_64-{python}", passed=passed)
        upload(Draft.load(forge or self.forge, tag), folder)

    def end_run(self, conclusion: str = "failure", *, workflow: str = "release.yml") -> None:
        """Have the oldest run that waits taken and completed."""
        forge = self.forge
        run = forge.take_run(workflow)
        assert run is not None
        forge.finish_run(run, conclusion)

    def release(self, tag: str) -> Release | None:
        """The release of a tag, else its draft."""
        forge = self.forge
        return forge.published(tag) or next(iter(forge.drafts(tag)), None)

    def state(self, tag: str) -> str:
        """``published``, ``draft``, ``abandoned``, or ``tagged`` only."""
        names = {found.name for found in self.forge.tags()}
        release = self.release(tag)
        if f"abandoned/{tag}" in names:
            return "abandoned" if release is None else "abandoned, with a draft"
        return "tagged" if release is None else "draft" if release.draft else "published"
