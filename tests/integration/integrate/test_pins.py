"""Pins as projects have them: values in text files, copies of them, what follows from them, and releases."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from mlir_release.cli.app import app
from mlir_release.host.cache import cache_directory
from mlir_release.integrate.branch import start
from mlir_release.integrate.walk import Walk
from mlir_release.model.digests import sha256_of
from tests.integration.integrate import miniature
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mlir_release.errors import ReleaseError
    from tests.integration.integrate.miniature import World

BAZEL = "third_party/workspace.bzl"
PATTERN = '^  LIB_COMMIT = "([0-9a-f]+)"'


@pytest.fixture
def repin(make_world: Any) -> Callable[..., World]:
    """Makes a world whose downstream pins the upstream in other files, with other tables about that."""

    def make(tables: str, files: dict[str, bytes | str], *, also: str = "", tag: str = "") -> World:
        world: World = make_world(carrier="pin-file")
        base = (world.checkout / "llvm-project.version").read_text().strip()
        if tag:
            miniature.git(world.root / "upstream.git", "tag", tag, base)
        (world.checkout / "llvm-project.version").unlink()
        config = world.checkout / "integrate.toml"
        text = config.read_text().replace('[downstream]\npin-file = "llvm-project.version"\n', also)
        config.write_text(text.replace('name = "LLVM"\n', f'name = "LLVM"\n{tables}\n'))
        for path, content in files.items():
            file = world.checkout / path
            file.parent.mkdir(exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            file.write_bytes(data.replace(b"BASE", base.encode()).replace(b"SHORT", base[:9].encode()))
        world.git("add", "-A")
        world.git("commit", "-q", "-m", "Pin otherwise")
        world.git("push", "-q")
        return world

    return make


def table(path: str, pattern: str, **more: str) -> str:
    rows = [f'pin-file = "{path}"', f"pattern = '{pattern}'", *(f'{key} = "{value}"' for key, value in more.items())]
    return "\n".join(rows)


def also(path: str, pattern: str, **more: str) -> str:
    rows = ["[[upstream.also]]", f'file = "{path}"', f"pattern = '{pattern}'"]
    return "\n".join([*rows, *(f'{key} = "{value}"' for key, value in more.items()), ""])


def begin(world: World, **options: Any) -> Walk:
    start(world.open(), **options)
    return Walk(world.open())


def shown(world: World, path: str, revision: str = "HEAD") -> bytes:
    return subprocess.run(
        ["git", "-C", str(world.checkout), "cat-file", "blob", f"{revision}:{path}"], check=True, capture_output=True
    ).stdout


def error_of(action: Callable[[], object], *said: str, id: str = "pin-invalid") -> ReleaseError:
    error = refused(action, id)
    for words in said:
        assert words in str(error), error
    return error


# -- patterns ----------------------------------------------------------------------------------------------------------


def test_a_value_in_a_text_file_moves_and_every_other_byte_stays(repin: Callable[..., World]) -> None:
    before = b'# gr\xfc\xdfe\r\ndef repo():\r\n  LIB_COMMIT = "BASE"\r\n  x = "BASE"'
    world = repin(table(BAZEL, PATTERN), {BAZEL: before})
    (world.checkout / BAZEL).chmod(0o755)
    world.git("commit", "-q", "-a", "-m", "Executable")
    world.git("push", "-q")
    old = world.open().pin()
    walk = begin(world)
    walk.next()
    new = world.affecting[0]
    expected = before.replace(b"BASE", new.encode(), 1).replace(b"BASE", old.encode())
    assert shown(world, BAZEL) == expected == (world.checkout / BAZEL).read_bytes()
    assert world.git("ls-tree", "HEAD", BAZEL).startswith("100755")
    assert world.open().pin() == new


def test_an_abbreviated_commit_keeps_its_digits(repin: Callable[..., World]) -> None:
    world = repin(table("deps.txt", r"^lib=(\w+)"), {"deps.txt": "lib=SHORT\n"})
    begin(world).next()
    assert shown(world, "deps.txt").decode() == f"lib={world.affecting[0][:9]}\n"
    assert world.open().pin() == world.affecting[0]


def test_an_abbreviated_commit_gets_more_digits_where_it_would_be_ambiguous(
    repin: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = repin(table("deps.txt", r"^lib=(\w+)"), {"deps.txt": "lib=SHORT\n"})
    upstream = world.open().upstream
    upstream.fetch()
    alone = upstream._alone
    monkeypatch.setattr(upstream, "_alone", lambda digits: len(digits) > 11 and alone(digits))
    assert upstream.spelled(world.affecting[0], "123456789") == world.affecting[0]  # not known, so not abbreviated
    assert upstream.spelled(world.affecting[0], world.affecting[1][:9]) == world.affecting[0][:12]


def test_a_tag_is_followed_by_the_tag_of_the_new_commit_or_else_by_its_id(repin: Callable[..., World]) -> None:
    world = repin(table("deps.txt", r"^lib=(\S+)"), {"deps.txt": "lib=v1.0\n"}, tag="v1.0")
    for name in ("v1.9", "v1.10", 'v9";x="', "v9$(x)"):
        miniature.git(world.root / "upstream.git", "tag", name, world.affecting[0])
    walk = begin(world)
    walk.next()
    assert shown(world, "deps.txt") == b"lib=v1.10\n"
    walk.next()
    assert shown(world, "deps.txt").decode() == f"lib={world.affecting[1]}\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("lib=BASE\nlib=BASE\n", "fits 2 times, in lines 1, 2"),
        ("other=BASE\n", "fits nowhere"),
        ("lib=\n", "fits line 1, but its value is empty"),
        ("lib=nothing-there\n", "'nothing-there' is no commit, abbreviated commit or tag of LLVM"),
        ("lib=abcdef1\n", "there is no such commit"),
        ("lib=--upload-pack=x\n", "is no commit"),
        ("lib=HEAD~1\n", "is no commit"),
        ("#" * (1 << 20) + "\nlib=BASE\n", "bytes; patterns are looked for in 1,048,576"),
    ],
)
def test_a_file_that_does_not_say_one_commit_is_refused(repin: Callable[..., World], content: str, said: str) -> None:
    world = repin(table("deps.txt", r"^lib=(.*)"), {"deps.txt": content})
    error_of(lambda: start(world.open()), said, "deps.txt at ")


def test_a_pin_that_the_upstream_does_not_have_is_refused(repin: Callable[..., World]) -> None:
    world = repin(table("deps.txt", r"^lib=(.*)"), {"deps.txt": f"lib={'1' * 40}\n"})
    error_of(lambda: start(world.open()), "can't be fetched", id="commit-unreachable")


def test_a_file_that_is_gone_is_named(repin: Callable[..., World]) -> None:
    world = repin(table("gone.txt", r"^lib=(.*)"), {"deps.txt": "lib=BASE\n"})
    error_of(lambda: start(world.open()), "gone.txt", "there is no such file")


def test_a_pin_file_that_lags_after_a_kill_is_brought_up_to_date(repin: Callable[..., World]) -> None:
    world = repin(
        table("deps.txt", r"^lib=(\S+)"),
        {"deps.txt": "lib=BASE\nx=1\n", "copy.txt": "BASE"},
        also=also("copy.txt", r"(\w+)"),
    )
    walk = begin(world)
    old = {path: (world.checkout / path).read_bytes() for path in ("deps.txt", "copy.txt")}
    walk.next()
    for path, content in old.items():
        (world.checkout / path).write_bytes(content)
    walk.next()
    assert shown(world, "copy.txt").decode() == world.affecting[1]
    (world.checkout / "copy.txt").write_bytes(b"a person's")
    error_of(walk.next, "not committed", "copy.txt", id="checkout-dirty")


# -- copies, and what follows ------------------------------------------------------------------------------------------


def test_copies_of_the_commit_move_with_it_in_the_same_commit(repin: Callable[..., World]) -> None:
    world = repin(
        table("deps.txt", r"^lib=(\S+)"),
        {"deps.txt": "lib=BASE\n", "b/pin.cmake": 'set(PIN "SHORT")\n'},
        also=also("b/pin.cmake", r'set\(PIN "(\w+)"\)'),
    )
    walk = begin(world)
    key = world.open().outer_key("HEAD")
    walk.next()
    assert shown(world, "b/pin.cmake").decode() == f'set(PIN "{world.affecting[0][:9]}")\n'
    assert world.git("diff", "--name-only", "HEAD~1", "HEAD").split() == ["b/pin.cmake", "deps.txt"]
    assert world.open().outer_key("HEAD") == key  # no verdict depends on it


def test_a_submodule_can_have_copies(make_world: Any) -> None:
    world: World = make_world()
    base = world.open().pin()
    (world.checkout / ".dep-versions").write_text(f"lib={base}\nother=1\n")
    world.git("add", ".dep-versions")
    world.reconfigure("[downstream]", also(".dep-versions", r"^lib=(\S+)") + "[downstream]")
    walk = begin(world)
    walk.next()
    assert shown(world, ".dep-versions").decode() == f"lib={world.affecting[0]}\nother=1\n"
    (world.checkout / ".dep-versions").write_text(f"lib={base}\nother=1\n")  # as a kill leaves it
    walk.next()
    assert world.open().pin() == world.affecting[1]


def test_two_places_that_disagree_are_refused_until_start_repairs_them(repin: Callable[..., World]) -> None:
    world = repin(
        table("deps.txt", r"^lib=(\S+)"),
        {"deps.txt": "lib=BASE\n", "copy": "old=STALE\n"},
        also=also("copy", r"=(\w+)"),
    )
    stale = world.affecting[3]
    (world.checkout / "copy").write_text(f"old={stale}\n")
    world.git("commit", "-q", "-a", "-m", "Stale")
    world.git("push", "-q")
    main, pin = world.git("rev-parse", "HEAD"), world.open().pin()
    error_of(lambda: start(world.open()), f"deps.txt says {pin}", f"copy says {stale}", "start --repair")
    assert world.git("branch", "--show-current") == "main"
    done = CliRunner().invoke(app, ["integrate", "-C", str(world.checkout), "start", "--repair"])
    assert done.exit_code == 0, done.output
    assert shown(world, "copy").decode() == f"old={pin}\n"
    assert world.git("rev-parse", "HEAD~1") == main
    Walk(world.open()).next()
    (world.checkout / "copy").write_text(f"old={stale}\n")
    world.git("commit", "-q", "-a", "-m", "Stale again")
    error_of(Walk(world.open()).next, "disagree")


class Served:
    """A server on this machine: what it answers, and what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.asked: list[str] = []
        self.url = ""


@contextmanager
def _serving() -> Iterator[Served]:
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            if self.path in served.redirects:
                self.send_response(302)
                self.send_header("Location", served.redirects[self.path])
                self.end_headers()
                return
            content = served.answers.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: Any) -> None:
            """Not here."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()


@pytest.fixture
def served() -> Iterator[Served]:
    with _serving() as found:
        yield found


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
    walk = begin(world)
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
    walk = begin(world)
    before = world.git("rev-parse", "HEAD")
    said = {"gone": "404", "another": "not that of the commit", "insecure": "could not be downloaded"}[what]
    error_of(walk.next, said, id="file-damaged" if what == "another" else "network-failed")
    assert world.git("rev-parse", "HEAD") == before
    assert world.git("status", "--porcelain") == ""


def test_nothing_without_https_is_taken_from_a_redirect(served: Served, tmp_path: Path) -> None:
    from mlir_release.host.download import _safe, download

    assert _safe("https://a.example/x", "https://b.example/y")
    assert not _safe("https://a.example/x", "http://b.example/y")
    assert not _safe("https://a.example/x", "http://localhost/y")
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
    walk = begin(world)
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
    export = re.search(r"\[export\]\n(.*\n.*\n)", (world.checkout / "integrate.toml").read_text())
    assert export is not None
    world.reconfigure(export[0], "")
    assert [upstream.slug for upstream in world.open().config.upstreams] == ["llvm", "fork"]
    begin(world).next()
    assert shown(world, "deps.txt").decode().splitlines()[0] == f"lib={world.affecting[0]}"
    assert shown(world, "deps.txt").decode().splitlines()[1] != f"other={world.affecting[0]}"
    assert [path.name for path in (world.checkout / ".git/mlir-release").glob("*.git")] == ["upstream.git"]


def test_patterns_that_fit_the_same_text_are_refused(repin: Callable[..., World]) -> None:
    world = repin(table("deps.txt", r"^lib=(\S+)"), {"deps.txt": "lib=BASE\n"}, also=also("deps.txt", r"lib=(.*)"))
    walk = begin(world)
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
    world.git("commit", "-q", "-a", "-m", "Test that")
    world.git("push", "-q")
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    walk = begin(world)
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
    walk = begin(world)
    before = world.git("rev-parse", "HEAD")
    error_of(walk.next, said, id=id)
    assert world.git("rev-parse", "HEAD") == before
    assert world.git("status", "--porcelain") == ""


def test_a_refresh_may_remove_files(repin: Callable[..., World]) -> None:
    world = refreshing(repin, "rm locks/a.lock; echo new > locks/b.lock; chmod +x locks/b.lock")
    begin(world).next()
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
    world.git("commit", "-q", "-a", "-m", "Test that")
    world.git("push", "-q")
    walk = begin(world)
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
    index = {"schema": 1, "repository": "local", "releases": releases, "shapes": [[]]}
    index["yanked"] = {"snapshot-20260911.01": "broken"}
    served.answers["/index.json"] = json.dumps(index).encode()
    walk = begin(world)
    assert [commit.sha for commit in walk.observer.look().ahead] == [world.affecting[0], world.affecting[2]]
    walk.next()
    walk.next()
    assert '"mini-bindings==20260912.1"' in shown(world, "pyproject.toml").decode()


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


# -- shallow clones ----------------------------------------------------------------------------------------------------


def _serve_files(world: World) -> None:
    """Have git fetch from the world's folders as from a server, which can make shallow clones."""
    config = world.root / "gitconfig"
    config.write_text(config.read_text().replace(f'[url "{world.root}/"]', f'[url "file://{world.root}/"]'))


def test_a_submodule_that_recommends_a_shallow_clone_is_cloned_with_its_history(
    make_world: Any, tmp_path: Path
) -> None:
    world: World = make_world(patched=True)
    _serve_files(world)
    world.git("config", "-f", ".gitmodules", "submodule.third_party/llvm.shallow", "true")
    world.git("commit", "-q", "-a", "-m", "Shallow")
    world.git("push", "-q")
    env = {**os.environ, **world.environment()}
    miniature.git(tmp_path, "clone", "-q", f"file://{world.root}/origin.git", str(tmp_path / "fresh"), env=env)
    done = CliRunner().invoke(app, ["integrate", "-C", str(tmp_path / "fresh"), "start"])
    assert done.exit_code == 0, done.output
    assert (
        miniature.git(tmp_path / "fresh/third_party/llvm", "rev-parse", "--is-shallow-repository", env=env) == "false"
    )


def test_a_shallow_clone_of_a_person_gets_its_history(make_world: Any, tmp_path: Path) -> None:
    world: World = make_world()
    _serve_files(world)
    env = {**os.environ, **world.environment()}
    fresh = tmp_path / "fresh"
    miniature.git(tmp_path, "clone", "-q", f"file://{world.root}/origin.git", str(fresh), env=env)
    miniature.git(fresh, "submodule", "--quiet", "update", "--init", "--depth=1", env=env)
    assert miniature.git(fresh / "third_party/llvm", "rev-parse", "--is-shallow-repository", env=env) == "true"
    done = CliRunner().invoke(app, ["integrate", "-C", str(fresh), "start"])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["integrate", "-C", str(fresh), "next"])
    assert done.exit_code == 0, done.output
