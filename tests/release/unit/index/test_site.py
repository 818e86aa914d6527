"""The channels: what is newest, and what pip is offered."""

from __future__ import annotations

from mlir_release.release.index.site import Channel
from mlir_release.release.model.yanks import Yank
from tests.paper_forge import make_manifest, make_published


def test_numbered_releases_in_the_order_of_their_versions() -> None:
    versions = {
        "llvm-9.0.1.01": "9.0.1",
        "llvm-22.1.8.01": "22.1.8",
        "llvm-22.1.8.02": "22.1.8.post1",
        "llvm-23.1rc1.01": "23.1rc1",
    }
    all_of_them = [make_published(make_manifest(tag, version=version)) for tag, version in versions.items()]
    snapshot = make_published(make_manifest("snapshot-20261120.01"))
    channel = Channel.of("numbered", [snapshot, *all_of_them])
    assert [release.manifest.version for release in channel.releases] == ["23.1rc1", "22.1.8.post1", "22.1.8", "9.0.1"]
    assert [release.manifest.version for release in channel.offered] == ["22.1.8.post1", "22.1.8", "9.0.1"]
    assert list(channel.files()) == ["mlir"]
    assert channel.files()["mlir"][0].wheel.filename.startswith("mlir-9.0.1-")


def test_the_latest_is_not_yanked() -> None:
    older = make_published(make_manifest("snapshot-20261120.01"))
    newer = make_published(
        make_manifest("snapshot-20261120.02", previous=older.manifest), Yank(tag="snapshot-20261120.02", reason="bad")
    )
    channel = Channel.of("snapshot", [newer, older])
    assert channel.latest is older
    assert channel.offered == (older,)
    assert channel.previous(newer) is older
    assert channel.previous(older) is None
    assert Channel.of("snapshot", [newer]).latest is None
