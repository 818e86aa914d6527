"""The next index is made of the one before, and is the one that all manifests would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from mlir_release.release.judging.signed import Manifests
from mlir_release.release.latest.catalogue import read_index
from mlir_release.release.latest.latest_branch import copy_pointer, renew_index
from mlir_release.release.model.release_index import INDEX_NAME, ReleaseIndex, make_index, parse_index, to_bytes
from mlir_release.release.model.yanks import Yank
from mlir_release.release.transaction.ledger import Ledger
from tests.paper_forge import PaperForge
from tests.release.unit.latest.test_catalogue import OLD, URL, Place, index_of
from tests.sigstore.instance import MadeSigstore

if TYPE_CHECKING:
    from pathlib import Path

    from mlir_release.release.model.manifest import Manifest

#: Of a month that has a file of its own, and one of the newest months.
LATE, RECENT = OLD[40], OLD[-2]


@pytest.fixture(scope="module")
def made() -> MadeSigstore:
    return MadeSigstore()


@pytest.fixture
def place(made: MadeSigstore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    return Place(made)


class Reading(Manifests):
    """Notes which manifests are read."""

    def __init__(self, forge: PaperForge) -> None:
        super().__init__(forge, required=False, branch="main")
        self.read: list[str] = []

    def fetch(self, tag: str, folder: Path, *, otherwise: str) -> Any:
        self.read.append(tag)
        return super().fetch(tag, folder, otherwise=otherwise)


def forge_of(manifests: list[Manifest]) -> PaperForge:
    forge = PaperForge()
    for manifest in manifests:
        forge.add(manifest)
    return forge


def head_of(files: dict[str, bytes]) -> ReleaseIndex:
    return parse_index(files[INDEX_NAME])


def without(*gone: Manifest) -> list[Manifest]:
    return [manifest for manifest in OLD if manifest not in gone]


@pytest.mark.parametrize(
    ("before", "now", "read", "written"),
    [
        (OLD[:-1], OLD, 0, 0),  # the newest was read for the pointer
        (without(RECENT), OLD, 1, 0),
        (without(LATE), OLD, 1, 1),  # published long after its tag
        (OLD, without(RECENT), 0, 0),
        (OLD, without(LATE), 0, 1),
        (OLD, OLD, 0, 0),
    ],
    ids=["the newest", "one more", "an old one", "one is deleted", "an old one is deleted", "nothing"],
)
def test_the_next_index_is_what_all_manifests_would_give(
    place: Place, before: list[Manifest], now: list[Manifest], read: int, written: int
) -> None:
    place.put(index_of(before))
    yanks = [Yank(tag=OLD[0].tag, reason="broken"), Yank(tag="snapshot-19990101.01", reason="not there")]
    forge = forge_of(now)
    manifests = Reading(forge)
    base = read_index(place.forge, place.reader)
    files = renew_index(Ledger(forge), base, manifests, OLD[-1], repository=URL, yanks=yanks)
    expected = make_index(now, repository=URL, yanks=yanks)
    assert to_bytes(head_of(files)) == to_bytes(_without_channels(head_of(expected)))
    months = {path: content for path, content in files.items() if path != INDEX_NAME}
    assert months.items() <= expected.items()
    assert (len(manifests.read), len(months)) == (read, written)


def _without_channels(index: ReleaseIndex) -> ReleaseIndex:
    return replace(index, channels={})


def test_a_month_that_someone_changed_is_made_anew_when_it_has_to_be_read(place: Place) -> None:
    place.put(index_of(without(LATE)))
    path = f"index/{LATE.created_at[:7]}.json"
    place.spoil(path, b"{}")
    forge = forge_of(OLD)
    manifests = Reading(forge)
    base = read_index(place.forge, place.reader)
    files = renew_index(Ledger(forge), base, manifests, OLD[-1], repository=URL, yanks=[])
    assert files[path] == index_of(OLD)[path]
    assert {tag[:15] for tag in manifests.read} == {LATE.tag[:15]}


def test_an_index_begins_with_the_month_that_begins(place: Place) -> None:
    """The oldest month of the head gets a file of its own; the others keep theirs."""
    month = OLD[-1].created_at[:7]
    older = [manifest for manifest in OLD if manifest.created_at[:7] < month]
    place.put(index_of(older), tag=older[-1].tag)
    base = read_index(place.forge, place.reader)
    files = renew_index(Ledger(forge_of(OLD)), base, Reading(forge_of(OLD)), OLD[-1], repository=URL, yanks=[])
    (made,) = (path for path in files if path != INDEX_NAME)
    assert made == f"index/{min(row.created_at[:7] for row in base.index.releases)}.json"


def test_a_mirror_gets_only_the_months_that_it_lacks(place: Place) -> None:
    mirror = forge_of(OLD)
    place.put(index_of(OLD[:-1]), age=1, tag=OLD[-2].tag)
    assert copy_pointer(place.forge, mirror, place.reader, dry_run=False)
    assert read_index(mirror, place.reader).entries == read_index(place.forge, place.reader).entries
    place.put(index_of(OLD))
    place.forge.asked.clear()
    assert copy_pointer(place.forge, mirror, place.reader, dry_run=False)
    assert not [path for path in place.forge.asked if path.startswith("index/")]
    assert len(read_index(mirror, place.reader).entries) == len(OLD)
    assert not copy_pointer(place.forge, mirror, place.reader, dry_run=False)


@pytest.mark.parametrize(("content", "text"), [(None, "no longer on the branch"), (b"{}", "is not the one")])
def test_a_mirror_keeps_its_index_if_a_month_can_not_be_had(
    place: Place, content: bytes | None, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place.put(index_of(OLD))
    place.spoil(f"index/{LATE.created_at[:7]}.json", content)
    mirror = forge_of(OLD)
    assert not copy_pointer(place.forge, mirror, place.reader, dry_run=False)
    assert text in capsys.readouterr().err
    assert mirror.head("latest") is None
