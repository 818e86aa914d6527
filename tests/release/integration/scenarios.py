"""What the kill and race tests run in processes of their own, and how they compare where it ends.

Time stands still at noon of 20 November 2026, so that two runs that do the same end the same.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mlir_release.ground.documents.trailers import parse_trailers
from mlir_release.ground.git.repository import Git
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.index.generate import generate
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.transaction.decisions import abandon, waive, yank
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.start import start
from mlir_release.release.transaction.sweep import sweep
from mlir_release.release.transaction.upload import upload
from tests.revision_factory import make_revision
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import make_report, make_wheel

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
WHO = "Ada Lovelace <ada@example.org>"
SERVED = "https://example.org/releases"
OLD, NEW, NEXT = "a" * 40, "b" * 40, "c" * 40
TAG = "snapshot-20261120.01"
TARGETS = make_targets(make_row()).encode()
MATRIX = Matrix.parse(TARGETS.decode())
TARGET = "mlir-linux-x86_64-cp312"


def open_forge(folder: Path) -> LocalForge:
    """The forge in ``folder``, whose pages are always served at one address."""
    return forge_at(folder, NOW)


def forge_at(folder: Path, now: datetime) -> LocalForge:
    """The same at another time."""
    return LocalForge(folder / "forge", clock=lambda: now, base_url=SERVED, identity=WHO)


def make_forge(folder: Path) -> None:
    """A release repository with a pin."""
    files = {"llvm-project.version": f"{OLD}\n".encode(), "targets.toml": TARGETS}
    LocalForge.create(folder / "forge", files, clock=lambda: NOW, identity=WHO)


# -- scenarios --------------------------------------------------------------------------------------------------------


def create(folder: Path) -> None:
    """Make the forge."""
    make_forge(folder)


def run_snapshot(folder: Path) -> None:
    """The whole transaction."""
    start(open_forge(folder), make_revision(NEW), MATRIX, request_id="run-1")


def run_forced(folder: Path) -> None:
    start(open_forge(folder), make_revision(NEW), MATRIX, request_id="run-1", force=True)


def run_next(folder: Path) -> None:
    """The transaction of the next revision: whatever the one before left must not be in its way."""
    start(open_forge(folder), make_revision(NEXT), MATRIX, request_id="run-2")


def run_number(folder: Path) -> None:
    """A numbered release."""
    start(open_forge(folder), make_revision(NEW), MATRIX, version="22.1.8", request_id="run-1")


def run_waive(folder: Path) -> None:
    waive(open_forge(folder), TAG, TARGET, "broken")


def run_abandon(folder: Path) -> None:
    """An abandonment; the forge's draft has assets."""
    abandon(open_forge(folder), TAG, "broken")


def run_yank(folder: Path) -> None:
    yank(open_forge(folder), TAG, "broken", branch="main")


def run_assets(folder: Path) -> None:
    """Upload, replace, edit and publish by the forge's own methods, each only if it is still to be done."""
    forge = open_forge(folder)
    release = next(release for release in forge.releases() if release.tag == TAG)
    if not release.draft:
        return
    for name in ("a.whl", "b.whl"):
        if release.asset(name) is None:
            forge.upload(release, name, folder / "sources" / name)
    wrong = release.asset("wrong.whl")
    if wrong is not None:
        forge.delete_asset(release, wrong)
    forge.edit_release(release, title="Release", body="[a](https://example.org/releases/x)\n")
    forge.publish(release)


def run_build(folder: Path) -> None:
    """A runner takes the run and completes it."""
    forge = open_forge(folder)
    run = forge.take_run("release.yml")
    if run is None:  # the one that was taken before died with its runner
        if any(run.conclusion == "success" for run in forge.runs("release.yml", ref=TAG)):
            return
        forge.dispatch("release.yml", ref=TAG, inputs={})
        run = forge.take_run("release.yml")
    assert run is not None
    forge.finish_run(run, "success")


def run_sweep(folder: Path) -> None:
    assert not sweep(open_forge(folder), branch="main").failures


def run_later_sweep(folder: Path) -> None:
    """One an hour later, when whoever was at work is dead."""
    forge = forge_at(folder, NOW + timedelta(hours=1))
    assert not sweep(forge, branch="main").failures


def run_release(folder: Path) -> None:
    """The whole main job but the building: snapshot, upload, verify, publish, index."""
    forge = open_forge(folder)
    start(forge, make_revision(NEW), MATRIX, request_id="run-1")
    draft = Draft.load(forge, TAG)
    upload(draft, folder / "dist")
    publish(draft)
    generate(forge, folder / "pages", base_url="https://example.org/pages")


# -- states before ----------------------------------------------------------------------------------------------------


def nothing(folder: Path) -> None:
    """An empty folder."""


def with_draft(folder: Path) -> None:
    """A pending snapshot whose draft has an asset, and files to upload."""
    make_forge(folder)
    run_snapshot(folder)
    sources = folder / "sources"
    sources.mkdir()
    for name in ("a.whl", "b.whl", "wrong.whl"):
        (sources / name).write_bytes(name.encode() * 50_000)
    (draft,) = open_forge(folder).releases()
    open_forge(folder).upload(draft, "wrong.whl", sources / "wrong.whl")


def with_release(folder: Path) -> None:
    """A published snapshot."""
    with_draft(folder)
    run_assets(folder)


def with_pending(folder: Path) -> None:
    """Snapshots for each thing that a sweep does: abandon, delete, publish (and dispatch the pages), dispatch."""
    make_forge(folder)
    for day, pythons in ((16, ["cp312"]), (17, ["cp312"]), (18, ["cp312", "cp313"]), (19, [])):
        forge = forge_at(folder, NOW.replace(day=day))
        revision = f"{day:040d}"
        tag = start(forge, make_revision(revision), MATRIX, request_id=f"run-{day}").tag
        if not pythons:
            continue
        for python in pythons:
            wheel = make_wheel(folder / tag, tag=tag, version=f"202611{day}.1", revision=revision, python=python)
            make_report(folder / tag, wheel, target=f"smoke-mlir-linux-x86_64-{python}")
        upload(Draft.load(forge, tag), folder / tag)
        run = forge.take_run("release.yml")
        assert run is not None
        forge.finish_run(run, "failure")
    head = open_forge(folder).tag("snapshot-20261117.01")
    assert head is not None
    open_forge(folder).create_tag("abandoned/snapshot-20261117.01", head.commit, "Abandon\n")
    for path in (folder / "forge" / "runs").glob("*.json"):  # its maker was killed before it dispatched the build
        if "snapshot-20261119.01" in path.read_text():
            path.unlink()


def with_wheels(folder: Path) -> None:
    """A release repository, and what a build of its first snapshot makes."""
    make_forge(folder)
    for python in ("cp312", "cp313"):
        wheel = make_wheel(folder / "dist", tag=TAG, version="20261120.1", revision=NEW, python=python)
        make_report(folder / "dist", wheel, target=f"smoke-mlir-linux-x86_64-{python}")


# -- what is compared -------------------------------------------------------------------------------------------------


def observe(folder: Path) -> object:
    """Refs by name with trees and trailers, releases with assets and digests, runs, and all that is served."""
    forge = open_forge(folder)
    git = Git(forge.repository)
    tags = [state.name for state in Ledger(forge, whole=True).states]
    git.run("fsck", "--strict")
    return {
        "refs": {
            ref.name: (git.text("rev-parse", f"{ref.commit}^{{tree}}"), parse_trailers(ref.message or message))
            for ref in git.refs()
            for message in [git.message(ref.commit)]
        },
        "history": git.text("rev-list", "--count", "--all"),
        "releases": [
            (
                release.tag,
                release.draft,
                release.title,
                release.body,
                [(asset.name, asset.size, asset.sha256, asset.complete) for asset in release.assets],
            )
            for release in forge.releases()
        ],
        # Of each tag the newest run: one whose runner was killed stays on record as failed.
        "runs": [
            (tag, [(run.status, run.conclusion) for run in forge.runs("release.yml", ref=tag)][:1]) for tag in tags
        ],
        "pages runs": [(run.inputs, run.status) for run in forge.runs("pages.yml", ref="main")],
        "served": served(folder / "forge" / "releases"),
        "pages": served(folder / "pages"),
    }


def served(root: Path) -> dict[str, str]:
    """Digests of the files that strangers get."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != ".forge.json"
    }


def check_readers(folder: Path) -> None:
    """What must hold right after a kill: strangers see whole releases, and every listed asset has its bytes."""
    root = folder / "forge" / "releases"
    for release in root.iterdir() if root.is_dir() else ():
        names = {path.name for path in release.iterdir()}
        assert "index.html" in names
        assert len([name for name in names if name.endswith(".whl")]) == 2
    if not (folder / "forge" / "repository.git").is_dir():
        return
    for found in open_forge(folder).releases():
        place = root / found.tag if not found.draft else folder / "forge" / "drafts" / found.id
        for asset in found.assets:
            assert asset.complete
            assert hashlib.sha256((place / asset.name).read_bytes()).hexdigest() == asset.sha256
