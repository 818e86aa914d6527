"""What a command asks of an old repository: it lists tags and releases once at most, and requests do not grow."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.ground.console import console
from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.transaction.decisions import discard
from mlir_release.release.transaction.ledger import RECENT
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.upload import upload
from tests.refusals import refused
from tests.release_stage import NEXT_REVISION, Stage
from tests.scale import Asked, Veteran
from tests.wheel_factory import TAG

if TYPE_CHECKING:
    from pathlib import Path

NUMBERED = "llvm-22.1.8.01"


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often ``tags`` and ``releases`` were called."""
    counted: Counter[str] = Counter()
    for name in ("tags", "releases"):
        method = getattr(LocalForge, name)

        def counting(forge: LocalForge, name: str = name, method: Any = method) -> object:
            counted[name] += 1
            return method(forge)

        monkeypatch.setattr(LocalForge, name, counting)
    return counted


def run(stage: Stage, *arguments: str) -> str:
    """A command of the command line; its output."""
    forge = ("--forge", f"local:{stage.forge.root}")
    done = CliRunner().invoke(app, [*arguments, *forge], standalone_mode=False, catch_exceptions=False)
    return done.output


def few(listings: Counter[str]) -> Counter[str]:
    """The listings of one command, of which there may be one of each kind."""
    assert all(count <= 1 for count in listings.values()), listings
    found = listings.copy()
    listings.clear()
    return found


@pytest.mark.parametrize(("tag", "version"), [(TAG, ""), (NUMBERED, "22.1.8")])
def test_publishing_lists_once(stage: Stage, listings: Counter[str], tmp_path: Path, tag: str, version: str) -> None:
    stage.add_tag("snapshot-20261121.01", "20261121.1", revision=NEXT_REVISION)
    if version:
        stage.add_tag(tag, version)
    dist = stage.fill(tag=tag, version=version) if version else stage.fill()
    listings.clear()
    run(stage, "publish", tag, "--dist", str(dist))
    assert not few(listings)["releases"]
    assert stage.forge.published(tag) is not None
    run(stage, "index", "--output", str(tmp_path / "pages"))
    few(listings)
    assert (tmp_path / "pages" / ("releases" if version else "snapshots") / tag / "index.html").exists()


def test_what_is_missing_takes_no_listing(stage: Stage, listings: Counter[str]) -> None:
    assert "mlir-linux-x86_64" in run(stage, "matrix", "--missing", TAG)
    assert not few(listings)


def test_a_build_that_is_published_by_another_process_meanwhile_is_seen(stage: Stage) -> None:
    """What was loaded is old by the end of a build, so every write is preceded by a look at its object."""
    mine, other = stage.draft(), stage.draft()
    upload(other, stage.fill())
    publish(other)
    assert publish(mine).already
    refused(lambda: discard(mine, f"mlir-linux-x86_64-{stage.matrix.wheels[0].interpreter}"), "release-unsuitable")


# -- requests: a command costs the same at the two hundredth release as at the tenth ----------------------------------

#: More than a page of rows, or what follows the first page would never be asked for.
YOUNG, OLD = 10, 2 * RECENT


def day(folder: Path, count: int) -> dict[str, Asked]:
    """What each command asks of a repository with ``count`` releases."""
    veteran = Veteran(folder, count)
    with veteran.github:
        return {asked.name: asked for asked in veteran.a_day()}


def test_the_number_of_requests_does_not_grow_with_the_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.quiet = True
    for name in ("GITHUB_RUN_ID", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    young, old = day(tmp_path / "young", YOUNG), day(tmp_path / "old", OLD)
    assert young.keys() == old.keys()
    for command, asked in young.items():
        both = asked.operations, old[command].operations
        assert both[1] == both[0], f"{command}: {both[1] - both[0]} more, {both[0] - both[1]} less"
    for asked in old.values():
        for record in asked.records:
            assert "per_page=100" not in record.query or not record.path.endswith("/releases"), record
            assert record.status != 504
    # Anonymous readers have sixty requests an hour.
    for command in ("install latest", "install TAG"):
        assert old[command].requests["rest"] <= 6
