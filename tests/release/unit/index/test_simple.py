"""What is newest, and what pip is told of it: attributes, escaping, PEP 503 and 691."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from mlir_release.release.index.simple import anchor, project_html, project_json, root_html, root_json
from mlir_release.release.index.site import Channel, WheelLink
from mlir_release.release.model.yanks import Yank
from tests.paper_forge import make_manifest, make_published
from tests.release.unit.index.test_generate import Page

HOSTILE = "\"><script>alert('x')</script>&amp;"
WHEEL = make_manifest("snapshot-20261120.02", platforms=("win_amd64",), pythons=("cp312",)).wheels[0]
LINK = WheelLink(
    wheel=WHEEL,
    url=f"https://forge.example/a b/{WHEEL.filename}",
    provenance="",
    yanked=None,
    uploaded=datetime(2026, 11, 20, 12, tzinfo=UTC),
)


def test_a_link_has_all_that_pip_wants() -> None:
    (found,) = Page(anchor(LINK)).links
    metadata = f"sha256={WHEEL.metadata_sha256}"
    assert found == {
        "href": f"{LINK.url}#sha256={WHEEL.sha256}",
        "data-requires-python": ">=3.10",
        "data-core-metadata": metadata,
        "data-dist-info-metadata": metadata,
    }
    (bare,) = Page(anchor(LINK, core_metadata=False)).links
    assert set(bare) == {"href", "data-requires-python"}


def test_yanks_and_provenance_and_hostile_reasons() -> None:
    link = replace(LINK, yanked=HOSTILE, provenance="https://forge.example/p?a=1&b=2")
    (found,) = Page(anchor(link)).links
    assert found["data-yanked"] == HOSTILE
    assert found["data-provenance"] == link.provenance
    assert "data-yanked" in Page(anchor(replace(LINK, yanked=""))).links[0]


def test_project_page() -> None:
    text = project_html("mlir", [LINK, replace(LINK, yanked="x")])
    assert len(Page(text).links) == 2
    assert '<meta name="pypi:repository-version" content="1.3">' in text
    assert Page(root_html(["mlir", "mlir-core"])).links == [{"href": "mlir/"}, {"href": "mlir-core/"}]


def test_project_json() -> None:
    data = json.loads(project_json("mlir", [LINK, replace(LINK, yanked="bad"), replace(LINK, yanked="")]))
    assert data["meta"] == {"api-version": "1.3"}
    assert data["versions"] == ["20261120.2"]
    first, second, third = data["files"]
    assert first == {
        "filename": WHEEL.filename,
        "url": LINK.url,
        "hashes": {"sha256": WHEEL.sha256},
        "requires-python": ">=3.10",
        "size": WHEEL.size,
        "upload-time": "2026-11-20T12:00:00Z",
        "core-metadata": {"sha256": WHEEL.metadata_sha256},
        "yanked": False,
    }
    assert (second["yanked"], third["yanked"]) == ("bad", True)
    assert json.loads(root_json(["mlir"]))["projects"] == [{"name": "mlir"}]


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
