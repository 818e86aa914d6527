"""megabump's faults, each with the right behaviour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.errors import UsageError
from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import is_ancestor
from mlir_release.integrate.patches.patches import PatchConflict
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.in_process import invoke
from tests.refusals import refused

if TYPE_CHECKING:
    from tests.conftest import Pauses
    from tests.integrate.integration.miniature import World


def test_megabump_advance_to_an_abbreviated_sha_or_a_tag_goes_exactly_there(world: World, walk: Walk) -> None:
    miniature.git(world.checkout / "third_party/llvm", "tag", "v1", world.affecting[1])
    for revision, commit in zip((world.affecting[0][:10], "v1"), world.affecting, strict=False):
        walk.next(to=revision)
        assert walk.observer.look().base == commit


def test_megabump_advance_to_a_sha_out_of_range_is_refused(world: World, walk: Walk) -> None:
    walk.next(to=world.affecting[0])
    head = world.git("rev-parse", "HEAD")
    for revision in (world.commits["bug"], world.affecting[0], "0" * 40, "feedbeef"):
        with pytest.raises(UsageError) as caught:
            walk.next(to=revision)
        assert caught.value.id in ("revision-unsuitable", "revision-unknown")
    assert world.git("rev-parse", "HEAD") == head


def test_megabump_a_second_next_after_a_conflict_keeps_the_patch(world: World, walk: Walk) -> None:
    before = walk.observer.look()
    state = (world.git("rev-parse", "HEAD"), world.git("status", "--porcelain"))
    for _ in range(3):
        with pytest.raises(PatchConflict) as caught:
            walk.next(to=world.commits["conflict"])
        assert caught.value.files == ("mlir/notes.txt",)
        assert all(f"({number})" in caught.value.remedy for number in (1, 2, 3))
        assert (world.git("rev-parse", "HEAD"), world.git("status", "--porcelain")) == state
    assert walk.observer.look().patches == before.patches
    assert len(before.patches) == 3


def test_megabump_a_rejected_export_by_https_commits_nothing(world: World, walk: Walk) -> None:
    export = walk.project.upstream.config.export
    assert export is not None
    assert export.remote.startswith("https://")  # to which megabump exports nothing, with exit code 0
    hook = world.root / "fork.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    hook.chmod(0o755)
    head = world.git("rev-parse", "HEAD")
    refused(walk.next, "push-failed")
    assert world.git("rev-parse", "HEAD") == head
    hook.unlink()
    walk.next()
    assert is_ancestor(Git(world.root / "fork.git"), walk.observer.look().pin, "downstream-llvm")


def test_megabump_waiting_at_head_goes_on_when_upstream_moves(world: World, pauses: Pauses) -> None:
    world.reconfigure('["./smoke.sh"]', '["true"]')
    upstream = world.root / "upstream.git"
    miniature.git(upstream, "update-ref", "refs/heads/main", world.affecting[1])
    world.begin()

    def meanwhile() -> None:
        if pauses.count(99) == 2:
            raise KeyboardInterrupt
        miniature.git(upstream, "update-ref", "refs/heads/main", world.affecting[2])

    pauses.meanwhile = meanwhile
    done = invoke(world, "run", "--wait", "--every", "99")
    assert done.stderr.count("checking again in 99 seconds") == pauses.count(99) == 2
    assert Walk(world.open()).observer.look().base == world.affecting[2]


def test_megabump_stray_files_are_not_committed(world: World, walk: Walk) -> None:
    (world.checkout / "stray.txt").write_text("mine\n")
    walk.next()
    assert world.git("show", "--name-only", "--format=", "HEAD").split() == ["third_party/llvm"]
    assert (world.checkout / "stray.txt").read_text() == "mine\n"


def test_megabump_a_crash_between_moving_llvm_and_committing_skips_nothing(world: World, walk: Walk) -> None:
    llvm = world.checkout / "third_party/llvm"
    pin = walk.observer.look().pin
    walk.next()
    miniature.git(llvm, "checkout", "-q", "--detach", pin)  # as if killed before the work tree followed
    walk.next()
    upstream = "--format=%(trailers:key=Integrate-Upstream,valueonly)"
    passed = [miniature.git(world.checkout, "log", "-1", upstream, commit) for commit in ("HEAD~1", "HEAD")]
    assert passed == world.affecting[:2]
