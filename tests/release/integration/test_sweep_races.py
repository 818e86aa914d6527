"""A sweep beside which another process acts at any call of the forge.

The forge is in memory and each case starts from a copy of it, so that every call is tried, not a few.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.console import console
from mlir_release.ground.errors import ReleaseError
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.pinning.state import tag_message
from mlir_release.release.transaction.decisions import abandon, waive, waive_only
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.start import start
from mlir_release.release.transaction.sweep import sweep
from mlir_release.release.transaction.upload import upload
from tests.memory_forge import MemoryForge
from tests.pin_factory import make_pin
from tests.revision_factory import make_revision
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import make_report, make_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlir_release.release.forge.base import Forge

TARGETS = make_targets(make_row())
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
#: Snapshots: too old and incomplete; given up by a process that died; complete; tagged by a process that died.
OLD, GIVEN_UP, COMPLETE, BEGUN = (f"snapshot-202611{day}.01" for day in (16, 17, 18, 19))
LATE = "mlir-linux-x86_64-cp313"

#: How many of the calls are tried, unless all are.
SAMPLE = 12


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    console.quiet = True


@pytest.fixture(scope="module")
def pending(tmp_path_factory: pytest.TempPathFactory) -> MemoryForge:
    """Copied for each case."""
    console.quiet, quiet = True, console.quiet
    forge = MemoryForge({"llvm-project.version": b"a" * 40 + b"\n", "targets.toml": TARGETS.encode()})
    for tag, pythons in ((OLD, ["cp312"]), (GIVEN_UP, ["cp312"]), (COMPLETE, ["cp312", "cp313"]), (BEGUN, [])):
        add(forge, tag, pythons, tmp_path_factory.mktemp("dist"))
    forge.create_tag(f"abandoned/{GIVEN_UP}", f"{1:040x}", "Abandon\n\nReason: broken\n")
    forge.time = NOON
    console.quiet = quiet
    return forge


def revision_of(tag: str) -> str:
    """The llvm-project commit of a snapshot."""
    return "a" * 40 if tag == BEGUN else tag[15:17].rjust(40, "0")


def add(forge: MemoryForge, tag: str, pythons: Sequence[str], folder: Path) -> None:
    """A snapshot of that day; with wheels, its build has failed."""
    parsed = parse_release_tag(tag)
    forge.time = datetime(2026, 11, int(tag[15:17]), 3, tzinfo=UTC)
    revision, version = revision_of(tag), str(parsed.version)
    forge.create_tag(
        tag,
        make_pin(forge, revision),
        tag_message(parsed, revision=revision, request_id=tag, wheel_version=version),
    )
    if not pythons:
        return
    forge.create_draft(tag, title=tag, body="", prerelease=True)
    forge.dispatch("release.yml", ref=tag, inputs={})
    for python in pythons:
        wheel = make_wheel(folder, tag=tag, version=version, revision=revision, python=python)
        make_report(folder, wheel, target=f"smoke-mlir-linux-x86_64-{python}")
    upload(Draft.load(forge, tag), folder)
    forge.end_run(tag, "failure")


@dataclass
class Watched:
    """The forge as one process sees it; before its call number ``at``, ``event`` happens."""

    forge: MemoryForge
    event: Callable[[], object] = lambda: None
    at: int = 0
    calls: int = 0

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.forge, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                self.event()
            return value(*arguments, **options)

        return call


def go(forge: Forge) -> None:
    """A sweep in which nothing fails."""
    outcome = sweep(forge, branch="main")
    assert not outcome.failures, outcome.rows


def settle(forge: MemoryForge) -> None:
    """What later sweeps do."""
    for _ in range(2):
        forge.time += timedelta(hours=1)
        go(forge)
    outcome = sweep(forge, branch="main")
    assert not [row for row in outcome.rows if row.step is not None], outcome.rows


def end(forge: MemoryForge) -> Mapping[str, object]:
    """What lasts, checked for what must never be."""
    tags = set(forge.tag_list)
    found: dict[str, object] = {}
    for tag in (OLD, GIVEN_UP, COMPLETE, BEGUN):
        releases = [release for release in forge.release_list if release.tag == tag]
        public = forge.published(tag)
        if public is not None:
            asset = public.asset(MANIFEST_NAME)
            assert asset is not None
            manifest = Manifest.from_text(forge.contents[public.id, MANIFEST_NAME], where=tag)
            wheels = {entry.filename for entry in manifest.wheels}
            assert wheels == {asset.name for asset in public.assets if asset.name.endswith(".whl")}
            assert len(wheels) + len(manifest.waivers) == 2
            assert any(run.created_at >= (public.published_at or NOON) for run in forge.runs("pages.yml", ref="main"))
        assert len(releases) <= 1
        gone = f"abandoned/{tag}" in tags
        assert not (gone and releases and public is None), "an abandoned tag has a draft"
        found[tag] = "published" if public else "abandoned" if gone else "draft" if releases else "tagged"
    found["builds"] = {tag: len(forge.runs("release.yml", ref=tag)) for tag in (OLD, COMPLETE, BEGUN)}
    return found


UNDISTURBED = {
    OLD: "abandoned",
    GIVEN_UP: "abandoned",
    COMPLETE: "published",
    BEGUN: "draft",
    "builds": {OLD: 1, COMPLETE: 1, BEGUN: 1},
}


def count(pending: MemoryForge) -> int:
    """The calls of an undisturbed sweep."""
    watched = Watched(pending.fork())
    go(watched)
    settle(watched.forge)
    assert end(watched.forge) == UNDISTURBED
    return watched.calls


def points(calls: int, *, exhaustive: bool) -> Sequence[int]:
    return sorted({*range(1, calls, 1 if exhaustive else max(1, calls // SAMPLE)), calls})


def publish_it(forge: MemoryForge) -> None:
    """The run's own last step."""
    publish(Draft.load(forge, COMPLETE))


def upload_more(forge: MemoryForge) -> None:
    """The run's own upload: another build of a wheel that is there."""
    with tempfile.TemporaryDirectory() as folder:
        make_wheel(
            Path(folder),
            tag=COMPLETE,
            version="20261118.1",
            revision=revision_of(COMPLETE),
            python="cp312",
            content="x",
        )
        upload(Draft.load(forge, COMPLETE), Path(folder))


def waive_old(forge: MemoryForge) -> None:
    waive(forge, OLD, LATE, "no time")


def waive_filtered(forge: MemoryForge) -> None:
    waive_only(forge, OLD, "os=linux", "no time")


def abandon_it(forge: MemoryForge) -> None:
    abandon(forge, COMPLETE, "it is bad")


def bump(forge: MemoryForge) -> None:
    """The next scheduled snapshot."""
    start(forge, make_revision("c" * 40), Matrix.parse(TARGETS), request_id="run-1")


def bump_again(forge: MemoryForge) -> None:
    """A snapshot of a revision that another process began with."""
    start(forge, make_revision(revision_of(BEGUN)), Matrix.parse(TARGETS), request_id="run-1")


@pytest.mark.parametrize(
    ("other", "changed"),
    [
        (go, {}),
        (publish_it, {}),
        (upload_more, {}),
        (waive_old, {OLD: ("abandoned", "published")}),
        (waive_filtered, {OLD: ("abandoned", "published")}),
        (abandon_it, {COMPLETE: ("abandoned", "published")}),
        (bump, {}),
        (bump_again, {}),
    ],
)
def test_another_process_beside_any_call(
    other: Callable[[MemoryForge], None],
    changed: Mapping[str, tuple[str, ...]],
    pending: MemoryForge,
    *,
    exhaustive: bool,
) -> None:
    calls = count(pending)
    tried = points(calls, exhaustive=exhaustive)
    seen: dict[str, set[object]] = {tag: set() for tag in changed}
    twice: list[int] = []
    for at in tried:
        forge = pending.fork()

        def act(forge: MemoryForge = forge) -> None:
            try:
                other(forge)
            except ReleaseError as error:
                assert error.id in ("tag-abandoned", "already-published", "changed-meanwhile"), error  # noqa: PT017

        go(Watched(forge, act, at))
        settle(forge)
        found = dict(end(forge))
        for tag, allowed in changed.items():
            assert found[tag] in allowed, f"beside call {at}"
            seen[tag].add(found[tag])
            found[tag] = UNDISTURBED[tag]
        builds = found.pop("builds")
        assert found == {name: state for name, state in UNDISTURBED.items() if name != "builds"}, f"beside call {at}"
        if builds != UNDISTURBED["builds"]:
            assert builds == {OLD: 1, COMPLETE: 1, BEGUN: 2}, f"beside call {at}"
            twice.append(at)
    # GitHub has no dispatch that is made once: between the last look and the dispatch, another's goes unseen. The
    # second run waits for the first, and finds nothing missing.
    assert len(twice) <= 1
    assert all(len(states) == 2 for states in seen.values()), seen  # each can be first
    print(f"\n{other.__name__} beside {len(tried)} of {calls} calls of the forge")
