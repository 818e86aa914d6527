"""How often a command lists the forge's tags and releases: each listing grows with the repository's age."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.release.forge.local.forge import LocalForge
from tests.refusals import refused
from tests.release_stage import NEXT_REVISION, Stage
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
    from mlir_release.release.transaction.decisions import discard
    from mlir_release.release.transaction.publish import publish
    from mlir_release.release.transaction.upload import upload

    mine, other = stage.draft(), stage.draft()
    upload(other, stage.fill())
    publish(other)
    assert publish(mine).already
    refused(lambda: discard(mine, f"mlir-linux-x86_64-{stage.matrix.wheels[0].interpreter}"), "release-unsuitable")
