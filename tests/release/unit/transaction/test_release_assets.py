"""What is downloaded of a release is what its forge lists, whichever forge that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mlir_release.release.transaction.release_assets import RemoteRelease
from tests.memory_forge import MemoryForge
from tests.refusals import refused

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.forge.base import Forge

TAG = "snapshot-20261120.01"


def test_a_file_that_arrives_changed_is_removed_again(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"ours")
    forge = MemoryForge({})
    forge.create_tag(TAG, forge.head("main") or "", "")
    draft = forge.create_draft(TAG, title="", body="", prerelease=False)
    asset = forge.upload(draft, "x.whl", tmp_path / "x.whl")
    forge.contents[draft.id, "x.whl"] = b"another's"
    remote = RemoteRelease(cast("Forge", forge), draft)
    place = tmp_path / "downloaded"
    place.mkdir()
    assert asset.sha256 in refused(lambda: remote.fetch(asset, place), "file-damaged").why
    assert list(place.iterdir()) == []
    forge.contents[draft.id, "x.whl"] = b"ours"
    assert remote.fetch(asset, place).read_bytes() == b"ours"
