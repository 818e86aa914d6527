"""``index.json``: small, bounded, and the same for the same releases."""

from __future__ import annotations

import gzip
import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.documents.decode import MalformedError
from mlir_release.ground.documents.digests import sha256_of
from mlir_release.release.model.release_index import HEAD_MONTHS, INDEX_NAME, make_index, parse_index, parse_month
from mlir_release.release.model.yanks import Yank
from tests.paper_forge import START, make_manifest

if TYPE_CHECKING:
    from mlir_release.release.model.manifest import Manifest


def snapshots(count: int) -> list[Manifest]:
    """``count`` snapshots, two a day, each with four dozen wheels."""
    days = [START + timedelta(hours=12 * number) for number in range(count)]
    return [
        make_manifest(f"snapshot-{day:%Y%m%d}.{number % 2 + 1:02d}", created=day) for number, day in enumerate(days)
    ]


def test_a_release_has_its_commit_its_wheels_and_its_tests() -> None:
    manifest = make_manifest("snapshot-20261120.02", revision_date="2026-11-20T01:02:03Z")
    index = parse_index(make_index([manifest], repository="local")[INDEX_NAME])
    (row,) = index.releases
    assert (row.tag, row.revision, row.dated) == ("snapshot-20261120.02", manifest.revision, "2026-11-20T01:02:03Z")
    assert row.tests["pass"] == 96 * len(manifest.wheels)
    names = {f"{wheel.distribution}-{row.version}-{wheel.tags}.whl" for wheel in index.shapes[row.wheels]}
    assert names == {wheel.filename for wheel in manifest.wheels}


def test_the_order_of_the_releases_does_not_matter() -> None:
    found = snapshots(400)
    assert make_index(found, repository="local") == make_index(found[::-1], repository="local")


def test_older_months_have_files_of_their_own_that_later_releases_leave_alone() -> None:
    found = snapshots(400)
    before = make_index(found[:-1], repository="local")
    after = make_index(found, repository="local", yanks=[Yank(tag=found[0].tag, reason="broken")])
    assert {path for path in after if after[path] != before[path]} == {INDEX_NAME}
    head = parse_index(after[INDEX_NAME])
    assert len({row.created_at[:7] for row in head.releases}) == HEAD_MONTHS
    for month in head.months:
        content = after[f"index/{month.month}.json"]
        assert sha256_of(content) == month.sha256
        assert tuple(row.tag for row in parse_month(content).releases) == month.tags


def test_a_release_takes_about_two_hundred_bytes() -> None:
    found = snapshots(2000)
    files = make_index(found, repository="local")
    assert sum(len(gzip.compress(content)) for content in files.values()) < 200 * len(found)
    assert len(gzip.compress(files[INDEX_NAME])) < 40_000


def test_a_row_that_names_wheels_which_are_not_there_is_refused() -> None:
    data = json.loads(make_index(snapshots(1), repository="local")[INDEX_NAME])
    data["releases"][0]["wheels"] = 1
    with pytest.raises(MalformedError, match=r"releases\[0\]\.wheels is 1; there are 1 shapes"):
        parse_index(json.dumps(data).encode())
