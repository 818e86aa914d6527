"""``release find``, on real repositories: clones, upstream's history in the cache, and a GitHub on loopback."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.git.repository import Git, open_clone
from mlir_release.ground.python.cpython import CPython
from mlir_release.ground.python.platforms import Platform
from mlir_release.release.latest.catalogue import Catalogue, read_index
from mlir_release.release.model.release_index import Quality, ReleaseQuality, Revert
from mlir_release.use.find import Filter, Found, Origin, find, parse_date
from tests.github_server import Fault, GitHubServer
from tests.refusals import refused
from tests.targets_factory import make_row, make_targets
from tests.upstream_history import UpstreamHistory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.paper_forge import PaperForge


class World:
    """Snapshots 10, 20, … of a main branch of 60 commits, and a numbered release of a branch that leaves it at 25."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.history = UpstreamHistory(root / "upstream")
        self.history.commits(60)
        picks = [self.history.commit(f"[mlir] Pick {n}", branch="release/22.x", on=25) for n in range(3)]
        self.history.write()
        self.history.git.run("tag", "llvmorg-22.1.8", self.history.ids[picks[-1]])
        self.forge: PaperForge = self.history.forge()
        for day, number in enumerate(range(10, 60, 10), 1):
            self.forge.add(self.history.manifest(f"snapshot-202610{day:02d}.01", number))
        self.forge.add(self.history.manifest("llvm-22.1.8.01", picks[-1], platforms=("win_amd64",), pythons=("cp312",)))

    def id(self, number: int) -> str:
        return self.history.ids[number]

    def find(self, asked: str, **options: object) -> Found:
        return find(Origin.of(self.forge), asked, **options)  # type: ignore[arg-type]

    def clone(self, *options: str) -> Path:
        address = self.history.folder.as_uri()
        Git(self.root).run("clone", "--quiet", *options, address, str(self.root / "clone"), remote=address)
        return self.root / "clone"

    def lose_upstream(self) -> None:
        shutil.rmtree(self.history.folder)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return World(tmp_path)


def shown(found: Found) -> list[tuple[str, str]]:
    """Tags and distances."""
    return [(match.entry.tag, match.distance) for match in found.matches]


NEAR_33 = [("snapshot-20261003.01", "3 commits before"), ("snapshot-20261004.01", "7 commits after")]


def test_the_release_at_a_commit_is_found_without_asking_upstream(world: World) -> None:
    world.lose_upstream()
    for asked in (world.id(30), world.id(30)[:9]):
        found = world.find(asked)
        assert shown(found) == [("snapshot-20261003.01", "same commit")]
        assert found.revision == world.id(30)
        assert found.need().tag == "snapshot-20261003.01"


def test_without_one_the_nearest_are_shown_with_their_distances(world: World) -> None:
    found = world.find(world.id(33))
    assert shown(found) == NEAR_33
    error = refused(found.need, "release-not-published", "was built at")
    assert "snapshot-20261003.01 is the nearest one 3 commits before" in error.why
    assert "--near" in error.remedy
    assert not found.notes


def test_near_shows_the_neighbours_of_an_exact_one(world: World) -> None:
    assert shown(world.find(world.id(30), near=True)) == [
        ("snapshot-20261002.01", "10 commits before"),
        ("snapshot-20261003.01", "same commit"),
        ("snapshot-20261004.01", "10 commits after"),
    ]


def test_at_both_ends_one_side_is_empty(world: World) -> None:
    only = Filter(kind="snapshot")
    assert shown(world.find(world.id(3), wanted=only)) == [("snapshot-20261001.01", "7 commits after")]
    assert shown(world.find(world.id(57), wanted=only)) == [("snapshot-20261005.01", "7 commits before")]


def test_a_release_branch_has_diverged_and_both_distances_are_told(world: World) -> None:
    found = world.find("llvmorg-22.1.8", near=True)
    assert shown(found) == [("snapshot-20261002.01", "8 commits before"), ("llvm-22.1.8.01", "same commit")]
    assert shown(world.find(world.id(57))) == [
        ("snapshot-20261005.01", "7 commits before"),
        ("llvm-22.1.8.01", "diverged: lacks 32, has 3 others"),
    ]


def test_the_first_release_with_a_commit_may_be_of_a_release_branch(world: World) -> None:
    assert world.find(f"after:{world.id(31)}").need().tag == "snapshot-20261004.01"
    assert world.find(f"after:{world.id(40)}").need().tag == "snapshot-20261004.01"
    assert world.find(f"after:{world.id(23)}", wanted=Filter(kind="numbered")).need().tag == "llvm-22.1.8.01"
    found = world.find(f"after:{world.id(30)}", wanted=Filter(kind="numbered"))
    refused(found.need, "release-not-published", "in its history")


def test_a_date_gives_the_newest_release_whose_commit_is_not_later(world: World) -> None:
    at = world.history.when(30)
    assert world.find(f"before:{at.isoformat()}").need().tag == "snapshot-20261003.01"
    assert world.find("before:2026-10-01T04:59").need().tag == "snapshot-20261002.01"
    assert world.find("before:2027-01-01", wanted=Filter(kind="snapshot")).need().tag == "snapshot-20261005.01"
    assert world.find("").need().tag == "snapshot-20261005.01"  # the newest one, as everywhere
    refused(world.find("before:2026-10-01").need, "release-not-published", "from 2026-10-01 or earlier")


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-13-01", "2026-11-31", "--near", "20\x1b[31m", "99999-01-01", "0001-01-01T00:00+02:00"],
)
def test_a_text_that_is_no_date_is_refused(text: str) -> None:
    refused(lambda: parse_date(text), "option-invalid", "not a date")


def test_a_time_may_name_its_zone() -> None:
    assert parse_date("2026-11-20T01:00+02:00").isoformat() == "2026-11-19T23:00:00+00:00"
    assert parse_date("2026-11-20T01:00Z") == parse_date("2026-11-20T01:00")


def test_names_of_upstream_are_resolved(world: World) -> None:
    assert world.find("head").revision == world.id(59)
    assert world.find("main").revision == world.id(59)
    assert world.find("release/22.x").need().tag == "llvm-22.1.8.01"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("0" * 39 + "1", "the upstream has no commit"),
        ("abcdef012", "names no commit of the last half year"),
        ("after:abcdef012345", "names no commit of the last half year"),
        ("no-such-name", "no branch or tag"),
        ("--upload-pack=touch evil", "no branch or tag"),
        ("after:-x", "no branch or tag"),
        ("main~2", "no branch or tag"),
        ("\x1b[2J", "no branch or tag"),
    ],
)
def test_what_names_no_commit_is_refused(world: World, asked: str, said: str) -> None:
    refused(lambda: world.find(asked), "revision-unknown", said)
    assert not (world.root / "evil").exists()


@pytest.mark.parametrize("kind", ["main^{tree}", "main:mlir/lib/IR.cpp"])
def test_a_folder_and_a_file_are_no_commits(world: World, kind: str) -> None:
    sha = world.history.git.text("rev-parse", kind)
    refused(lambda: world.find(sha), "revision-unknown")
    refused(lambda: world.find(sha, clone=world.clone()), "revision-unknown")


def test_a_clone_is_enough(world: World) -> None:
    clone = world.clone()
    world.lose_upstream()
    assert shown(world.find(world.id(33), clone=clone)) == NEAR_33
    assert shown(world.find(world.id(33)[:10], clone=clone)) == NEAR_33
    assert world.find("llvmorg-22.1.8", clone=clone).need().tag == "llvm-22.1.8.01"


def test_the_clone_that_one_stands_in_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.clone() / "mlir")
    world.lose_upstream()
    assert shown(world.find(world.id(33))) == NEAR_33


def test_another_repository_that_one_stands_in_says_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = UpstreamHistory(world.root / "other")
    other.commit("Mine")
    other.write()
    other.git.run("tag", "llvmorg-22.1.8", "main")
    monkeypatch.chdir(other.folder)
    assert world.find("llvmorg-22.1.8").need().tag == "llvm-22.1.8.01"


def test_a_shallow_clone_answers_what_it_can_and_upstream_the_rest(world: World) -> None:
    clone = world.clone("--depth=25")
    assert shown(world.find(world.id(45), clone=clone))[0] == ("snapshot-20261004.01", "5 commits before")
    assert shown(world.find(world.id(33), clone=clone)) == NEAR_33
    world.lose_upstream()
    shutil.rmtree(world.root / "cache")
    found = world.find(world.id(36), clone=clone)
    assert shown(found) == [("snapshot-20261003.01", "before, by date"), ("snapshot-20261004.01", "4 commits after")]
    assert "the order is that of dates" in " ".join(found.notes)


def test_dates_do_not_prove_that_a_release_has_a_commit(world: World) -> None:
    only = Filter(kind="snapshot")
    clone = world.clone("--depth=25")
    world.lose_upstream()
    assert world.find(f"after:{world.id(36)}", wanted=only, clone=clone).need().tag == "snapshot-20261004.01"
    found = world.find(f"after:{world.id(30)}", wanted=only)
    assert found.need().tag == "snapshot-20261003.01", "it is of that commit itself"
    wanted = Filter(kind="numbered")
    found = world.find(f"after:{world.id(30)}", wanted=wanted)
    assert shown(found) == [("llvm-22.1.8.01", "after, by date")]
    refused(found.need, "release-not-published", "in its history")


def test_a_folder_that_is_no_clone_is_refused(world: World) -> None:
    (world.root / "empty").mkdir()
    refused(lambda: world.find(world.id(33), clone=world.root / "empty"), "input-invalid")
    assert open_clone(None) is None


def test_commits_years_apart_are_told_by_dates_and_no_history_is_fetched(world: World) -> None:
    old = world.history.git.text(
        "commit-tree", "main^{tree}", "-m", "Old", env={
            "GIT_COMMITTER_DATE": "2004-01-01T00:00:00Z", "GIT_AUTHOR_DATE": "2004-01-01T00:00:00Z",
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.org",
        },
    )  # fmt: skip
    world.history.git.run("tag", "llvmorg-1.0", old)
    found = world.find("llvmorg-1.0")
    assert shown(found) == [("snapshot-20261001.01", "after, by date")]
    assert "more than 400 days apart" in found.notes[0]
    assert not list((world.root / "cache").rglob("*.window"))


def test_wheels_decide_which_releases_fit(world: World) -> None:
    newest = "before:2027-01-01"
    windows, linux = Platform.parse("windows-x64"), Platform.parse("linux-x86_64")
    assert world.find(newest, wanted=Filter(platform=windows)).need().tag == "llvm-22.1.8.01"
    assert world.find(newest, wanted=Filter(platform=linux)).need().tag == "snapshot-20261005.01"
    assert world.find(newest, wanted=Filter(python=CPython.parse("3.14t"))).need().tag == "snapshot-20261005.01"
    assert world.find(newest, wanted=Filter(python=CPython.parse("3.12"))).need().tag == "llvm-22.1.8.01"
    both = Filter(platform=windows, python=CPython.parse("3.13"))
    assert world.find(newest, wanted=both).need().tag == "snapshot-20261005.01"
    refused(world.find(newest, wanted=Filter(distribution="mlir-core")).need, "release-not-published")


def test_a_yanked_release_is_left_out_and_named(world: World) -> None:
    world.forge.set_yanks(b'[[yank]]\ntag = "snapshot-20261003.01"\nreason = "broken"\n')
    found = world.find(world.id(30))
    assert shown(found) == [("snapshot-20261002.01", "10 commits before"), ("snapshot-20261004.01", "10 commits after")]
    assert "snapshot-20261003.01 is at that commit, but yanked: broken" in found.notes
    assert world.find(world.id(30), wanted=Filter(yanked=True)).need().tag == "snapshot-20261003.01"


def test_an_abbreviation_of_several_releases_is_refused(world: World) -> None:
    catalogue = read_index(world.forge)
    first, second = ("abcd" + sha[4:] for sha in (world.id(10), world.id(20)))
    rows = [
        entry for entry in catalogue.entries if entry.tag in ("snapshot-20261001.01", "snapshot-20261002.01")
    ]  # fmt: skip
    forge = world.history.forge()
    for entry, sha in zip(sorted(rows, key=lambda entry: entry.tag), (first, second), strict=True):
        world.history.ids[10] = sha
        forge.add(world.history.manifest(entry.tag, 10))
    refused(lambda: find(Origin.of(forge), "abcd"), "revision-unknown", "2 releases begin with abcd")


def test_of_two_releases_of_a_commit_the_newest_is_taken(world: World) -> None:
    world.forge.add(world.history.manifest("snapshot-20261003.02", 30), when=world.history.when(90))
    assert world.find(world.id(30)).need().tag == "snapshot-20261003.02"
    assert len(world.find(world.id(30)).matches) == 1


def test_reverts_in_the_answer_are_noted(world: World) -> None:
    plain = read_index(world.forge)
    revert = Revert(commit="a" * 40, subject="x", by="b" * 40, date="2026-10-09T00:00:00Z")
    quality = Quality(repository="local", releases={"snapshot-20261003.01": ReleaseQuality(reverted=(revert,))})
    catalogue = Catalogue(plain.index, quality, plain.read_month)

    def none() -> object:
        raise AssertionError("upstream is not needed")

    found = find(Origin(catalogue, none), world.id(30))  # type: ignore[arg-type]
    assert found.notes == ("upstream has reverted a commit of snapshot-20261003.01 since: "
                           "mlir-release release reverts snapshot-20261003.01",)  # fmt: skip


# -- upstream on GitHub ------------------------------------------------------------------------------------------------


@pytest.fixture
def on_github(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    """Upstream is there, and in no folder."""
    name, folder = "llvm/llvm-project", str(world.history.folder)
    with GitHubServer(world.root / "github") as github:
        github.add_repository(name, {"x": b""})
        options = ("--quiet", "--force", "--update-head-ok")
        github.repositories[name].git.run("fetch", *options, folder, "+refs/*:refs/*", remote=folder)
        for variable, value in github.environment(name, github.token()).items():
            monkeypatch.setenv(variable, value)
        text = make_targets(make_row(), upstream=f"{github.url}/{name}.git")
        head = world.forge.branches["main"]
        world.forge.commit("main", expected=head, files={"targets.toml": text.encode()}, message="Move\n")
        world.lose_upstream()
        yield github


def test_github_tells_distances_by_a_request_for_each_release(world: World, on_github: GitHubServer) -> None:
    assert shown(world.find(world.id(33))) == NEAR_33
    asked = [record.operation for record in on_github.requests if "{owner}" in record.operation]
    assert asked == ["GET /repos/{owner}/{repo}/compare/{basehead}"] * 2
    assert not list((world.root / "cache").rglob("*.window")), "no history is fetched"
    assert not on_github.violations


def test_github_tells_which_commit_an_abbreviation_means(world: World, on_github: GitHubServer) -> None:
    assert shown(world.find(world.id(33)[:12])) == NEAR_33
    refused(lambda: world.find("after:0123456789"), "revision-unknown", "no commit of the upstream begins with 0123")
    on_github.repositories["llvm/llvm-project"].git.run("branch", "beef", "main~3")
    refused(lambda: world.find("bee5"), "revision-unknown")
    assert world.find("beef").revision == world.id(56), "a branch can have such a name"
    assert not on_github.violations


def test_a_github_that_compares_nothing_leaves_the_dates(world: World, on_github: GitHubServer) -> None:
    on_github.faults = lambda record: Fault(status=403, message="No") if "/compare/" in record.path else None
    found = world.find(world.id(33))
    assert shown(found) == [("snapshot-20261003.01", "before, by date"), ("snapshot-20261004.01", "after, by date")]
    assert "the distance of snapshot-20261003.01 is not known" in found.notes[0]
