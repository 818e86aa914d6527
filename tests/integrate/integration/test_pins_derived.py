"""What follows from a pin: digests, dates, tags, what a command makes; and pins that are releases."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from mlir_release.ground.documents.digests import sha256_of
from mlir_release.ground.storage.cache import cache_directory
from mlir_release.ground.strategy import Adaptive
from mlir_release.integrate.deliver.branch import carry, start
from mlir_release.integrate.walk.rounds import plan_round, probe
from mlir_release.integrate.walk.together import JointWalk
from mlir_release.integrate.walk.walk import Allowed, Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.pinned import BAZEL, PATTERN, also, error_of, shown, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mlir_release.integrate.report import WalkEnd
    from tests.integrate.integration.miniature import World
    from tests.integrate.integration.pinned import Served


def archive(world: World, commit: str) -> bytes:
    command = ["git", "-C", str(world.root / "upstream.git"), "archive", "--format=tar.gz", commit]
    return subprocess.run(command, check=True, capture_output=True).stdout


def bazel_world(repin: Callable[..., World], served: Served) -> World:
    text = f'def repo():\n  LIB_COMMIT = "BASE"\n  LIB_SHA256 = "{"0" * 64}"\n  DATED = "2020-01-01"\n'
    return repin(
        table(BAZEL, PATTERN),
        {BAZEL: text},
        also=also(BAZEL, '^  LIB_SHA256 = "([0-9a-f]{64})"', value="sha256", url=served.url + "/{commit}.tar.gz")
        + also(BAZEL, '^  DATED = "(.*)"', value="date"),
    )


def test_the_digest_of_the_archive_and_the_date_follow_and_are_fetched_once(
    repin: Callable[..., World], served: Served
) -> None:
    world = bazel_world(repin, served)
    commit = world.affecting[0]
    content = archive(world, commit)
    served.answers[f"/{commit}.tar.gz"] = content
    walk = world.begin()
    walk.next()
    assert shown(world, BAZEL).decode() == (
        f'def repo():\n  LIB_COMMIT = "{commit}"\n  LIB_SHA256 = "{sha256_of(content)}"\n  DATED = "2026-09-21"\n'
    )
    world.git("reset", "-q", "--hard", "HEAD~1")
    walk.next()
    assert len(served.asked) == 1
    shutil.rmtree(cache_directory() / "integrate" / "archives")
    world.git("reset", "-q", "--hard", "HEAD~1")
    walk.next()
    assert len(served.asked) == 2


@pytest.mark.parametrize("what", ["gone", "another", "insecure"])
def test_a_digest_that_can_not_be_had_stops_before_anything_is_committed(
    repin: Callable[..., World], served: Served, what: str
) -> None:
    world = bazel_world(repin, served)
    path = f"/{world.affecting[0]}.tar.gz"
    if what == "another":
        served.answers[path] = archive(world, world.affecting[1])
    if what == "insecure":
        served.redirects[path] = "http://mini.invalid/x"
    walk = world.begin()
    before = world.git("rev-parse", "HEAD")
    said = {"gone": "404", "another": "not that of the commit", "insecure": "could not be downloaded"}[what]
    error_of(walk.next, said, id="file-damaged" if what == "another" else "network-failed")
    assert world.git("rev-parse", "HEAD") == before
    assert world.git("status", "--porcelain") == ""


def test_the_archive_of_carried_patches_is_asked_for_once_they_were_pushed(
    repin: Callable[..., World], served: Served
) -> None:
    world = bazel_world(repin, served)
    (world.checkout / "smoke.sh").write_text("#!/bin/sh\n")
    world.publish("Test nothing")
    fork = world.root / "fork.git"

    def answer(path: str) -> bytes | None:
        packed = ["git", "-C", str(fork), "archive", "--format=tar.gz", path.strip("/").partition(".")[0]]
        done = subprocess.run(packed, check=False, capture_output=True)
        return done.stdout if done.returncode == 0 else None

    served.find = answer
    walk = world.begin()
    needed = world.commits["needed"]
    assert carry(walk, needed, revert=False, why="we need it", link="", drop_when="")
    end = Walk(world.open()).run(walk.strategy()[0], until=world.affecting[1])
    assert end.outcome == "head"
    assert f'LIB_SHA256 = "{"0" * 64}"' not in shown(world, BAZEL).decode()
    table = world.open().upstream.config
    assert table.archive(structs.replace(table.also[0], url=""), "1" * 40, carried=True) == ""


def test_nothing_without_https_is_taken_from_a_redirect(served: Served, tmp_path: Path) -> None:
    from mlir_release.ground.storage.download import download, is_secure

    assert is_secure("https://a.example/x", "https://b.example/y")
    assert not is_secure("https://a.example/x", "http://b.example/y")
    assert not is_secure("https://a.example/x", "http://localhost/y")
    assert not is_secure("http://localhost/x", "file://localhost/etc/passwd")
    served.redirects["/a"] = served.url + "/b"
    served.answers["/b"] = b"content"
    download(served.url + "/a", tmp_path / "file", secure=True)
    assert (tmp_path / "file").read_bytes() == b"content"


def test_the_nearest_tag_follows(repin: Callable[..., World]) -> None:
    world = repin(
        table("deps.txt", r"^lib=(\S+)"),
        {"deps.txt": "lib=BASE\nsince=v1.0\n"},
        also=also("deps.txt", r"^since=(\S+)", value="nearest-tag"),
        tag="v1.0",
    )
    walk = world.begin()
    walk.next()
    assert shown(world, "deps.txt").decode() == f"lib={world.affecting[0]}\nsince=v1.0\n"
    miniature.git(world.root / "upstream.git", "tag", "v1.1", world.affecting[1])
    Walk(world.open()).next()
    assert shown(world, "deps.txt").decode().endswith("since=v1.1\n")


def test_several_upstreams_in_one_file_move_by_themselves(repin: Callable[..., World]) -> None:
    world = repin(table("deps.txt", r"^lib=(\S+)"), {"deps.txt": "lib=BASE\nother=BASE\n"})
    (world.checkout / ".git/mlir-release").mkdir(exist_ok=True)
    world.open()  # the private clone of the only upstream, which stays its own
    world.reconfigure("[upstream]", "[[upstream]]")
    other = "\n".join(["[[upstream]]", f'url = "{miniature.URL}fork.git"', table("deps.txt", r"^other=(\S+)"), ""])
    world.reconfigure("[smoke]", f"{other}[smoke]")
    assert [upstream.slug for upstream in world.open().config.upstreams] == ["llvm", "fork"]
    world.begin().next()
    assert shown(world, "deps.txt").decode().splitlines()[0] == f"lib={world.affecting[0]}"
    assert shown(world, "deps.txt").decode().splitlines()[1] != f"other={world.affecting[0]}"
    made = sorted(path.name for path in (world.checkout / ".git/mlir-release").glob("*.git"))
    assert made == ["fork.git", "upstream.git"], "the first keeps its clone"


def test_patterns_that_fit_the_same_text_are_refused(repin: Callable[..., World]) -> None:
    world = repin(table("deps.txt", r"^lib=(\S+)"), {"deps.txt": "lib=BASE\n"}, also=also("deps.txt", r"lib=(.*)"))
    walk = world.begin()
    error_of(walk.next, "two patterns fit the same text in line 1")


# -- refresh -----------------------------------------------------------------------------------------------------------

REFRESH = """#!/bin/sh
set -e
echo "$GITHUB_TOKEN" > token.ignored
pin=$(cut -d= -f2 deps.txt)
test "$pin" = "$MLIR_RELEASE_UPSTREAM_COMMIT"
mkdir -p locks
echo "locked $pin" > locks/a.lock
echo ran >> "$MLIR_RELEASE_CACHE/../refreshed"
"""


def refreshing(repin: Callable[..., World], script: str = REFRESH, files: str = "locks/*.lock") -> World:
    return repin(
        table("deps.txt", r"^lib=(\S+)") + f'\nrefresh = {{command = "sh refresh.sh", files = ["{files}"]}}',
        {"deps.txt": "lib=BASE\n", "refresh.sh": script, "locks/a.lock": "", ".gitignore": "build/\n*.ignored\n"},
    )


def test_what_the_refresh_command_makes_is_tested_and_joins_the_advance(
    repin: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = refreshing(repin)
    (world.checkout / "smoke.sh").write_text('#!/bin/sh\ngrep -q "locked $(cut -d= -f2 deps.txt)" locks/a.lock\n')
    world.publish("Test that")
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    walk = world.begin()
    key = world.open().outer_key("HEAD")
    end = walk.run(walk.strategy()[0], until=world.affecting[2])
    assert end.outcome == "head"
    assert shown(world, "locks/a.lock").decode() == f"locked {world.affecting[2]}\n"
    assert world.open().outer_key("HEAD") == key
    assert (world.root / "refreshed").read_text().count("ran") == 1  # for the test and for the advance
    assert not any("secret" in path.read_text() for path in (world.root / "cache").rglob("token.ignored"))


@pytest.mark.parametrize(
    ("script", "id", "said"),
    [
        ("echo x > other.txt; echo y > app.c", "config-invalid", "app.c, other.txt"),
        ("echo no luck >&2; exit 3", "program-failed", "no luck"),
        ("ln -sf /etc/passwd locks/a.lock", "config-invalid", "no plain file"),
        ("kill -9 $$", "interrupted", "SIGKILL"),
    ],
)
def test_a_refresh_that_goes_wrong_changes_nothing(
    repin: Callable[..., World], script: str, id: str, said: str
) -> None:
    world = refreshing(repin, script)
    walk = world.begin()
    before = world.git("rev-parse", "HEAD")
    error_of(walk.next, said, id=id)
    assert world.git("rev-parse", "HEAD") == before
    assert world.git("status", "--porcelain") == ""


def test_a_refresh_may_remove_files(repin: Callable[..., World]) -> None:
    world = refreshing(repin, "rm locks/a.lock; echo new > locks/b.lock; chmod +x locks/b.lock")
    world.begin().next()
    assert world.git("ls-tree", "-r", "HEAD", "locks").split()[0] == "100755"
    assert world.git("ls-tree", "-r", "--name-only", "HEAD", "locks").split() == ["locks/b.lock"]


# -- releases ----------------------------------------------------------------------------------------------------------


def wheel(version: str, name: str = "mini_bindings") -> str:
    return f'<a href="https://x.example/w/{name}-{version.replace("+", "%2B")}-cp312-cp312-linux_x86_64.whl">w</a>'


def released(repin: Callable[..., World], served: Served, page: bytes, pin: str, **keys: str) -> World:
    served.answers["/wheels/"] = served.answers["/index.json"] = page
    return repin(
        table("pyproject.toml", 'mini-bindings==([^"]+)', **keys),
        {"pyproject.toml": f'dependencies = [\n  "mini-bindings=={pin}",\n]\n'},
    )


def page_world(repin: Callable[..., World], served: Served) -> World:
    world = released(
        repin, served, b"", "20260801+SHORT", releases=served.url + "/wheels/", distribution="mini-bindings"
    )
    versions = [f"202609{10 + index}+{world.affecting[index][:9]}" for index in (0, 2, 5)]
    rows = [wheel(version) for version in versions]
    rows += [wheel("1.0"), wheel(f"20260930+{world.affecting[1][:9]}", "other"), wheel("20260911+0000000")]
    rows += ['<a data-yanked="" ' + wheel(f"20260929+{world.affecting[3][:9]}")[3:], '<a href="http://[">x</a>']
    served.answers["/wheels/"] = "\n".join(rows).encode()
    return world


def test_a_pin_that_is_a_release_walks_along_the_page_of_wheels(repin: Callable[..., World], served: Served) -> None:
    world = page_world(repin, served)
    (world.checkout / "smoke.sh").write_text(
        '#!/bin/sh\ntest -z "$MLIR_RELEASE_UPSTREAM_SOURCE"\n'
        'grep -q "bindings==$MLIR_RELEASE_UPSTREAM_VERSION" pyproject.toml\n'
    )
    world.publish("Test that")
    walk = world.begin()
    seen = walk.observer.look()
    assert [commit.sha for commit in seen.ahead] == [world.affecting[index] for index in (0, 2, 5)]
    assert walk.run(walk.strategy("linear")[0]).outcome == "head"
    assert f"mini-bindings==20260915+{world.affecting[5][:9]}" in shown(world, "pyproject.toml").decode()
    assert not list((world.root / "cache").rglob("api.c"))  # no sources are checked out
    assert served.asked.count("/wheels/") <= 3  # once for each opened project
    error_of(lambda: walk.next(to=world.affecting[6]), "no release was made", id="revision-unsuitable")


def test_a_pin_that_is_a_release_walks_along_an_index(repin: Callable[..., World], served: Served) -> None:
    world = released(repin, served, b"", "20260801.1", releases=served.url + "/index.json")
    base = miniature.git(world.root / "upstream.git", "rev-parse", f"{world.affecting[0]}~2")
    rows = [
        ("snapshot-20260801.01", "20260801.1", base),
        ("snapshot-20260910.01", "20260910.1", world.affecting[0]),
        ("snapshot-20260911.01", "20260911.1", world.affecting[1]),
        ("snapshot-20260912.01", "20260912.1", world.affecting[2]),
    ]
    releases = [
        {"tag": tag, "version": version, "revision": revision, "created_at": "2026-09-20T12:00:00Z"}
        for tag, version, revision in rows
    ]
    index: dict[str, Any] = {"schema": 1, "repository": "local", "releases": releases, "shapes": [[]]}
    index["yanked"] = {"snapshot-20260911.01": "broken"}
    served.answers["/index.json"] = json.dumps(index).encode()
    walk = world.begin()
    assert [commit.sha for commit in walk.observer.look().ahead] == [world.affecting[0], world.affecting[2]]
    walk.next()
    walk.next()
    assert '"mini-bindings==20260912.1"' in shown(world, "pyproject.toml").decode()
    index["yanked"]["snapshot-20260912.01"] = "broken, too"
    served.answers["/index.json"] = json.dumps(index).encode()
    assert world.open().pin() == world.affecting[2]  # of a yanked release
    assert Walk(world.open()).observer.look().ahead == ()
    index["releases"].pop()
    served.answers["/index.json"] = json.dumps(index).encode()
    assert world.open().pin() == world.affecting[2]  # of a deleted one: the branch says which commit it was
    world.git("commit", "-q", "--amend", "-m", "Say nothing")
    error_of(world.open().pin, "is no version")


def test_another_build_of_the_pinned_release_is_tested_and_taken_though_no_commit_is_ahead(
    repin: Callable[..., World], served: Served
) -> None:
    world = released(repin, served, b"", "20260801.1", releases=served.url + "/index.json")
    smoke = world.checkout / "smoke.sh"
    smoke.write_text('#!/bin/sh\ngrep -q "bindings==$MLIR_RELEASE_UPSTREAM_VERSION\\"" pyproject.toml\n')
    world.publish("Test that")
    base = miniature.git(world.root / "upstream.git", "rev-parse", f"{world.affecting[0]}~2")

    def listing(*versions: str, yanked: Sequence[str] = ()) -> None:
        rows = [{"tag": f"tag-{version}", "version": version, "revision": base} for version in versions]
        index = {"schema": 1, "releases": rows, "yanked": {f"tag-{version}": "broken" for version in yanked}}
        served.answers["/index.json"] = json.dumps(index).encode()

    def walked(**allowed: bool) -> WalkEnd:
        return JointWalk([Walk(world.open())]).run(Adaptive(), allowed=Allowed(**allowed))

    listing("20260801.1")
    world.begin()
    assert (walked().outcome, walked().smoke_tests) == ("head", 0)
    listing("20260802.2", "20260802.1", "20260801.1", yanked=["20260802.2", "20260801.1"])
    assert walked(probes=False).outcome == "untested"
    planned = plan_round(JointWalk([Walk(world.open())]), Adaptive())["probes"]
    assert planned == ["build@20260802.1"]
    probe(JointWalk([Walk(world.open())]), planned[0])
    assert walked(probes=False).outcome == "head"
    assert b'"mini-bindings==20260802.1"' in shown(world, "pyproject.toml")
    assert world.git("log", "-1", "--format=%s") == f"Take 20260802.1 of LLVM, another build of {base[:12]}"
    listing("20260803.1")  # the pinned one is deleted; this one fails
    smoke.write_text("#!/bin/sh\n! grep 20260803 pyproject.toml\n")
    world.git("commit", "-q", "-a", "-m", "Refuse that")
    assert walked().outcome == "head"
    assert b'"mini-bindings==20260802.1"' in shown(world, "pyproject.toml")


@pytest.mark.parametrize(
    ("page", "id", "said"),
    [
        (b"<html>nothing</html>", "input-unusable", "lists no wheel of mini-bindings"),
        (None, "network-failed", "404"),
        (b"\xff\xfe" * 5000, "input-unusable", "lists no wheel"),
    ],
)
def test_a_page_that_lists_nothing_is_refused(
    repin: Callable[..., World], served: Served, page: bytes | None, id: str, said: str
) -> None:
    world = page_world(repin, served)
    served.answers.pop("/wheels/")
    if page is not None:
        served.answers["/wheels/"] = page
    error_of(lambda: start(world.open()), said, id=id)


def test_an_index_that_is_none_is_refused(repin: Callable[..., World], served: Served) -> None:
    world = released(repin, served, b"{}", "20260801.1", releases=served.url + "/index.json")
    error_of(lambda: start(world.open()), "schema is missing", id="input-unusable")
