"""The index of a job begins from what the pages serve, and is right whatever that is."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.console import console
from mlir_release.release.index.observe import ARCHIVE_NAME
from tests.github_server.stock import add_past
from tests.scale import NOW, REPOSITORY, Asked, Veteran

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COUNT = 25  #: more than are looked up one by one
ASSETS = 125


@pytest.fixture
def veteran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Veteran]:
    console.quiet = True
    found = Veteran(tmp_path, COUNT, assets=ASSETS)
    with found.github:
        yield found


def tree(folder: Path) -> dict[str, bytes]:
    """All files but the status, which is of its moment."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {"status/index.html", "status/status.json"} <= found.keys()
    return {name: content for name, content in found.items() if not name.startswith("status/")}


def job(veteran: Veteran, name: str, *options: str) -> tuple[Asked, dict[str, bytes]]:
    """What a job with an empty folder asks, and the pages that it makes."""
    asked = veteran.index(*options, folder=name)
    return asked, tree(veteran.folder / name)


def manifests(asked: Asked) -> int:
    """How many manifests were read from the releases."""
    return sum(record.path.endswith("/release.json") and record.status == 200 for record in asked.records)


def test_only_what_is_new_is_read(veteran: Veteran) -> None:
    first, _ = job(veteran, "site")
    assert manifests(first) == COUNT
    # The yanks, targets.toml, the issues, the branch latest; no limit counts the public addresses.
    assert first.requests["rest"] <= 6
    veteran.deploy()
    veteran.now = NOW
    add_past(veteran.github, REPOSITORY, 1, until=NOW)
    second, pages = job(veteran, "second")
    assert manifests(second) == 1
    assert second.requests["rest"] <= 7
    fresh, expected = job(veteran, "fresh", "--afresh")
    assert manifests(fresh) == COUNT + 1
    assert pages == expected


def foreign(content: bytes) -> bytes:
    data = json.loads(gzip.decompress(content))
    return gzip.compress(json.dumps(data | {"source": "https://github.com/else/where"}).encode())


def one_row_wrong(content: bytes) -> bytes:
    data = json.loads(gzip.decompress(content))
    data["releases"][3]["manifest"] = data["releases"][3]["manifest"].replace("22.1.8", "22.1.9")
    return gzip.compress(json.dumps(data).encode())


def swapped(content: bytes) -> bytes:
    data = json.loads(gzip.decompress(content))
    data["releases"][3]["tag"] = "snapshot-20200101.01"
    return gzip.compress(json.dumps(data).encode())


@pytest.mark.parametrize(
    ("spoilt", "read"),
    [
        (lambda content: None, COUNT),
        (lambda content: content[:1000], COUNT),
        (lambda content: b"<html>Not Found</html>", COUNT),
        (lambda content: gzip.compress(b"[]"), COUNT),
        (lambda content: gzip.compress(b'{"schema": 2}'), COUNT),
        (foreign, COUNT),
        (one_row_wrong, 1),
        (swapped, 1),
    ],
    ids=["missing", "cut off", "a page", "a list", "of a newer toolkit", "of another repository", "altered", "swapped"],
)
def test_what_is_served_may_be_wrong(veteran: Veteran, spoilt: Callable[[bytes], bytes | None], read: int) -> None:
    _, expected = job(veteran, "site")
    archive = veteran.folder / "site" / ARCHIVE_NAME
    content = spoilt(archive.read_bytes())
    archive.unlink()
    if content is not None:
        archive.write_bytes(content)
    veteran.deploy()
    veteran.now = NOW
    asked, pages = job(veteran, "second")
    assert manifests(asked) == read
    assert pages == expected


def test_the_cache_may_serve_yesterdays(veteran: Veteran) -> None:
    job(veteran, "site")
    veteran.deploy()
    veteran.now = NOW
    job(veteran, "warm")  # from now on the cache has the archive of the first run
    for number, minutes in enumerate((1, 8)):
        veteran.now = NOW + timedelta(minutes=minutes)
        (tag,) = add_past(veteran.github, REPOSITORY, 1, until=NOW + timedelta(days=number))
        asked, pages = job(veteran, "next")
        assert any(tag in name for name in pages)
        assert manifests(asked) == 1
        veteran.github.deploy_pages(REPOSITORY, veteran.folder / "next")
    assert pages == job(veteran, "fresh", "--afresh")[1]
