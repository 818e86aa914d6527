"""Pins as values in text files, and copies of them; and clones that lack history."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.upstream import UpstreamRepository
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import succeed
from tests.integrate.integration.pinned import BAZEL, PATTERN, also, error_of, shown, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integrate.integration.miniature import World


def test_the_first_fetch_of_a_private_clone_is_told_of(unpatched: World, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        unpatched.open().upstream.fetch()
    assert capsys.readouterr().err.count("fetching the history of LLVM for the first time") == 1


# -- patterns ----------------------------------------------------------------------------------------------------------


def test_a_value_in_a_text_file_moves_and_every_other_byte_stays(repin: Callable[..., World]) -> None:
    before = b'# gr\xfc\xdfe\r\ndef repo():\r\n  LIB_COMMIT = "BASE"\r\n  x = "BASE"'
    world = repin(table(BAZEL, PATTERN), {BAZEL: before})
    (world.checkout / BAZEL).chmod(0o755)
    world.publish("Executable")
    old = world.open().pin()
    walk = world.begin()
    walk.next()
    new = world.affecting[0]
    expected = before.replace(b"BASE", new.encode(), 1).replace(b"BASE", old.encode())
    assert shown(world, BAZEL) == expected == (world.checkout / BAZEL).read_bytes()
    assert world.git("ls-tree", "HEAD", BAZEL).startswith("100755")
    assert world.open().pin() == new


def test_an_abbreviated_commit_keeps_its_digits(repin: Callable[..., World]) -> None:
    world = repin(table("deps.txt", r"^lib=(\w+)"), {"deps.txt": "lib=SHORT\n"})
    world.begin().next()
    assert shown(world, "deps.txt").decode() == f"lib={world.affecting[0][:9]}\n"
    assert world.open().pin() == world.affecting[0]


def test_an_abbreviated_commit_gets_more_digits_where_it_would_be_ambiguous(repin: Callable[..., World]) -> None:
    class Large(UpstreamRepository):
        def _alone(self, digits: str) -> bool:
            return len(digits) > 11 and super()._alone(digits)

    world = repin(table("deps.txt", r"^lib=(\w+)"), {"deps.txt": "lib=SHORT\n"})
    upstream = Large(world.open().upstream.directory, world.open().upstream.config)
    upstream.fetch()
    assert upstream.spelled(world.affecting[0], "123456789") == world.affecting[0]  # not known, so not abbreviated
    assert upstream.spelled(world.affecting[0], world.affecting[1][:9]) == world.affecting[0][:12]


def test_a_tag_is_followed_by_the_tag_of_the_new_commit_or_else_by_its_id(repin: Callable[..., World]) -> None:
    world = repin(table("deps.txt", r"^lib=(\S+)"), {"deps.txt": "lib=v1.0\n"}, tag="v1.0")
    for name in ("v1.9", "v1.10", 'v9";x="', "v9$(x)"):
        miniature.git(world.root / "upstream.git", "tag", name, world.affecting[0])
    walk = world.begin()
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
    error_of(lambda: start(world.open()), "correct deps.txt, or push", id="commit-unreachable")


def test_a_file_that_is_gone_is_named(repin: Callable[..., World]) -> None:
    world = repin(table("gone.txt", r"^lib=(.*)"), {"deps.txt": "lib=BASE\n"})
    error_of(lambda: start(world.open()), "gone.txt", "there is no such file")


def test_a_pin_file_that_lags_after_a_kill_is_brought_up_to_date(repin: Callable[..., World]) -> None:
    world = repin(
        table("deps.txt", r"^lib=(\S+)"),
        {"deps.txt": "lib=BASE\nx=1\n", "copy.txt": "BASE"},
        also=also("copy.txt", r"(\w+)"),
    )
    walk = world.begin()
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
    walk = world.begin()
    key = world.open().outer_key("HEAD")
    walk.next()
    assert shown(world, "b/pin.cmake").decode() == f'set(PIN "{world.affecting[0][:9]}")\n'
    assert world.git("diff", "--name-only", "HEAD~1", "HEAD").split() == ["b/pin.cmake", "deps.txt"]
    assert world.open().outer_key("HEAD") == key  # no verdict depends on it


def test_a_submodule_can_have_copies(plain: World) -> None:
    base = plain.open().pin()
    (plain.checkout / ".dep-versions").write_text(f"lib={base}\nother=1\n")
    plain.git("add", ".dep-versions")
    plain.reconfigure("[smoke]", also(".dep-versions", r"^lib=(\S+)") + "[smoke]")
    walk = plain.begin()
    walk.next()
    assert shown(plain, ".dep-versions").decode() == f"lib={plain.affecting[0]}\nother=1\n"
    (plain.checkout / ".dep-versions").write_text(f"lib={base}\nother=1\n")  # as a kill leaves it
    walk.next()
    assert plain.open().pin() == plain.affecting[1]


def test_two_places_that_disagree_are_refused_until_start_repairs_them(repin: Callable[..., World]) -> None:
    world = repin(
        table("deps.txt", r"^lib=(\S+)"),
        {"deps.txt": "lib=BASE\n", "copy": "old=STALE\n"},
        also=also("copy", r"=(\w+)"),
    )
    stale = world.affecting[3]
    (world.checkout / "copy").write_text(f"old={stale}\n")
    world.publish("Stale")
    main, pin = world.git("rev-parse", "HEAD"), world.open().pin()
    error_of(
        lambda: start(world.open()), f"deps.txt says {pin}", f"copy says {stale} (its pattern: =(", "start --repair"
    )
    assert world.git("branch", "--show-current") == "main"
    succeed(world, "start", "--repair")
    assert shown(world, "copy").decode() == f"old={pin}\n"
    assert world.git("rev-parse", "HEAD~1") == main
    Walk(world.open()).next()
    (world.checkout / "copy").write_text(f"old={stale}\n")
    world.git("commit", "-q", "-a", "-m", "Stale again")
    error_of(Walk(world.open()).next, "disagree")


# -- shallow clones ----------------------------------------------------------------------------------------------------


def _serve_files(world: World) -> None:
    """Have git fetch from the world's folders as from a server, which can make shallow clones."""
    config = world.root / "gitconfig"
    config.write_text(config.read_text().replace(f'[url "{world.root}/"]', f'[url "file://{world.root}/"]'))


def test_a_submodule_that_recommends_a_shallow_clone_is_cloned_with_its_history(world: World, tmp_path: Path) -> None:
    _serve_files(world)
    world.git("config", "-f", ".gitmodules", "submodule.third_party/llvm.shallow", "true")
    world.publish("Shallow")
    env = {**os.environ, **world.environment()}
    miniature.git(tmp_path, "clone", "-q", f"file://{world.root}/origin.git", str(tmp_path / "fresh"), env=env)
    succeed(tmp_path / "fresh", "start")
    assert (
        miniature.git(tmp_path / "fresh/third_party/llvm", "rev-parse", "--is-shallow-repository", env=env) == "false"
    )


def test_a_shallow_clone_of_a_person_gets_its_history(plain: World, tmp_path: Path) -> None:
    _serve_files(plain)
    env = {**os.environ, **plain.environment()}
    fresh = tmp_path / "fresh"
    miniature.git(tmp_path, "clone", "-q", f"file://{plain.root}/origin.git", str(fresh), env=env)
    miniature.git(fresh, "submodule", "--quiet", "update", "--init", "--depth=1", env=env)
    assert miniature.git(fresh / "third_party/llvm", "rev-parse", "--is-shallow-repository", env=env) == "true"
    succeed(fresh, "start")
    succeed(fresh, "next")
