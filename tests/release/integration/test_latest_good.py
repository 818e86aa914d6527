"""``latest-good`` as readers resolve it: by the signed pointer, or, where nothing is signed, by what a place shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.release.judging.signed import SignedBy
from mlir_release.release.latest.latest import read_release
from mlir_release.release.model.release_tags import parse_release_tag
from mlir_release.release.provenance.pointer import ChannelRelease
from mlir_release.release.transaction import decisions
from tests.attacks.latest_stage import NEW, OLD, LatestStage, latest_stage
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LatestStage]:
    with pytest.MonkeyPatch.context() as patch, latest_stage(tmp_path_factory.mktemp("good"), patch) as stage:
        yield stage


@pytest.fixture
def stage(made: LatestStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LatestStage:
    """The same repository with a mirror of its own for each test."""
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    mine = LatestStage(made.signed, tmp_path, made.whole)
    mine.copy()
    return mine


def good(stage: LatestStage, tag: str = OLD, **changes: Any) -> ChannelRelease:
    release = stage.signed.forge.published(tag)
    assert release is not None
    values = {"tag": tag, "commit": stage.signed.commit, "manifest": release.digest("release.json")}
    return ChannelRelease(**(values | changes))


def read(stage: LatestStage) -> str:
    return read_release(stage.mirror, "latest-good", SignedBy(repository=stage.signed.url)).manifest.tag


def test_it_is_the_snapshot_that_is_signed_as_good_and_not_the_newest(stage: LatestStage) -> None:
    stage.point(NEW, good=good(stage))
    assert read(stage) == OLD
    assert read_release(stage.mirror, "latest", SignedBy(repository=stage.signed.url)).manifest.tag == NEW


def test_a_pointer_without_one_says_what_to_do_instead(stage: LatestStage) -> None:
    stage.point(NEW, good=None)
    error = refused(lambda: read(stage), "release-not-published", "no snapshot is signed as good yet")
    assert "name a tag, or latest" in error.remedy


def test_another_release_of_that_tag_is_refused(stage: LatestStage) -> None:
    stage.point(NEW, good=good(stage, manifest="0" * 64))
    refused(lambda: read(stage), "latest-stale", "is not the release that is signed as latest-good")


def test_a_release_that_is_withheld_is_refused(stage: LatestStage) -> None:
    stage.point(NEW, good=good(stage))
    (stage.mirror.root / "releases" / OLD).rename(stage.folder / "hidden")
    refused(lambda: read(stage), "latest-stale", "is signed as latest-good")


def test_a_yanked_one_is_not_installed(stage: LatestStage) -> None:
    stage.point(NEW, good=good(stage))
    decisions.yank(stage.mirror, OLD, "miscompiles", branch="main")
    error = refused(lambda: read(stage), "release-not-published", f"latest-good names {OLD}, which is yanked")
    assert "miscompiles" in error.why


def test_no_tag_can_be_called_so(stage: LatestStage) -> None:
    error = refused(lambda: parse_release_tag("latest-good"), "option-invalid", "latest-good is not a tag")
    assert "latest and latest-good" in error.remedy
