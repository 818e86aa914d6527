"""A repository's past: thousands of published releases with their tags and assets, made without a single request."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING

from mlir_release.release.index.observe import pack
from mlir_release.release.index.site import Published
from mlir_release.release.model.manifest import MANIFEST_NAME, Manifest
from mlir_release.release.model.release_tags import SnapshotTag, parse_tag
from mlir_release.release.pinning.state import tag_message
from tests.github_server.world import Asset, Release
from tests.paper_forge import make_manifest

if TYPE_CHECKING:
    from datetime import datetime

    from tests.github_server.server import GitHubServer

#: Of a snapshot of the whole matrix: wheels, their metadata, reports, the manifest.
ASSETS = 150
_HALF_A_DAY = timedelta(hours=12)


def add_past(github: GitHubServer, repository: str, count: int, *, until: datetime, assets: int = ASSETS) -> list[str]:
    """Publish ``count`` snapshots, two a day, the last at ``until``; returns their tags, the oldest first."""
    place = github.repositories[repository]
    times = [until - _HALF_A_DAY * back for back in reversed(range(count))]
    tags = [str(SnapshotTag(when.date(), 1 if when.hour < 12 else 2)) for when in times]
    for tag, when, previous in zip(tags, times, ["", *tags], strict=False):
        ids = github.next_ids(assets)
        release = Release(github.next_id(), tag, tag, "", False, True, when, when + timedelta(hours=3), True, ids=ids)
        release.stock = partial(_assets, tag, when, previous, ids)
        place.releases[release.id] = release
    stream = "".join(_history(tag, when, number) for number, (tag, when) in enumerate(zip(tags, times, strict=True), 1))
    place.git.run("fast-import", "--quiet", "--force", input=stream.encode())
    return tags


def manifest_of(tag: str, when: datetime, previous: str) -> Manifest:
    """What the release of a tag consists of: 60 wheels."""
    return make_manifest(
        tag,
        created=when,
        distributions=("mlir", "mlir-core"),
        previous_tag=previous,
        previous_revision=_revision(previous) if previous else "",
    )


def archive(github: GitHubServer, repository: str) -> bytes:
    """``manifests.json.gz`` as the pages of a repository's past serve it."""
    place = github.repositories[repository]
    rows = []
    for release in place.releases.values():
        content = next(asset.content for asset in release.assets if asset.name == MANIFEST_NAME)
        assert release.published is not None
        manifest = Manifest.from_text(content, where=release.tag)
        row = Published(manifest=manifest, text=content.decode(), page_url="", published_at=release.published, urls={})
        rows.append(row)
    return pack(f"github:{repository}", rows)


def _revision(tag: str) -> str:
    return hashlib.sha256(tag.encode()).hexdigest()[:40]


@cache
def _assets(tag: str, when: datetime, previous: str, ids: range) -> list[Asset]:
    """The manifest, its wheels and their metadata, and reports, as many as there are ids; nobody changes them."""
    manifest = manifest_of(tag, when, previous)
    contents = {MANIFEST_NAME: manifest.to_text().encode()}
    for wheel in manifest.wheels:
        contents[wheel.filename] = wheel.filename.encode()
        contents[f"{wheel.filename}.metadata"] = b"metadata of " + wheel.filename.encode()
    contents |= {f"bindings-{number:03d}.tests.json": b"{}" for number in range(len(ids))}
    return [Asset(id, name, text, when) for id, (name, text) in zip(ids, contents.items(), strict=False)]


def _history(tag: str, when: datetime, number: int) -> str:
    """A pin commit and its tag, for ``git fast-import``."""
    who = f"bot <bot@users.example> {int(when.timestamp())} +0000"
    parsed = parse_tag(tag)
    assert isinstance(parsed, SnapshotTag)
    message = tag_message(
        parsed,
        revision=_revision(tag),
        request_id=f"run-{number}",
        wheel_version=str(parsed.version),
    )
    pin = f"{_revision(tag)}\n"
    parent = "from refs/heads/main^0\n" if number == 1 else ""
    return (
        f"commit refs/heads/main\nmark :{number}\ncommitter {who}\ndata <<END\nPin {tag}\nEND\n{parent}"
        f"M 100644 inline llvm-project.version\ndata {len(pin)}\n{pin}\n"
        f"tag {tag}\nfrom :{number}\ntagger {who}\ndata {len(message.encode())}\n{message}\n"
    )
