"""What every forge must do: a test class that each adapter's own test module inherits.

A subclass gives the fixture ``setting``: a :class:`Setting` around a release repository with ``main`` and one commit.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.documents.trailers import format_message, parse_trailers
from mlir_release.ground.errors import ForgeError
from mlir_release.ground.llvm.pin import PIN_FILE
from mlir_release.release.forge.base import BranchMoved, Forge, Release, Taken
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TAG = "snapshot-20261120.01"


@dataclass(frozen=True)
class Setting:
    """A forge under test, and how others see it."""

    forge: Forge
    again: Callable[[], Forge]  #: another client of the same forge
    stranger: Callable[[str], bytes | None]  #: what someone without rights gets from a URL
    message: Callable[[str], str]  #: of a commit, as git records it


class ForgeConformance:
    """Inherit it, and give the fixture ``setting``."""

    # -- helpers ------------------------------------------------------------------------------------------------

    def draft(self, setting: Setting, tag: str = TAG) -> Release:
        forge = setting.forge
        if tag not in [known.name for known in forge.tags()]:
            forge.create_tag(tag, self.head(setting), "A tag\n")
        return forge.create_draft(tag, title=f"Release {tag}", body="Some *text*.\n", prerelease=False)

    def head(self, setting: Setting, branch: str = "main") -> str:
        commit = setting.forge.head(branch)
        assert commit is not None
        return commit

    def current(self, setting: Setting, release: Release) -> Release:
        return next(other for other in setting.again().releases() if other.id == release.id)

    @pytest.fixture
    def wheel(self, tmp_path: Path) -> Path:
        path = tmp_path / "mlir-20261120.1-cp312-cp312-manylinux_2_28_x86_64.whl"
        path.write_bytes(b"not really a wheel" * 1000)
        return path

    # -- clock and identity -------------------------------------------------------------------------------------

    def test_clock_is_utc_in_whole_seconds(self, setting: Setting) -> None:
        now = setting.forge.now()
        assert now.tzinfo is not None
        assert now.utcoffset() == UTC.utcoffset(None)
        assert now.microsecond == 0

    def test_says_who_and_where(self, setting: Setting) -> None:
        assert setting.forge.whoami().strip()
        assert setting.forge.description.strip()

    # -- branches and commits -----------------------------------------------------------------------------------

    def test_commit_sets_files_and_keeps_the_rest(self, setting: Setting) -> None:
        forge = setting.forge
        first = self.head(setting)
        one = forge.commit("main", expected=first, files={"a": b"1\n", "deep/er/b": b"\x00\xff"}, message="One\n")
        two = forge.commit("main", expected=one, files={"a": b"2\n"}, message="Two\n\nKey: value\n")
        assert self.head(setting) == two
        assert forge.read("a", commit=one) == b"1\n"
        assert forge.read("a", commit=two) == b"2\n"
        assert forge.read("deep/er/b", commit=two) == b"\x00\xff"
        assert forge.read("absent", commit=two) is None
        three = forge.commit("main", expected=two, files={"deep/z": b"1", "deep/c": b"2"}, message="Three\n")
        assert forge.files("deep", commit=three) == ["deep/c", "deep/z"]  # neither a folder nor what is below one
        assert [list(forge.files(name, commit=three)) for name in ("a", "absent")] == [[], []]
        assert parse_trailers(setting.message(two)) == {"Key": "value"}

    def test_one_of_many_commits_on_the_same_head_wins(self, setting: Setting) -> None:
        first = self.head(setting)
        made = race(8, lambda n: setting.again().commit("main", expected=first, files={"a": b"%d" % n}, message="m\n"))
        assert sorted(isinstance(result, BranchMoved) for result in made) == [False] + [True] * 7
        assert self.head(setting) in made

    def test_a_branch_begins_with_a_commit_and_takes_files_from_another(self, setting: Setting) -> None:
        forge, branch = setting.forge, "release/22.1.8"
        old = forge.commit("main", expected=self.head(setting), files={"a": b"old", "x": b"x"}, message="Old\n")
        assert forge.head(branch) is None
        one = forge.commit(branch, expected=None, base=old, files={PIN_FILE: b"1"}, message="One\n")
        new = forge.commit("main", expected=old, files={"a": b"new"}, message="New\n")
        two = forge.commit(branch, expected=one, base=new, files={PIN_FILE: b"2"}, message="Two\n")
        again = forge.commit(branch, expected=two, base=two, files={"a": b"2"}, message="Three\n")
        assert (setting.again().head(branch), self.head(setting)) == (again, new)
        found = [forge.pin_facts(commit) for commit in (one, two, again)]
        assert [facts.parents for facts in found if facts] == [(old,), (one, new), (two,)]
        assert [facts.changed for facts in found if facts] == [(PIN_FILE,), (PIN_FILE,), ("a",)]
        assert forge.read("a", commit=two) == b"new"
        for expected in (None, one):
            with pytest.raises(BranchMoved):
                forge.commit(branch, expected=expected, base=new, files={PIN_FILE: b"3"}, message="Late\n")
        assert forge.head(branch) == again

    def test_a_commit_keeps_a_folder_of_the_branch_that_takes_its_other_files_from_another(
        self, setting: Setting
    ) -> None:
        forge = setting.forge
        base = forge.commit("main", expected=self.head(setting), files={"x": b"1"}, message="Base\n")
        files = {"kept/a": b"a1", "kept/b": b"b1", "gone": b"1"}
        one = forge.commit("aside", expected=None, base=base, files=files, message="One\n", keep="kept")
        files = {"kept/b": b"b2", "kept/c": b"c2"}
        two = forge.commit("aside", expected=one, base=base, files=files, message="Two\n", keep="kept")
        three = forge.commit("aside", expected=two, base=base, files={"new": b"3"}, message="Three\n", keep="kept")
        found = [forge.read(path, commit=three) for path in ("kept/a", "kept/b", "kept/c", "x", "new", "gone")]
        assert found == [b"a1", b"b2", b"c2", b"1", b"3", None]
        four = forge.commit("aside", expected=three, base=base, files={"kept": b"a file"}, message="Four\n")
        five = forge.commit("aside", expected=four, base=base, files={"new": b"5"}, message="Five\n", keep="kept")
        assert (forge.read("kept", commit=five), forge.read("new", commit=five)) == (None, b"5")

    def test_one_of_many_begins_a_branch(self, setting: Setting) -> None:
        base = self.head(setting)

        def begin(number: int) -> str:
            files = {PIN_FILE: b"%d" % number}
            return setting.again().commit("snapshots", expected=None, base=base, files=files, message="m\n")

        made = race(8, begin)
        assert sorted(isinstance(result, BranchMoved) for result in made) == [False] + [True] * 7
        assert self.head(setting, "snapshots") in made

    def test_what_a_commit_changes_is_told(self, setting: Setting) -> None:
        forge = setting.forge
        first = self.head(setting)
        base = forge.commit("main", expected=first, files={PIN_FILE: b"1\n", "a/b/c": b"1"}, message="Base\n")
        pin = forge.commit("topic", expected=None, base=base, files={PIN_FILE: b"2\n"}, message="Pin\n")
        more = forge.commit("topic", expected=pin, files={"a/b/c": b"2", "new": b""}, message="More\n")
        facts = forge.pin_facts(pin)
        assert facts is not None
        assert (facts.commit, facts.parents, facts.base, facts.branch) == (pin, (base,), base, "main")
        assert (facts.base_on_branch, facts.changed, facts.pin) == (True, (PIN_FILE,), b"2\n")
        assert facts.entry is not None
        assert (facts.entry.name, facts.entry.mode, facts.entry.kind) == (PIN_FILE, "100644", "blob")
        facts = forge.pin_facts(more)
        assert facts is not None
        assert (facts.base, facts.base_on_branch, facts.pin) == (pin, False, b"2\n")
        assert [name.partition("/")[0] for name in facts.changed] == ["a", "new"]
        forge.commit("main", expected=base, files={"later": b""}, message="Later\n")
        again = setting.again().pin_facts(pin)
        assert again is not None
        assert again.base_on_branch
        assert forge.pin_facts("f" * 40) is None
        root = forge.pin_facts(first)
        assert root is not None
        assert (root.parents, root.base, root.base_on_branch) == ((), "", False)

    # -- tags ---------------------------------------------------------------------------------------------------

    def test_tags_carry_their_messages_and_say_when_they_were_made(self, setting: Setting) -> None:
        forge, before = setting.forge, setting.forge.now()
        message = format_message("A snapshot", "Text – with Ünicode.", {"LLVM-Revision": "a" * 40, "Request-Id": "7"})
        made = forge.create_tag(TAG, self.head(setting), message)
        forge.create_tag(f"abandoned/{TAG}", self.head(setting), "x\n")
        tags = setting.again().tags()
        assert [tag.name for tag in tags] == [f"abandoned/{TAG}", TAG]
        assert (tags[1].commit, tags[1].message.strip()) == (self.head(setting), message.strip())
        assert parse_trailers(tags[1].message) == {"LLVM-Revision": "a" * 40, "Request-Id": "7"}
        assert made.created_at is not None
        assert before <= made.created_at <= forge.now()
        assert tags[1].created_at == made.created_at
        assert [setting.again().tag(tag.name) for tag in tags] == list(tags)
        for name in ("abandoned", "snapshot-20261120", TAG[:-1] + "?", TAG.upper(), f"heads/{TAG}"):
            assert forge.tag(name) is None

    def test_a_taken_tag_stays(self, setting: Setting) -> None:
        forge = setting.forge
        first = self.head(setting)
        second = forge.commit("main", expected=first, files={"a": b"1"}, message="One\n")
        forge.create_tag(TAG, first, "first\n")
        for commit in (first, second):
            with pytest.raises(Taken):
                forge.create_tag(TAG, commit, "second\n")
        assert [(tag.commit, tag.message.strip()) for tag in forge.tags()] == [(first, "first")]

    def test_one_of_many_creators_of_a_tag_wins(self, setting: Setting) -> None:
        commit = self.head(setting)
        made = race(8, lambda n: setting.again().create_tag(TAG, commit, f"by {n}\n"))
        assert sum(isinstance(result, Taken) for result in made) == 7
        assert len(setting.forge.tags()) == 1

    # -- drafts -------------------------------------------------------------------------------------------------

    def test_a_draft_is_found_by_listing_and_no_stranger_sees_it(self, setting: Setting, wheel: Path) -> None:
        draft = self.draft(setting)
        asset = setting.forge.upload(draft, wheel.name, wheel)
        (listed,) = setting.again().releases()
        assert (listed.id, listed.tag, listed.draft, listed.published_at) == (draft.id, TAG, True, None)
        assert (listed.title, listed.body.strip(), listed.prerelease) == (f"Release {TAG}", "Some *text*.", False)
        assert setting.stranger(asset.url) is None
        assert setting.stranger(setting.forge.page_url(TAG)) is None

    def test_a_tag_can_have_several_drafts_in_the_order_of_their_creation(self, setting: Setting, wheel: Path) -> None:
        made = [self.draft(setting) for _ in range(3)]
        assert [release.id for release in setting.forge.releases()] == [release.id for release in made]
        setting.forge.upload(made[1], wheel.name, wheel)
        setting.forge.delete_draft(made[0])
        setting.forge.delete_draft(made[0])
        assert [(release.id, len(release.assets)) for release in setting.again().releases()] == [
            (made[1].id, 1),
            (made[2].id, 0),
        ]
        assert self.draft(setting).id not in [release.id for release in made]

    def test_a_draft_can_be_edited(self, setting: Setting, wheel: Path) -> None:
        draft = self.draft(setting)
        setting.forge.upload(draft, wheel.name, wheel)
        edited = setting.forge.edit_release(draft, title="Other", body="Else\n")
        assert (edited.title, edited.body.strip()) == ("Other", "Else")
        listed = self.current(setting, draft)
        assert (listed.title, listed.body.strip(), len(listed.assets)) == ("Other", "Else", 1)

    def test_a_draft_needs_its_tag(self, setting: Setting) -> None:
        with pytest.raises(ForgeError):
            setting.forge.create_draft("snapshot-20261120.77", title="t", body="b", prerelease=False)
        assert not setting.forge.releases()

    # -- assets -------------------------------------------------------------------------------------------------

    def test_an_asset_comes_back_as_it_was(self, setting: Setting, wheel: Path, tmp_path: Path) -> None:
        draft = self.draft(setting)
        asset = setting.forge.upload(draft, wheel.name, wheel)
        assert (asset.name, asset.size, asset.complete) == (wheel.name, wheel.stat().st_size, True)
        assert asset.sha256 == hashlib.sha256(wheel.read_bytes()).hexdigest()
        listed = self.current(setting, draft)
        assert listed.assets == (asset,)
        target = tmp_path / "out" / "fetched"
        target.parent.mkdir()
        target.write_bytes(b"old")
        setting.again().download(listed, asset, target)
        assert target.read_bytes() == wheel.read_bytes()
        assert list(target.parent.iterdir()) == [target]

    def test_an_empty_asset(self, setting: Setting, tmp_path: Path) -> None:
        (tmp_path / "empty.json").touch()
        asset = setting.forge.upload(self.draft(setting), "empty.json", tmp_path / "empty.json")
        assert (asset.size, asset.sha256) == (0, hashlib.sha256(b"").hexdigest())

    def test_an_asset_with_a_taken_name_is_refused(self, setting: Setting, wheel: Path, tmp_path: Path) -> None:
        draft = self.draft(setting)
        asset = setting.forge.upload(draft, wheel.name, wheel)
        other = tmp_path / "other"
        other.write_bytes(b"other bytes")
        for source in (wheel, other):
            with pytest.raises(Taken):
                setting.forge.upload(draft, wheel.name, source)
        listed = self.current(setting, draft)
        assert listed.assets == (asset,)

    def test_one_of_many_uploads_of_a_name_wins(self, setting: Setting, tmp_path: Path) -> None:
        draft = self.draft(setting)
        sources = [tmp_path / f"source{n}" for n in range(8)]
        for number, source in enumerate(sources):
            source.write_bytes(b"%d" % number * 300_000)
        made = race(8, lambda n: setting.again().upload(draft, "a.whl", sources[n]))
        (winner,) = [number for number, result in enumerate(made) if not isinstance(result, Taken)]
        listed = self.current(setting, draft)
        assert [asset.sha256 for asset in listed.assets] == [hashlib.sha256(sources[winner].read_bytes()).hexdigest()]

    def test_uploads_of_different_names_are_all_kept(self, setting: Setting, wheel: Path) -> None:
        draft = self.draft(setting)
        race(8, lambda n: setting.again().upload(draft, f"{n}.whl", wheel))
        listed = self.current(setting, draft)
        assert [asset.name for asset in listed.assets] == [f"{n}.whl" for n in range(8)]

    def test_a_deleted_asset_makes_room(self, setting: Setting, wheel: Path, tmp_path: Path) -> None:
        draft = self.draft(setting)
        asset = setting.forge.upload(draft, wheel.name, wheel)
        setting.forge.delete_asset(draft, asset)
        setting.forge.delete_asset(draft, asset)
        listed = self.current(setting, draft)
        assert listed.assets == ()
        other = tmp_path / "other"
        other.write_bytes(b"other bytes")
        assert setting.forge.upload(draft, wheel.name, other).sha256 == hashlib.sha256(b"other bytes").hexdigest()

    def test_an_upload_to_a_deleted_draft_fails(self, setting: Setting, wheel: Path) -> None:
        draft = self.draft(setting)
        setting.forge.delete_draft(draft)
        with pytest.raises(ForgeError):
            setting.forge.upload(draft, wheel.name, wheel)
        assert not setting.forge.releases()

    # -- publication --------------------------------------------------------------------------------------------

    def test_publication_shows_everything_to_strangers(self, setting: Setting, wheel: Path) -> None:
        forge = setting.forge
        draft = self.draft(setting)
        asset = forge.upload(draft, "mlir-1+x.whl", wheel)
        forge.edit_release(
            draft, title="T", body=f"[a wheel]({asset.url}#sha256={asset.sha256})\n\n<script>no</script>\n"
        )
        published = forge.publish(draft)
        assert not published.draft
        assert published.published_at is not None
        assert published.assets == (asset,)
        assert setting.again().publish(draft) == published
        assert setting.again().releases() == [published]
        assert setting.stranger(asset.url) == wheel.read_bytes()
        folder = forge.published_folder(TAG)
        assert folder is None or (folder / asset.name).read_bytes() == wheel.read_bytes()
        assert forge.published_folder("snapshot-20261120.77") is None
        page = setting.stranger(forge.page_url(TAG))
        assert page is not None
        assert asset.sha256.encode() in page
        assert b"<script>" not in page

    def test_what_is_published_never_changes(self, setting: Setting, wheel: Path, tmp_path: Path) -> None:
        forge = setting.forge
        draft = self.draft(setting)
        asset = forge.upload(draft, wheel.name, wheel)
        published = forge.publish(draft)
        for release in (draft, published):
            with pytest.raises(ForgeError):
                forge.upload(release, "late.whl", wheel)
            with pytest.raises(ForgeError):
                forge.delete_asset(release, asset)
            with pytest.raises(ForgeError):
                forge.edit_release(release, title="x", body="y")
            with pytest.raises(ForgeError):
                forge.delete_draft(release)
        assert setting.again().releases() == [published]
        forge.download(draft, asset, tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == wheel.read_bytes()

    def test_a_tag_is_published_once(self, setting: Setting, wheel: Path) -> None:
        forge = setting.forge
        first, second = self.draft(setting), self.draft(setting)
        forge.upload(second, wheel.name, wheel)
        forge.publish(first)
        with pytest.raises((Taken, ForgeError)):
            forge.publish(second)
        assert [release.draft for release in forge.releases()] == [False, True]

    def test_many_publications_are_one(self, setting: Setting, wheel: Path) -> None:
        draft = self.draft(setting)
        setting.forge.upload(draft, wheel.name, wheel)
        made = race(8, lambda n: setting.again().publish(draft))
        assert len({repr(result) for result in made}) == 1
        assert setting.again().releases() == [made[0]]

    # -- lookups --------------------------------------------------------------------------------------------------

    def test_a_release_is_refreshed(self, setting: Setting, wheel: Path) -> None:
        forge = setting.forge
        draft, other = self.draft(setting), self.draft(setting)
        asset = setting.again().upload(draft, wheel.name, wheel)
        now = forge.refresh(draft)
        assert now is not None
        assert (now.id, now.draft, now.assets) == (draft.id, True, (asset,))
        assert [forge.refresh(release) for release in forge.releases()] == list(forge.releases())
        published = setting.again().publish(draft)
        assert forge.refresh(draft) == published
        setting.again().delete_draft(other)
        assert forge.refresh(other) is None

    def test_published_releases_are_looked_up(self, setting: Setting) -> None:
        forge = setting.forge
        tags = [TAG, "snapshot-20261120.02", "llvm-22.1.8.01"]
        drafts = [self.draft(setting, tag) for tag in tags]
        assert [forge.published(tag) for tag in tags] == [None] * 3
        assert not list(forge.published_newest_first())
        published = [forge.publish(draft) for draft in drafts[:2]]
        assert [setting.again().published(tag) for tag in tags] == [*published, None]
        assert forge.published("snapshot-2026112") is None
        assert {release.tag for release in setting.again().published_newest_first()} == set(tags[:2])

    def test_drafts_are_found_by_their_tag(self, setting: Setting) -> None:
        other = "snapshot-20261120.02"
        first, _, second = (self.draft(setting, tag) for tag in (TAG, other, TAG))
        found = setting.again().drafts(TAG)
        assert [release.id for release in found] == [first.id, second.id]
        assert found == [setting.forge.refresh(release) for release in (first, second)]
        setting.forge.publish(first)
        assert [release.id for release in setting.again().drafts(TAG)] == [second.id]
        setting.forge.delete_draft(second)
        assert not setting.again().drafts(TAG)
        assert not setting.forge.drafts("snapshot-20261120.77")

    def test_the_newest_releases_are_listed_first(self, setting: Setting) -> None:
        tags = [f"snapshot-20261120.{number:02d}" for number in range(1, 5)]
        made = [self.draft(setting, tag) for tag in tags]
        setting.forge.publish(made[1])
        rows = setting.again().recent(3)
        assert [(row.tag, row.draft) for row in rows] == [(tags[3], True), (tags[2], True), (tags[1], False)]
        assert [(row.id, row.title, row.prerelease) for row in rows[:1]] == [(made[3].id, f"Release {tags[3]}", False)]
        assert rows[2].published_at is not None
        assert [row.tag for row in setting.forge.recent(None)] == tags[::-1]
        assert not setting.forge.recent(0)

    # -- workflow runs ------------------------------------------------------------------------------------------

    def test_a_dispatched_run_is_listed(self, setting: Setting) -> None:
        forge = setting.forge
        forge.create_tag(TAG, self.head(setting), "x\n")
        assert not forge.runs("release.yml", ref=TAG)
        started = forge.dispatch("release.yml", ref=TAG, inputs={"tag": TAG})
        (run,) = setting.again().runs("release.yml", ref=TAG)
        assert started is not None
        assert (started.id, started.workflow, started.ref, started.url) == (run.id, run.workflow, run.ref, run.url)
        assert (run.workflow, run.ref, run.commit) == ("release.yml", TAG, self.head(setting))
        assert run.status in ("queued", "in_progress", "completed")
        assert not forge.runs("other.yml", ref=TAG)
        assert not forge.runs("release.yml", ref="main")

    def test_a_run_needs_its_ref(self, setting: Setting) -> None:
        with pytest.raises(ForgeError):
            setting.forge.dispatch("release.yml", ref="snapshot-20261120.88", inputs={})

    # -- services -----------------------------------------------------------------------------------------------

    def test_an_issue_lives_until_it_is_closed_and_is_found_afterwards(self, setting: Setting) -> None:
        tracker, again = setting.forge.services.tracker, setting.again().services.tracker
        assert list(tracker.open_issues()) == []
        assert tracker.find("snapshot/a") is None
        first, second = tracker.open("snapshot/a", "a fails", "why"), tracker.open("snapshot/b", "b fails", "*why*")
        assert [(issue.number, issue.key) for issue in again.open_issues()] == [
            (first.number, "snapshot/a"), (second.number, "snapshot/b")
        ]  # fmt: skip
        assert again.update(first, "a still fails", "for long") == again.open_issues()[0]
        for _ in range(2):
            tracker.comment(first, "one", "A remark.")
        (found, _) = tracker.open_issues()
        assert (found.title, found.body) == ("a still fails", "for long")
        tracker.close(found, "Works again.")
        assert [issue.key for issue in again.open_issues()] == ["snapshot/b"]
        closed = again.find("snapshot/a")
        assert closed is not None
        assert closed.body == "Works again.\n\nfor long"
        assert tracker.update(closed, "a fails", "why", reopen=True).key == "snapshot/a"
        assert [issue.number for issue in again.open_issues()] == [first.number, second.number]

    def test_runs_are_listed_by_their_time_and_an_unknown_one_has_no_jobs(self, setting: Setting) -> None:
        forge, runs = setting.forge, setting.again().services.runs
        self.draft(setting)
        started = forge.now()
        assert list(runs.since(started + timedelta(hours=1))) == []
        forge.dispatch("release.yml", ref=TAG, inputs={})
        (run,) = runs.since(started - timedelta(hours=1))
        assert (run.workflow, run.ref) == ("release.yml", TAG)
        assert list(runs.jobs(run)) == []
        refused(lambda: runs.jobs(replace(run, id="987654321")), "not-on-forge")

    def test_what_a_place_has_not_is_empty(self, setting: Setting) -> None:
        services = setting.forge.services
        assert services.file_of("nobody/nothing", "README", ref="main") is None
        assert list(services.tidy_caches("main")) == []
        assert bool(services.url) == bool(services.address) == bool(services.location)


def race(count: int, action: Callable[[int], object]) -> list[object]:
    """Run ``action(0)`` … ``action(count - 1)`` at once; their results, or the conflict that each ended with."""
    results: list[object] = [None] * count
    start = threading.Barrier(count)

    def one(number: int) -> None:
        start.wait()
        try:
            results[number] = action(number)
        except (Taken, BranchMoved) as error:
            results[number] = error
        except Exception as error:  # an unexpected one is the result that makes the test fail
            results[number] = error
            raise

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
