"""What is named is what is meant: revisions, branches of today, and messages that are not UTF-8."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from mlir_release.ground.git.repository import Git
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.deliver.land import land
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.miniature import URL, World
from tests.refusals import refused


@pytest.fixture(params=["submodule", "pin-file"])
def world(request: pytest.FixtureRequest, make_world: Any) -> World:
    made: World = make_world(request.param)
    return made


def test_the_upstreams_branch_means_its_head_and_not_a_local_branch_of_that_name(world: World) -> None:
    start(world.open())
    project = world.open()
    project.upstream.run("update-ref", "refs/heads/main", world.affecting[0])  # as a clone of long ago has it
    for name in ("main", "origin/main"):
        assert project.upstream.commit(name).sha == miniature.git(world.root / "upstream.git", "rev-parse", "main")
    walk = Walk(project)
    walk.next(to="main")
    assert walk.observer.look().ahead == ()


def test_a_tag_of_the_upstream_is_fetched(world: World) -> None:
    upstream = world.root / "upstream.git"
    miniature.git(upstream, "tag", "-a", "-m", "one", "llvmorg-1-init", world.affecting[1])
    miniature.git(upstream, "tag", "aside", miniature.git(upstream, "commit-tree", "-m", "x", "main^{tree}"))
    walk = world.begin()
    for revision, reason in (("aside", "revision-unsuitable"), ("no-such-tag", "revision-unknown")):
        refused(lambda revision=revision: walk.next(to=revision), reason)  # type: ignore[misc]
    assert walk.observer.look().ahead[0].sha == world.affecting[0]
    walk.next(to="llvmorg-1-init")
    assert walk.observer.look().base == world.affecting[1]


def test_a_branch_of_today_is_taken_if_only_the_remote_has_it(world: World) -> None:
    miniature.git(world.root / "origin.git", "update-ref", "refs/heads/integrates/llvm-20261120", "refs/heads/main")
    assert start(world.open(), publish=True) == "integrates/llvm-20261120_1"
    assert start(world.open()) == "integrates/llvm-20261120_1"  # not advanced since
    assert world.git("rev-parse", "HEAD^{tree}", "HEAD^") == world.git("rev-parse", "main^{tree}", "origin/main")
    base = world.open().upstream.base_of(world.open().pin(), world.affecting[-1])
    assert world.git("log", "-1", "--format=%s") == f"Start integrating LLVM from {base[:12]}"
    Walk(world.open()).next()
    assert start(world.open()) == "integrates/llvm-20261120_2"


def test_messages_that_are_not_utf8_survive(world: World) -> None:
    """A subject upstream, and a carried patch's message, in Latin-1 without saying so."""
    upstream = world.root / "upstream.git"
    work = world.root / "work"
    miniature.git(world.root, "clone", "-q", f"{URL}upstream.git", str(work))

    def commit(path: str, message: bytes, onto: str) -> str:
        miniature.git(work, "checkout", "-q", "--detach", onto)
        (work / path).write_text("new\n")
        miniature.git(work, "add", path)
        miniature.git(work, "commit", "-q", "-m", "(to be replaced: git commit makes UTF-8 of it)")
        git = Git(work)
        head = git.run("cat-file", "commit", "HEAD").stdout.partition(b"\n\n")[0]
        made = git.run("hash-object", "-t", "commit", "-w", "--stdin", input=head + b"\n\n" + message)
        sha = made.stdout.decode().strip()
        git.run("update-ref", f"refs/heads/{sha}", sha)
        return sha

    latest = commit("mlir/new.c", b"[mlir] Caf\xe9\n", world.affecting[-1])
    miniature.git(upstream, "fetch", "-q", str(work), f"{latest}:refs/heads/main")
    base = world.open().pin()
    message = b"Na\xefve\n\nCarried-Kind: local\nCarried-Why: caf\xe9\n"
    patch = commit("mlir/ours.c", message, base)
    miniature.git(work, "push", "-q", f"{URL}fork.git", f"{patch}:refs/heads/downstream-llvm")
    walk = world.begin()
    walk.project.upstream.run("fetch", "-q", str(work), patch, remote=str(work))
    walk.next(to=base, resolved=patch)
    walk.next(to=latest)
    seen = walk.observer.look()
    raw = Git(walk.project.upstream.directory).run("cat-file", "commit", seen.pin).stdout
    assert raw.partition(b"\n\n")[2] == message
    command = [sys.executable, "-m", "mlir_release", "integrate", "-C", str(world.checkout)]
    for arguments in (["patches", "list"], ["patches", "explain", seen.pin], ["status"], ["range", base, latest]):
        done = subprocess.run([*command, *arguments], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert b"Na\xef\xbf\xbdve" in done.stdout or b"Caf\xef\xbf\xbd" in done.stdout
    elsewhere = subprocess.run([*command, "range", base, latest, "llvm/docs"], capture_output=True, check=True)
    assert elsewhere.stdout == b""
    land(walk, squash=True, pulls=None)
    assert "caf\ufffd" in world.git("log", "-1", "--format=%B")
