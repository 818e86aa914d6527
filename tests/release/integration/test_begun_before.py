"""What an older toolkit began, this one reads, finishes and shows (``begun_before/README.md``)."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.index.generate import generate
from mlir_release.release.judging.signed import Manifests, SignedBy
from mlir_release.release.judging.status import make_status
from mlir_release.release.judging.status_facts import observe_status
from mlir_release.release.latest import latest
from mlir_release.release.latest.catalogue import read_index
from mlir_release.release.latest.latest import POINTER_FILE
from mlir_release.release.latest.latest_branch import copy_pointer, renew_index
from mlir_release.release.model.matrix import Matrix
from mlir_release.release.model.release_index import INDEX_NAME, list_release, listed, parse_index
from mlir_release.release.provenance.pointer import pointer_policy, verify_pointer
from mlir_release.release.provenance.trust import load_trust
from mlir_release.release.transaction.draft import Draft
from mlir_release.release.transaction.ledger import Ledger
from mlir_release.release.transaction.publish import publish
from mlir_release.release.transaction.start import start
from mlir_release.release.transaction.sweep import sweep
from mlir_release.release.transaction.upload import upload
from tests.paper_forge import PaperForge, make_manifest
from tests.revision_factory import make_revision
from tests.targets_factory import make_row, make_targets
from tests.wheel_factory import make_report

LEFT = Path(__file__).parent / "begun_before"
#: The commits of the toolkits that made them.
MADE_BY = ["cfc7f5f", "4c725cd0"]
TAGGED, DRAFTED, PARTIAL, COMPLETE, PUBLISHED = (f"snapshot-20261120.0{number}" for number in range(1, 6))
MATRIX = Matrix.parse(make_targets(make_row(), pythons=["cp310", "cp311"]))
UNTESTED = "smoke-mlir-linux-x86_64-cp311"


@dataclass
class Left:
    """The forge, an hour after the last process died."""

    folder: Path
    now: datetime = datetime(2026, 11, 20, 9, 17, tzinfo=UTC)

    @property
    def forge(self) -> LocalForge:
        """As a new process sees it."""
        place, served = self.folder / "forge", "https://example.org/releases"
        return LocalForge(place, clock=lambda: self.now, base_url=served, identity="Ada Lovelace <ada@example.org>")

    def sweep(self) -> set[tuple[str, str, str]]:
        """Sweep; tag, action and result of each line."""
        return {(row.tag, row.action, row.result) for row in sweep(self.forge, branch="main").rows}


@pytest.fixture(params=MADE_BY)
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Left:
    with tarfile.open(LEFT / f"forge-{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return Left(tmp_path)


def test_the_status_shows_each(left: Left) -> None:
    status = make_status(observe_status(Ledger(left.forge), MATRIX))
    assert [(line.tag, line.state, line.done) for line in status.releases] == [
        (PUBLISHED, "published", 2),
        (COMPLETE, "waiting", 2),
        (PARTIAL, "waiting", 2),
        (DRAFTED, "not started", 0),
        (TAGGED, "not started", 0),
    ]


def test_a_sweep_finishes_each(left: Left) -> None:
    assert left.sweep() == {
        (TAGGED, "dispatch", "done"),
        (DRAFTED, "dispatch", "done"),
        (PARTIAL, "blocked", ""),
        (COMPLETE, "delete", "done"),
        (COMPLETE, "publish", "done"),
        (COMPLETE, "pages", "done"),
    }
    forge = left.forge
    assert {tag: len(forge.drafts(tag)) for tag in (TAGGED, DRAFTED, PARTIAL, COMPLETE)} == {
        TAGGED: 1, DRAFTED: 1, PARTIAL: 1, COMPLETE: 0
    }  # fmt: skip
    assert [len(forge.runs("release.yml", ref=tag)) for tag in (TAGGED, DRAFTED)] == [1, 1]
    assert forge.published(COMPLETE) is not None
    left.now += timedelta(hours=1)
    assert {(tag, action) for tag, action, _ in left.sweep()} == {
        (TAGGED, "wait"), (DRAFTED, "wait"), (PARTIAL, "blocked")
    }  # fmt: skip


def test_the_same_request_finishes_each(left: Left) -> None:
    for number, steps in enumerate((2, 1, 1, 2), start=1):  # a build that failed is dispatched again
        outcome = start(left.forge, make_revision(f"{number:040x}"), MATRIX, request_id=f"run-{number}")
        assert (outcome.action, outcome.tag) == ("resumed", f"snapshot-20261120.0{number}")
        assert len(outcome.steps) == steps
    outcome = start(left.forge, make_revision(f"{5:040x}"), MATRIX, request_id="run-5")
    assert (outcome.action, outcome.tag) == ("nothing-to-do", PUBLISHED)
    assert all(len(left.forge.drafts(tag)) == 1 for tag in (TAGGED, DRAFTED, PARTIAL, COMPLETE))
    assert start(left.forge, make_revision("f" * 40), MATRIX, request_id="run-6").tag == "snapshot-20261120.06"


def test_a_draft_with_some_reports_is_completed_and_published(left: Left) -> None:
    draft = Draft.load(left.forge, PARTIAL)
    card = draft.card()
    assert (card.lacking_wheels, card.lacking_tests) == ((), (UNTESTED,))
    folder = left.folder / "dist"
    make_report(folder, draft.fetch_wheel("mlir-linux-x86_64-cp311", folder), target=UNTESTED)
    upload(Draft.load(left.forge, PARTIAL), folder)
    assert not publish(Draft.load(left.forge, PARTIAL)).already
    assert publish(Draft.load(left.forge, PUBLISHED)).already


def test_the_pages_show_what_was_published(left: Left) -> None:
    """Also where the older toolkit has drawn some already: then all of its files are followed up."""
    drawn = (left.folder / "pages" / "index.json").exists()
    for name in ("pages", "afresh"):
        outcome = generate(left.forge, left.folder / name, base_url="https://example.org/pages", matrix=MATRIX)
        assert (outcome.releases, outcome.new) == (1, () if drawn and name == "pages" else (PUBLISHED,))
    pages, afresh = (files_in(left.folder / name) for name in ("pages", "afresh"))
    assert pages == afresh
    assert [row.tag for row in parse_index(pages["index.json"]).releases] == [PUBLISHED]


def test_a_signed_pointer_and_the_months_of_its_index_are_verified_read_and_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``latest-4c725cd0.tar.gz``, which that toolkit and its tests' authority made as ``begun_before/README.md`` says.

    The authority is gone: its root is in the archive, too.
    """
    with tarfile.open(LEFT / "latest-4c725cd0.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    files, url = files_in(tmp_path / "latest-4c725cd0"), "https://github.com/octo/releases"
    reader = SignedBy(repository=url, trust=load_trust(tmp_path / "latest-4c725cd0" / "trusted_root.json"))
    pointer = verify_pointer(files[POINTER_FILE], pointer_policy(url, "main"), reader.trust or load_trust())
    monkeypatch.setattr(latest, "now", lambda: pointer.issued_at + timedelta(days=1))
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    old, forge = PaperForge(), PaperForge()
    old.commit("latest", expected=None, files=files, message="x\n", base=old.head("main"))
    before = read_index(old, reader)
    tags = [each.tag for each in before.entries]
    assert [len(month.tags) for month in before.index.months] == [2, 1, 1]
    assert (len(tags), tags[0], [*before.quality.releases]) == (8, pointer.tag, [pointer.tag])
    assert pointer.channels == {"latest": tags[0], "latest-good": tags[1]}
    new = make_manifest("snapshot-20261201.01", created=datetime(2026, 12, 1, 6, tzinfo=UTC))
    for manifest in (*map(make_manifest, tags), new):
        forge.add(manifest)
    assert copy_pointer(old, forge, reader, dry_run=False)
    manifests = Manifests(forge, required=False, branch="main")
    renewed = renew_index(Ledger(forge), read_index(forge, reader), manifests, new, repository=url, yanks=())
    assert renewed.keys() == {INDEX_NAME, "index/2026-09.json"}  # the oldest month of the head
    index = parse_index(renewed[INDEX_NAME])
    assert index.months[1:] == before.index.months
    rows = [list_release(new), *listed(before.index)[:-1]]
    told = [(each.tag, each.row.revision, each.wheels) for each in rows]
    assert [(each.tag, each.row.revision, each.wheels) for each in listed(index)] == told
    assert forge.downloads == 0


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
