"""Patches that are files: what becomes of them along a walk, who is told, and what is no patch."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from mlir_release.integrate.deliver.branch import start
from tests.integrate.integration.in_process import integrate
from tests.integrate.integration.miniature import World
from tests.integrate.integration.patched import built, commit, patch, table, undecided


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    World(tmp_path / "world", {}, []).enter(monkeypatch)


def pick(world: World, name: str, content: bytes | None, mention: str = "") -> None:
    """What a person does about a patch file: another one, or none and no mention of it."""
    path, series = world.checkout / "patches" / name, world.checkout / "series"
    if content is None:
        path.unlink()
        series.write_text(series.read_text().replace(f'    "//patches:{name}",\n', ""))
    else:
        path.write_bytes(content)
    commit(world, f"Follow upstream in {name}")


@pytest.mark.parametrize("strategy", ["adaptive", "linear"])
@pytest.mark.parametrize("by", ["build", "us"])
def test_patches_are_made_anew_and_dropped_and_the_walk_ends_before_one_that_does_not_fit(
    tmp_path: Path, by: str, strategy: str
) -> None:
    world = built(tmp_path / "world", by=by)
    stopped = integrate(world, "run", "--strategy", strategy)
    broken, last = world.commits["broken"], world.affecting[-3]
    assert (stopped["code"], stopped["outcome"], stopped["base"]) == (7, "conflict", last)
    assert [each["commit"] for each in stopped["report"]["range"]] == [broken]  # it touches no tracked path
    assert (stopped["smoke_tests"], f"--advance-to {broken}" in stopped["remedy"]) == (
        1 if strategy == "adaptive" else 11,
        True,
    )
    assert "patch failed: mlir/table.txt:18" in stopped["what"]
    said = world.git("log", "--format=%B", "main..")
    assert "drops patches/one.patch: upstream has every change of it" in said
    assert "makes patches/two.patch anew" in said
    assert "ours 30" not in (world.checkout / "patches/two.patch").read_text()
    assert world.git("diff", "--name-only", "main", "--", "series", "patches").split() == [
        "patches/one.patch",
        "patches/two.patch",
        *(["series"] if by == "build" else []),
    ]
    listed = integrate(world, "status", "--no-fetch")
    shown = {file["file"]: file["dropped"] for file in listed["patch_files"]}
    assert shown == {"patches/none.patch": False, "patches/one.patch": True, "patches/two.patch": False}
    assert (listed["patches_apply_up_to"]["position"], list(listed["patches_apply_up_to"]["conflict"])) == (
        0,
        ["patches/two.patch"],
    )

    assert "does not apply" in integrate(world, "next", "--advance-to", broken)["said"]  # the documented reaction
    assert "nothing was tested" in integrate(world, "run")["remedy"]
    pick(world, "two.patch", patch(table(_20="theirs"), table(_20="ours 20"), tmp_path / "p"))
    assert integrate(world, "run")["outcome"] == "head"
    assert world.git("status", "--porcelain") == ""


def test_without_a_place_that_lists_it_a_person_drops_it_and_upstreams_fix_is_no_culprit(tmp_path: Path) -> None:
    world = built(tmp_path / "world", listed="")
    stopped = integrate(world, "run")
    assert (stopped["outcome"], stopped["good"]) == ("conflict", world.affecting[4])
    assert stopped["report"]["range"][0]["commit"] == world.commits["taken"]
    assert "patches/one.patch: upstream has every change of it" in stopped["what"]
    assert "upstream has every change" in integrate(world, "next", "--advance-to", world.commits["taken"])["said"]
    pick(world, "one.patch", None)
    stopped = integrate(world, "run")
    assert [each["commit"] for each in stopped["report"]["range"]] == [world.commits["broken"]]


@pytest.mark.parametrize(("way", "by"), [("hops", "build"), ("landed", "us"), ("merged", "build")])
def test_a_file_comes_back_with_its_mention_once_upstream_takes_the_change_back_whatever_the_hops(
    tmp_path: Path, way: str, by: str
) -> None:
    world = built(tmp_path / "world", by=by, history=undecided)
    before = {name: (world.checkout / name).read_bytes() for name in ("patches/one.patch", "series")}
    assert integrate(world, "run", "--until", world.commits["later"])["outcome"] == "head"
    assert not (world.checkout / "patches/one.patch").exists()
    assert "patches/one.patch [file, dropped]" in [row["text"] for row in integrate(world, "status")["patch_files"]]
    if way != "hops":
        branch = world.git("branch", "--show-current")
        integrate(world, "land")
        world.git("switch", "-q", "main")
        world.git("merge", "-q", "--no-ff" if way == "merged" else "--ff-only", branch)
        world.git("push", "-q")
        start(world.open())
    ended = integrate(world, "run")
    assert ended["outcome"] == "head"
    assert "is not there" not in ended["said"]
    assert "carries again patches/one.patch: upstream has taken a change of it back" in ended["said"]
    assert before == {name: (world.checkout / name).read_bytes() for name in before}
    assert "one.patch [file, dropped]" not in str(integrate(world, "status")["patch_files"])


def test_a_file_that_has_to_come_back_without_its_mention_waits_for_a_person(tmp_path: Path) -> None:
    world = built(tmp_path / "world", history=undecided)
    integrate(world, "run", "--until", world.commits["later"])
    (world.checkout / "series").write_text('"//patches:two.patch",\n')
    commit(world, "Say it otherwise")
    stopped = integrate(world, "run")
    assert (stopped["outcome"], stopped["report"]["range"][0]["commit"]) == ("conflict", world.commits["back"])
    assert "upstream has taken a change of it back: put it back with its mention" in stopped["what"]


def test_files_made_anew_for_a_fix_are_nobodys_work(tmp_path: Path) -> None:
    world = built(tmp_path / "world")
    (world.checkout / "smoke.sh").write_text(
        "#!/bin/sh\n! grep -q 'ours 30' $MLIR_RELEASE_UPSTREAM_SOURCE/mlir/*.txt\n"
    )
    commit(world, "Break at upstream's half")
    assert integrate(world, "run", "--until", world.commits["half"])["bad"] == world.commits["half"]
    made = Path(integrate(world, "fix")["worktree"])
    assert "ours 30" not in (made / "patches/two.patch").read_text()
    assert "nothing was committed there" in integrate(world, "fix", "--continue")["why"]
    assert integrate(world, "next", "--advance-to", world.commits["half"])["code"] == 0
    (world.checkout / "smoke.sh").write_text("#!/bin/sh\nfalse\n")
    commit(world, "Break everywhere")
    integrate(world, "run", "--until", world.commits["half"])
    assert integrate(world, "fix")["code"] == 0  # the old work tree goes


GOOD = patch(table(), table(_5="ours 5"), Path(tempfile.mkdtemp()))

#: What is no patch that can be followed -> what is said of it.
BAD = {
    "CRLF": (GOOD.replace(b"\n", b"\r\n"), "CRLF"),
    "no end of the last line": (GOOD[:-1], "its last line has no end"),
    "outside": (GOOD.replace(b"/mlir/", b"/../"), "outside of the upstream's tree"),
    "absolute": (GOOD.replace(b"/mlir/", b"//etc/"), "outside of the upstream's tree"),
    "git's own": (GOOD.replace(b"/mlir/", b"/.git/"), "outside of the upstream's tree"),
    "binary": (b"diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 0\n", "a binary file"),
    "a link": (b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n", "a link"),
    "cut": (GOOD[:-20], "git apply says: corrupt patch"),
    "huge": (GOOD + b"#" * (1 << 20), "bytes"),
    "there already": (b"--- /dev/null\n+++ b/mlir/table.txt\n@@ -0,0 +1 @@\n+x\n", "already exists"),
    "a folder": (b"--- /dev/null\n+++ b/mlir\n@@ -0,0 +1 @@\n+x\n", "is a folder there"),
    "fuzz": (GOOD.replace(b" line 3", b" line three"), "does not apply"),
}


def test_what_is_no_patch_is_refused_before_the_first_test_with_a_remedy(tmp_path: Path) -> None:
    world = built(tmp_path / "world")
    (world.checkout / "smoke.sh").write_text("#!/bin/sh\ntouch ../../../../ran\n")
    for name, (content, said) in BAD.items():
        pick(world, "-a one.patch", content)
        stopped = integrate(world, "run")
        assert said in stopped["what"] + stopped["why"], name
        assert ("take it out of files" in stopped["remedy"]) or "nothing was tested" in stopped["remedy"], name
    (world.checkout / "patches/-a one.patch").unlink()
    (world.checkout / "patches/-a one.patch").symlink_to("../series")
    commit(world, "Link")
    assert "no plain file" in integrate(world, "plan")["why"]
    (world.checkout / "patches/-a one.patch").unlink()
    pick(world, "-a one.patch", b"")
    assert "patches/-a one.patch [file, empty]" in [file["text"] for file in integrate(world, "status")["patch_files"]]
    assert not list(tmp_path.rglob("ran"))


def test_a_patch_that_applies_twice_is_told_and_dropped_only_once_upstream_has_taken_it(tmp_path: Path) -> None:
    world = built(tmp_path / "world")
    same = b" same\n" * 3
    pick(world, "one.patch", b"--- a/mlir/same.txt\n+++ b/mlir/same.txt\n@@ -1,6 +1,7 @@\n" + same + b"+same\n" + same)
    (world.checkout / "smoke.sh").write_text("#!/bin/sh\n")
    commit(world, "Test nothing")
    said = integrate(world, "run", "--until", world.commits["near"])["said"]
    assert "patches/one.patch applies, and so does its reverse" in said
    assert (world.checkout / "patches/one.patch").exists()
    assert integrate(world, "run", "--until", world.commits["taken"])["outcome"] == "head"
    assert not (world.checkout / "patches/one.patch").exists()


def test_patches_without_a_fork_are_refused_before_the_first_test(unpatched: World) -> None:
    integrate(unpatched, "start")
    assert "code" in integrate(unpatched, "patches", "add", unpatched.commits["needed"], "--why", "x")
    config = unpatched.checkout / "integrate.toml"
    config.write_text(re.sub(r"\[upstream.export\]\n.*\n.*\n", "", config.read_text()))
    commit(unpatched, "Name no fork")
    for command in ("run", "plan"):
        stopped = integrate(unpatched, command)
        assert (stopped["error"], "names no fork" in stopped["what"]) == ("config-invalid", True)
        assert "testing" not in stopped["said"]
