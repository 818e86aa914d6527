"""All releases of a forge, as programs choose among them; and the next index, which is made of the one before."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.documents.times import format_time
from mlir_release.release.judging.signed import Manifests, SignedBy
from mlir_release.release.latest.catalogue import read_index
from mlir_release.release.latest.latest import POINTER_FILE
from mlir_release.release.latest.latest_branch import copy_pointer, renew_index
from mlir_release.release.model.release_index import (
    INDEX_NAME,
    QUALITY_NAME,
    Quality,
    ReleaseIndex,
    ReleaseQuality,
    Revert,
    make_index,
    parse_index,
    to_bytes,
)
from mlir_release.release.model.yanks import Yank
from mlir_release.release.provenance.pointer import Pointer
from mlir_release.release.transaction.ledger import Ledger
from tests.paper_forge import START, PaperForge, make_manifest, many
from tests.refusals import refused
from tests.sigstore.instance import COMMIT, REPOSITORY, MadeSigstore, branch_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from mlir_release.release.model.manifest import Manifest

URL = f"https://github.com/{REPOSITORY}"
SMALL: dict[str, Any] = {"platforms": ("manylinux_2_28_x86_64",), "pythons": ("cp312",)}
OLD = [manifest for manifest in many(300, **SMALL) if manifest.created < START - timedelta(days=5)]
TAG = OLD[-1].tag


@pytest.fixture(scope="module")
def made() -> MadeSigstore:
    return MadeSigstore()


class Counting(PaperForge):
    """Counts what is read: each is a request on GitHub."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def head(self, branch: str) -> str | None:
        self.asked.append(branch)
        return super().head(branch)

    def read(self, path: str, *, commit: str) -> bytes | None:
        self.asked.append(path)
        return super().read(path, commit=commit)


class Place:
    """A repository's branch ``latest`` on a forge without any release, and a reader who asks for its signature."""

    def __init__(self, made: MadeSigstore) -> None:
        self.made = made
        self.forge = Counting()
        self.reader = SignedBy(repository=URL, trust=made.trust())

    def put(self, files: Mapping[str, bytes], *, age: float = 0, **changes: Any) -> None:
        """Commit files and the pointer that names them. ``changes``: of the pointer"""
        issued = datetime.now(UTC) - timedelta(days=age)
        values: dict[str, Any] = {
            "repository": URL,
            "tag": TAG,
            "commit": COMMIT,
            "manifest": "1" * 64,
            "issued": format_time(issued),
            "expires": format_time(issued + timedelta(days=14)),
            "index": sha256_of(files[INDEX_NAME]),
            "quality": sha256_of(files[QUALITY_NAME]) if QUALITY_NAME in files else "",
        }
        bundle = self.made.bundle(Pointer(**(values | changes)).statement(), branch_claims())
        head = self.forge.branches.get("latest")
        base = self.forge.branches["main"]
        self.forge.commit("latest", expected=head, files={**files, POINTER_FILE: bundle}, message="x\n", base=base)

    def spoil(self, path: str, content: bytes | None) -> None:
        """Change a file on the branch, as who may push there can, or remove it."""
        files = dict(self.forge.commits[int(self.forge.branches["latest"], 16) - 1][0])
        del files[path]
        self.forge.commits.append((files | ({path: content} if content is not None else {}), "x\n"))
        self.forge.branches["latest"] = f"{len(self.forge.commits):040x}"


@pytest.fixture
def place(made: MadeSigstore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    return Place(made)


def index_of(manifests: list[Manifest], **options: Any) -> dict[str, bytes]:
    return make_index(manifests, **{"repository": URL, **options})


# -- computed ----------------------------------------------------------------------------------------------------------


def test_a_forge_without_an_index_has_one_computed_from_its_manifests() -> None:
    forge = PaperForge()
    for number in range(1, 4):
        forge.add(make_manifest(f"snapshot-20261120.{number:02d}", created=START + timedelta(hours=number)))
    forge.set_yanks(b'[[yank]]\ntag = "snapshot-20261120.02"\nreason = "broken"\n')
    catalogue = read_index(forge)
    assert [each.tag for each in catalogue.of_kind("snapshot")] == [f"snapshot-20261120.{n:02d}" for n in (1, 2, 3)]
    second = catalogue.find("snapshot-20261120.02")
    assert second is not None
    assert second.yanked == "broken"
    assert {wheel.distribution for wheel in second.wheels} == {"mlir"}
    assert catalogue.find("snapshot-20261120.04") is None
    assert catalogue.index.channels == {"latest": "snapshot-20261120.03"}


# -- signed ------------------------------------------------------------------------------------------------------------


def test_a_signed_index_is_read_with_few_requests_and_its_months_once(place: Place) -> None:
    place.put(index_of(OLD))
    catalogue = read_index(place.forge, place.reader)
    assert place.forge.asked == ["latest", POINTER_FILE, INDEX_NAME]
    oldest = OLD[0].tag
    assert catalogue.find("snapshot-19990101.01") is None
    assert len(place.forge.asked) == 3
    found = catalogue.find(oldest)
    assert found is not None
    assert found.row.revision == OLD[0].revision
    (month,) = place.forge.asked[3:]
    assert month == f"index/{OLD[0].created_at[:7]}.json"
    assert {each.tag for each in catalogue.entries} == {manifest.tag for manifest in OLD}
    assert len(place.forge.asked) == 3 + len(catalogue.index.months) == 6
    # Another process has them in its cache.
    place.forge.asked.clear()
    again = read_index(place.forge, place.reader)
    assert again.entries == catalogue.entries
    assert place.forge.asked == ["latest", POINTER_FILE, INDEX_NAME]


def test_what_was_learnt_of_the_releases_comes_with_the_index(place: Place) -> None:
    revert = Revert(commit="a" * 40, subject="[mlir] x", by="b" * 40, date="2026-11-21T00:00:00Z")
    quality = Quality(repository=URL, releases={TAG: ReleaseQuality(reverted=(revert,))})
    place.put({**index_of(OLD), QUALITY_NAME: to_bytes(quality)})
    assert read_index(place.forge, place.reader).quality == quality


def changed(**changes: Any) -> dict[str, bytes]:
    """An index whose head says something else."""
    files = index_of(OLD)
    return {**files, INDEX_NAME: json.dumps(json.loads(files[INDEX_NAME]) | changes).encode()}


def twice() -> dict[str, bytes]:
    rows = json.loads(index_of(OLD)[INDEX_NAME])["releases"]
    return changed(releases=[*rows, rows[0]])


@pytest.mark.parametrize(
    ("files", "id", "text"),
    [
        (lambda: index_of(OLD, repository="https://github.com/octo/other"), "tampered", "of another repository"),
        (lambda: changed(schema=2), "file-damaged", "schema is 2, and this version of mlir-release reads 1"),
        (lambda: changed(channels={"latest": "snapshot-20990101.01"}), "file-damaged", "none of the releases"),
        (lambda: changed(yanked={"snapshot-20990101.01": "x"}), "file-damaged", "none of the releases"),
        (twice, "file-damaged", "twice"),
        (lambda: {INDEX_NAME: b"<html>Not Found</html>"}, "file-damaged", "is not JSON"),
        (lambda: {INDEX_NAME: b"[" * 100_000}, "file-damaged", "can't be read"),
        (lambda: {INDEX_NAME: b"[" + b"1," * 2_000_000 + b"1]"}, "file-damaged", "values"),
        (lambda: {INDEX_NAME: b" " * 17_000_000}, "file-damaged", "bytes"),
        (lambda: {**index_of(OLD), QUALITY_NAME: b"{}"}, "file-damaged", "schema is missing"),
        (
            lambda: {**index_of(OLD), QUALITY_NAME: to_bytes(Quality(repository="https://github.com/octo/other"))},
            "tampered",
            "of another repository",
        ),
    ],
    ids=[
        "another repository", "later schema", "channel", "yanked", "twice", "a page", "deep", "many values", "huge",
        "quality", "another's quality",
    ],
)  # fmt: skip
def test_an_index_that_says_what_none_says_is_refused_though_it_is_signed(
    place: Place, files: Callable[[], dict[str, bytes]], id: str, text: str
) -> None:
    place.put(files())
    assert text in str(refused(lambda: read_index(place.forge, place.reader), id))


@pytest.mark.parametrize("spoilt", ["missing", "altered", "of another month"])
def test_a_month_that_the_head_does_not_name_is_refused_when_it_is_needed(place: Place, spoilt: str) -> None:
    files = index_of(OLD)
    months = parse_index(files[INDEX_NAME]).months
    path, other = (f"index/{month.month}.json" for month in months[:2])
    text = "is not the one that is signed"
    if spoilt == "of another month":  # signed, so only the repository's own mistake
        head = json.loads(files[INDEX_NAME])
        head["months"][0]["sha256"] = months[1].sha256
        files[INDEX_NAME] = json.dumps(head).encode()
        text = "has other releases than"
    place.put(files)
    place.spoil(path, None if spoilt == "missing" else files[other])
    catalogue = read_index(place.forge, place.reader)
    assert catalogue.find(TAG) is not None
    text = "is missing" if spoilt == "missing" else text
    refused(lambda: catalogue.find(months[0].tags[0]), "tampered", f"{path} {text}")
    assert catalogue.find(months[1].tags[0]) is not None


def test_an_index_older_than_one_that_was_seen_is_refused(place: Place) -> None:
    yanked = index_of(OLD, yanks=[Yank(tag=OLD[0].tag, reason="broken")])
    place.put(yanked, age=1)
    assert read_index(place.forge, place.reader).index.yanked == {OLD[0].tag: "broken"}
    place.put(index_of(OLD), age=2)
    refused(lambda: read_index(place.forge, place.reader), "latest-stale", "older than one that was seen before")
    place.put(yanked, age=2)  # another place, which is renewed at another time
    assert read_index(place.forge, place.reader).index.yanked


def test_an_index_whose_pointer_has_expired_is_refused(place: Place) -> None:
    place.put(index_of(OLD), age=15)
    refused(lambda: read_index(place.forge, place.reader), "latest-stale", "expired on")


def test_who_asks_for_no_signature_gets_what_the_place_itself_shows_with_a_warning(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """The made trust is not that of the world, so the index counts for nothing."""
    place.put(index_of(OLD))
    place.forge.add(make_manifest("snapshot-20261120.02"))
    catalogue = read_index(place.forge)
    assert [each.tag for each in catalogue.entries] == ["snapshot-20261120.02"]
    assert "warning: the signed pointer to the newest snapshot is not to be trusted" in capsys.readouterr().err
    skipped = read_index(place.forge, SignedBy(expectation="skip"))
    assert {each.tag for each in skipped.entries} == {manifest.tag for manifest in OLD}


def test_a_pointer_of_before_names_no_index_and_the_manifests_are_read(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.put(index_of(OLD), index="")
    assert read_index(place.forge, place.reader).entries == ()
    assert "as an older toolkit made it" in capsys.readouterr().err


# -- renewed: the next index is the one that all manifests would give --------------------------------------------------

#: Of a month that has a file of its own, and one of the newest months.
LATE, NEWER = OLD[40], OLD[-2]


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
        (without(NEWER), OLD, 1, 0),
        (without(LATE), OLD, 1, 1),  # published long after its tag
        (OLD, without(NEWER), 0, 0),
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
    assert to_bytes(head_of(files)) == to_bytes(replace(head_of(expected), channels={}))
    months = {path: content for path, content in files.items() if path != INDEX_NAME}
    assert months.items() <= expected.items()
    assert (len(manifests.read), len(months)) == (read, written)


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
