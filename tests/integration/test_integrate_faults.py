"""megabump's faults, each with the right behaviour; and bad input: one message each, nothing lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.errors import MachineError, ReleaseError, UsageError
from mlir_release.git import Git
from mlir_release.integrate import strategy as st
from mlir_release.integrate.patches import PatchConflict
from mlir_release.integrate.project import Project, open_project
from mlir_release.integrate.report import findings_in
from mlir_release.integrate.start import start
from mlir_release.integrate.walk import Walk
from mlir_release.worktree import is_ancestor
from tests.integration import miniature
from tests.integration.miniature import NOON, World

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = miniature.build(tmp_path / "world", patched=True, small=True)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made


def opened(world: World) -> Project:
    return open_project(world.checkout, clock=lambda: NOON)


@pytest.fixture
def walk(world: World) -> Walk:
    start(opened(world))
    return Walk(opened(world))


def reconfigure(world: World, old: str, new: str) -> None:
    path = world.checkout / "integrate.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    world.git("commit", "-q", "-a", "-m", "Configure")
    world.git("push", "-q")


# -- megabump's faults -------------------------------------------------------------------------------------------------


def test_megabump_advance_to_an_abbreviated_sha_goes_exactly_there(world: World, walk: Walk) -> None:
    walk.next(to=world.affecting[0][:10])
    assert walk.observe().base == world.affecting[0]


def test_megabump_advance_to_a_tag_goes_exactly_there(world: World, walk: Walk) -> None:
    miniature.git(world.checkout / "third_party/llvm", "tag", "v1", world.affecting[0])
    walk.next(to="v1")
    assert walk.observe().base == world.affecting[0]


def test_megabump_advance_to_a_sha_out_of_range_is_refused(world: World, walk: Walk) -> None:
    walk.next(to=world.affecting[0])
    head = world.git("rev-parse", "HEAD")
    for revision in (world.commits["bug"], world.affecting[0], "0" * 40, "feedbeef"):
        with pytest.raises(UsageError) as caught:
            walk.next(to=revision)
        assert caught.value.id in ("advance-out-of-range", "upstream-commit-unknown")
    assert world.git("rev-parse", "HEAD") == head


def test_megabump_a_second_next_after_a_conflict_keeps_the_patch(world: World, walk: Walk) -> None:
    before = walk.observe()
    state = (world.git("rev-parse", "HEAD"), world.git("status", "--porcelain"))
    for _ in range(3):
        with pytest.raises(PatchConflict) as caught:
            walk.next(to=world.commits["conflict"])
        assert caught.value.files == ("mlir/notes.txt",)
        assert all(f"({number})" in caught.value.remedy for number in (1, 2, 3))
        assert (world.git("rev-parse", "HEAD"), world.git("status", "--porcelain")) == state
    assert walk.observe().patches == before.patches
    assert len(before.patches) == 3


def test_megabump_a_rejected_export_commits_nothing(world: World, walk: Walk) -> None:
    hook = world.root / "fork.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    hook.chmod(0o755)
    head = world.git("rev-parse", "HEAD")
    with pytest.raises(ReleaseError) as caught:
        walk.next()
    assert caught.value.id == "push-failed"
    assert world.git("rev-parse", "HEAD") == head
    hook.unlink()
    walk.next()
    assert is_ancestor(Git(world.root / "fork.git"), walk.observe().pin, "downstream-llvm")


def test_megabump_an_export_that_moved_meanwhile_is_joined(world: World, walk: Walk) -> None:
    fork = world.root / "fork.git"
    old = miniature.git(fork, "rev-parse", "downstream-llvm")
    walk.next()
    pin = walk.observe().pin
    head = miniature.git(fork, "rev-parse", "downstream-llvm")
    assert miniature.git(fork, "rev-parse", f"{head}^1", f"{head}^2").split() == [pin, old]
    assert miniature.git(fork, "rev-parse", f"{head}^{{tree}}") == miniature.git(fork, "rev-parse", f"{pin}^{{tree}}")


def test_megabump_an_https_remote_is_exported_to(world: World, walk: Walk) -> None:
    assert walk.project.config.export is not None
    assert walk.project.config.export.remote.startswith("https://")
    walk.next()
    assert is_ancestor(Git(world.root / "fork.git"), walk.observe().pin, "downstream-llvm")


def test_megabump_waiting_at_head_goes_on_when_upstream_moves(world: World) -> None:
    reconfigure(world, '["./smoke.sh"]', '["true"]')
    start(opened(world))
    walk = Walk(opened(world))
    walk.run(st.Adaptive(), until=world.affecting[-4])
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "mlir_release", "integrate", "-C", str(world.checkout)]
    waiting = subprocess.Popen(
        [*command, "run", "--wait", "--every", "1", "--until", world.affecting[-4]],
        env=environment,
        stderr=subprocess.PIPE,
    )
    assert waiting.stderr is not None
    looked: list[bytes] = []
    for line in waiting.stderr:
        looked += [line] if b"looking again" in line else []
        if len(looked) == 2:
            break
    waiting.kill()
    waiting.wait()
    waiting.stderr.close()
    assert len(looked) == 2


def test_megabump_stray_files_are_not_committed(world: World, walk: Walk) -> None:
    (world.checkout / "stray.txt").write_text("mine\n")
    walk.next()
    assert world.git("show", "--name-only", "--format=", "HEAD").split() == ["third_party/llvm"]
    assert (world.checkout / "stray.txt").read_text() == "mine\n"


def test_megabump_a_crash_between_moving_llvm_and_committing_skips_nothing(world: World, walk: Walk) -> None:
    llvm = world.checkout / "third_party/llvm"
    pin = walk.observe().pin
    walk.next()
    miniature.git(llvm, "checkout", "-q", "--detach", pin)  # as if killed before the work tree followed
    walk.next()
    passed = [walk.project.trailers(commit).get("Integrate-Upstream") for commit in ("HEAD~1", "HEAD")]
    assert passed == world.affecting[:2]


def test_megabump_logs_that_are_not_utf8_are_read(world: World) -> None:
    reconfigure(world, '["./smoke.sh"]', """["sh", "-c", "printf 'a.c:1:2: error: caf\\\\351\\\\n'; exit 1"]""")
    start(opened(world))
    walk = Walk(opened(world))
    record = walk.probe(walk.observe(), world.affecting[0])
    assert record.verdict is st.Verdict.BAD
    assert record.findings[0]["text"] == "error: caf\\xe9"
    assert findings_in(b"\xff\xfe")[:0] == []


# -- bad input ---------------------------------------------------------------------------------------------------------


def refused(action: Any, identifier: str) -> ReleaseError:
    with pytest.raises(ReleaseError) as caught:
        action()
    assert caught.value.id == identifier
    assert caught.value.remedy
    return caught.value


def test_no_configuration(world: World) -> None:
    (world.checkout / "integrate.toml").unlink()
    refused(lambda: opened(world), "integrate-config-missing")


def test_not_a_repository(tmp_path: Path) -> None:
    refused(lambda: open_project(tmp_path), "not-a-checkout")


def test_a_path_that_is_no_submodule(world: World) -> None:
    reconfigure(world, "third_party/llvm", "app.c")
    refused(lambda: opened(world), "carrier-not-submodule")


def test_a_dirty_tree(world: World, walk: Walk) -> None:
    (world.checkout / "app.c").write_text("mine\n")
    head = world.git("rev-parse", "HEAD")
    assert "app.c" in refused(walk.next, "checkout-has-changes").where
    assert world.git("rev-parse", "HEAD") == head
    assert (world.checkout / "app.c").read_text() == "mine\n"


def test_a_detached_head(world: World) -> None:
    world.git("checkout", "-q", "--detach")
    refused(lambda: Walk(opened(world)), "integrate-detached")


def test_not_started(world: World) -> None:
    refused(lambda: Walk(opened(world)), "integrate-not-started")


def test_an_upstream_that_was_force_pushed(world: World, walk: Walk) -> None:
    head = world.git("rev-parse", "HEAD")
    upstream = world.root / "upstream.git"
    miniature.git(upstream, "update-ref", "refs/heads/main", world.affecting[1])
    refused(walk.next, "upstream-rewritten")
    assert world.git("rev-parse", "HEAD") == head


def test_an_unreachable_upstream_and_remote(world: World, walk: Walk) -> None:
    (world.root / "upstream.git").rename(world.root / "gone.git")
    refused(walk.next, "upstream-unreachable")
    (world.root / "gone.git").rename(world.root / "upstream.git")
    (world.root / "origin.git").rename(world.root / "gone.git")
    refused(lambda: start(opened(world)), "remote-unreachable")
    refused(lambda: walk.store.pull("origin"), "remote-unreachable")


@pytest.mark.parametrize("command", ['["./no-such-command"]', '["sh", "-c", "no-such-command"]'])
def test_a_smoke_command_that_does_not_exist_is_no_verdict(world: World, command: str) -> None:
    reconfigure(world, '["./smoke.sh"]', command)
    start(opened(world))
    walk = Walk(opened(world))
    refused(lambda: walk.run(st.Adaptive()), "smoke-command-missing")
    assert walk.store.load() == {}


def test_a_full_disk_while_recording_loses_nothing(world: World, walk: Walk) -> None:
    seen = walk.observe()
    record = walk.probe(seen, world.affecting[0])
    walk.store.record(record)
    other = walk.probe(seen, world.affecting[1])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # writing a file fails, as on a full disk
    try:
        with pytest.raises(MachineError) as caught:
            walk.store.record(other)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.id == "verdict-not-recorded"
    assert set(walk.store.load()) == {record.key}
    walk.store.record(other)
    assert set(walk.store.load()) == {record.key, other.key}


def test_a_treeless_clone_is_refused(world: World) -> None:
    llvm = world.checkout / "third_party/llvm"
    miniature.git(llvm, "config", "remote.origin.partialclonefilter", "tree:0")
    assert "blob:none" in refused(lambda: opened(world), "clone-treeless").remedy


def test_carrying_without_an_export_is_refused(world: World) -> None:
    text = (world.checkout / "integrate.toml").read_text()
    reconfigure(world, text[text.index("[export]") :], "")
    start(opened(world))
    refused(Walk(opened(world)).next, "export-not-configured")


def test_a_timeout_is_bad_and_leaves_nothing_running(world: World) -> None:
    reconfigure(world, "timeout-minutes = 2", "timeout-minutes = 0.005\nattempts = 1")
    reconfigure(world, '["./smoke.sh"]', '["sleep", "1000"]')
    start(opened(world))
    walk = Walk(opened(world))
    record = walk.probe(walk.observe(), world.affecting[0])
    assert (record.verdict, record.exits) == (st.Verdict.BAD, (None,))
