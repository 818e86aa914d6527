"""Bad input, and machines that fail: each is one message, and nothing is lost."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from mlir_release.ground import strategy as st
from mlir_release.ground.errors import MachineError
from mlir_release.ground.git import locks
from mlir_release.ground.git.repository import Git
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.state import ProbeStore
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.refusals import refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integrate.integration.miniature import World


# -- what somebody got wrong, on the command line ----------------------------------------------------------------------


def everything(world: World) -> dict[str, str]:
    """All that could be lost: every ref of every repository, the work tree, where the submodule stands."""
    found = {
        name: miniature.git(world.root / name, "for-each-ref", "--format=%(refname) %(objectname)")
        for name in ("downstream", "origin.git", "fork.git")
        if (world.root / name).is_dir()
    }
    found["HEAD"] = world.git("rev-parse", "HEAD") + (world.checkout / ".git" / "HEAD").read_text()
    found["status"] = world.git("status", "--porcelain")
    for path in sorted(world.checkout.iterdir()):
        if path.is_file():
            found[path.name] = path.read_bytes().hex()
    if (world.checkout / "third_party" / "llvm" / ".git").exists():
        found["llvm"] = miniature.git(world.checkout / "third_party" / "llvm", "rev-parse", "HEAD")
    return found


def edit(old: str, new: str, name: str = "integrate.toml") -> Callable[[World], None]:
    def change(world: World) -> None:
        path = world.checkout / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def commit(old: str, new: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        edit(old, new)(world)
        world.git("commit", "-q", "-a", "-m", "Mistake")

    return change


def write(name: str, content: bytes) -> Callable[[World], object]:
    return lambda world: (world.checkout / name).write_bytes(content)


def git(*arguments: str) -> Callable[[World], object]:
    return lambda world: world.git(*arguments)


def gone(name: str) -> Callable[[World], object]:
    return lambda world: (world.root / name).rename(world.root / "gone")


def rewritten(world: World) -> None:
    miniature.git(world.root / "upstream.git", "update-ref", "refs/heads/main", world.commits["bug"])


def not_executable(world: World) -> None:
    (world.checkout / "smoke.sh").chmod(0o644)
    world.git("commit", "-q", "-a", "-m", "Mistake")


def shallow(world: World) -> None:
    world.git("submodule", "-q", "deinit", "-f", "third_party/llvm")
    shutil.rmtree(world.checkout / ".git" / "modules")
    world.git("config", "submodule.third_party/llvm.url", f"file://{world.root}/fork.git")
    world.git("submodule", "-q", "update", "--init", "--depth=1", "third_party/llvm")


EXPORT = """[upstream.export]
remote = "https://mini.invalid/fork.git"
branch = "downstream-llvm"
"""

#: How ``integrate.toml`` says where the pin is.
DECLARED = 'submodule = "third_party/llvm"'

TABLE = [
    (
        "input-missing",
        "there is no integrate.toml in this repository",
        "run",
        lambda world: (world.checkout / "integrate.toml").unlink(),
    ),
    ("config-invalid", "integrate.toml: ", "run", edit("[smoke]", "[smoke]\ncolour = 1")),
    ("config-invalid", "integrate.toml: ", "run", write("integrate.toml", "# caf\xe9\n".encode("latin-1"))),
    ("config-invalid", "is not a submodule at", "run", edit("third_party/llvm", "app.c")),
    ("config-invalid", "is not a submodule at", "run", edit("third_party/llvm", "third_party/nothing")),
    ("pin-invalid", "does not hold a full commit at", "run", commit(DECLARED, 'pin-file = "app.c"')),
    ("pin-invalid", "does not hold a full commit at", "run", commit(DECLARED, 'pin-file = "nothing"')),
    ("checkout-dirty", "there are changes that are not committed", "run", edit("int main", "int  main", "app.c")),
    ("checkout-dirty", "there are changes that are not committed", "next", edit("int main", "int  main", "app.c")),
    ("integrate-not-started", "HEAD is detached", "run", git("checkout", "-q", "--detach")),
    ("integrate-not-started", "is not an integrate branch", "run", git("switch", "-q", "main")),
    ("upstream-rewritten", "force-pushed", "run", rewritten),
    ("network-failed", "the upstream repository can't be read", "run", gone("upstream.git")),
    (
        "network-failed",
        "the upstream repository can't be read",
        "run",
        commit("[upstream]", '[upstream]\nbranch = "nothing"'),
    ),
    ("network-failed", "the remote 'origin' can't be read", "run --push", gone("origin.git")),
    ("network-failed", "the remote 'origin' can't be read", "start", gone("origin.git")),
    ("network-failed", "the export remote can't be read", "next", gone("fork.git")),
    ("config-invalid", "integrate.toml names no fork of LLVM", "next", commit(EXPORT, "")),
    ("tool-missing", "the smoke command can't be run", "run", commit("./smoke.sh", "./nothing.sh")),
    ("tool-missing", "the smoke command can't be run", "run", not_executable),
    ("revision-unknown", "names no commit of the upstream", "next --advance-to feedbeef", lambda world: None),
    ("revision-unsuitable", "can't advance to", "next --advance-to HEAD~1", lambda world: None),
    (
        "clone-incomplete",
        "this clone of the upstream has no trees",
        "run",
        git("-C", "third_party/llvm", "config", "remote.origin.partialclonefilter", "tree:0"),
    ),
    ("clone-incomplete", "the clone of the upstream ends before", "run", shallow),
]


@pytest.mark.parametrize(("identifier", "said", "command", "mistake"), TABLE)
def test_a_mistake_is_one_message_and_loses_nothing(
    world: World, walk: Walk, identifier: str, said: str, command: str, mistake: Callable[[World], object]
) -> None:
    record = walk.probe(walk.observer.look(), world.affecting[0])
    walk.store.record(record)
    mistake(world)
    before = everything(world)
    line = [sys.executable, "-m", "mlir_release", "integrate", "-C", str(world.checkout), *command.split()]
    done = subprocess.run([*line, "--json"], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    printed = json.loads(done.stdout)
    assert (printed["error"], said in printed["what"]) == (identifier, True), printed
    assert printed["remedy"]
    assert done.returncode == printed["exit_code"] != 0
    assert done.stderr.count("error[") == 1
    assert everything(world) == before
    assert set(ProbeStore(Git(world.checkout), walk.branch, walk.store.signature).load()) == {record.key}


PINS = {
    "nothing in it": b"",
    "an abbreviation": b"0123456789ab\n",
    "not a commit": b"main\n",
    "two commits": b"0" * 40 + b"\n" + b"1" * 40 + b"\n",
    "not text": b"\xff\xfe\x00" * 20,
}


@pytest.mark.parametrize("content", PINS.values(), ids=PINS.keys())
def test_a_pin_file_that_holds_no_pin(pinned: World, content: bytes) -> None:
    (pinned.checkout / "llvm-project.version").write_bytes(content)
    pinned.publish("Mistake")
    refs = pinned.git("for-each-ref")
    refused(lambda: start(pinned.open()), "pin-invalid")
    assert pinned.git("for-each-ref") == refs


# -- the machine -------------------------------------------------------------------------------------------------------


def test_a_full_disk_while_recording_loses_nothing(world: World, walk: Walk) -> None:
    seen = walk.observer.look()
    record = walk.probe(seen, world.affecting[0])
    other = structs.replace(record, outer="0" * 40)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # writing a file fails, as on a full disk
    try:
        with pytest.raises(MachineError) as caught:
            walk.store.record(other)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.id == "system-refused"
    assert set(walk.store.load()) == {record.key}
    walk.store.record(other)
    assert set(walk.store.load()) == {record.key, other.key}


def test_a_timeout_is_bad_and_leaves_nothing_running(world: World) -> None:
    world.reconfigure("timeout-minutes = 2", "timeout-minutes = 0.005\nattempts = 1")
    world.reconfigure('["./smoke.sh"]', '["sleep", "1000"]')
    walk = world.begin()
    record = walk.probe(walk.observer.look(), world.affecting[0])
    assert (record.verdict, record.exits) == (st.Verdict.BAD, (None,))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("kill -KILL $$", "SIGKILL"),
        ("sh -c 'kill -TERM $$'; exit $?", "SIGTERM"),
        ("exit 130", "SIGINT"),
        ("echo 'c++: fatal error: Killed signal terminated program cc1plus'; exit 1", "cc1plus"),
        ("echo 'clang++: error: unable to execute command: Killed'; exit 2", "unable to execute command"),
    ],
)
def test_a_smoke_test_in_which_something_was_killed_is_no_verdict(world: World, script: str, why: str) -> None:
    (world.checkout / "smoke.sh").write_text(f"#!/bin/sh\n{script}\n")
    world.publish("Run out of memory")
    walk = world.begin()
    error = refused(lambda: walk.run(st.Adaptive()), "interrupted", "no verdict")
    assert why in f"{error.what} {error.why}"
    assert walk.store.load() == {}


@pytest.mark.parametrize("script", ["kill -SEGV $$", "echo 'error: the test Killed it'; exit 1", "exit 139"])
def test_a_program_that_crashes_is_a_failure_like_any_other(world: World, script: str) -> None:
    (world.checkout / "smoke.sh").write_text(f"#!/bin/sh\n{script}\n")
    world.publish("Crash")
    start(world.open())
    assert Walk(world.open()).run(st.Adaptive()).outcome == "broken-base"


#: A test that fills the disk that it is told to; then it passes, or fails as it is told to.
FILLING = """#!/bin/sh
if [ -n "$FILL" ]; then cat /dev/zero > "$FILL/zeros" 2>/dev/null; fi
exit ${FAIL:-0}
"""

#: Everything of the downstream on a disk of its own; what a command says, and how many verdicts there are after it.
ON_A_SMALL_DISK = """
set -e
cp -a "$W/downstream" "$W/aside"
mount -t tmpfs -o size=24m tmpfs "$W/downstream"
cp -a "$W/aside/." "$W/downstream"
attempt() {
  "$PYTHON" -m mlir_release integrate -C "$W/downstream" probe --json "$1" > "$W/said" 2> "$W/complained" || true
  sed -n 's/^ *"error": *"\\(.*\\)",*$/\\1/p; s/^ *"verdict": *"\\(.*\\)",*$/\\1/p' "$W/said" | head -n 1
  grep -c Traceback "$W/complained" || true
  rm -f "$W/downstream/zeros"
  git -C "$W/downstream" ls-tree -r "refs/mlir-release/probes/$BRANCH" | wc -l
  git -C "$W/downstream" fsck --connectivity-only > /dev/null
}
attempt "$FIRST"
FILL="$W/downstream" attempt "$SECOND"
FAIL=1 FILL="$W/downstream" attempt "$SECOND"
attempt "$SECOND"
"""


def test_a_disk_that_a_smoke_test_fills_costs_no_verdict(world: World, tmp_path: Path) -> None:
    isolated = next((c for c in (["unshare", "-rm"], ["unshare", "-m"]) if _mounts(c, tmp_path)), None)
    if isolated is None:
        pytest.skip("A FULL DISK WAS NOT TRIED: nothing can be mounted here, not even in a user namespace")
    (world.checkout / "smoke.sh").write_text(FILLING)
    world.reconfigure("timeout-minutes = 2", 'timeout-minutes = 2\nattempts = 1\nenvironment = ["FILL", "FAIL"]')
    branch = start(world.open())
    environment = {
        **os.environ, "W": str(world.root), "PYTHON": sys.executable, "BRANCH": branch,
        "FIRST": world.affecting[0], "SECOND": world.affecting[1],
    }  # fmt: skip
    command = [*isolated, "sh", "-c", ON_A_SMALL_DISK]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.split())
    said = list(zip(lines, lines, lines, strict=True))
    assert said == [("good", "0", "1"), ("system-refused", "0", "1"), ("disk-full", "0", "1"), ("good", "0", "2")]


def _mounts(isolated: list[str], folder: Path) -> bool:
    try:
        command = [*isolated, "mount", "-t", "tmpfs", "tmpfs", str(folder)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


#: The first one waits until it may go on; each says where it works.
WAITING = """#!/bin/sh
if mkdir "$RENDEZVOUS/first" 2>/dev/null; then
  pwd > "$RENDEZVOUS/orphan.part"
  mv "$RENDEZVOUS/orphan.part" "$RENDEZVOUS/orphan"
  cat "$RENDEZVOUS/go"
else
  pwd > "$RENDEZVOUS/other"
fi
"""


def test_a_smoke_test_that_outlives_a_killed_walk_keeps_its_slot_until_it_ends(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = tmp_path / "rendezvous"
    meeting.mkdir()
    os.mkfifo(meeting / "go")
    monkeypatch.setenv("RENDEZVOUS", str(meeting))
    world.reconfigure("[smoke]", '[smoke]\nenvironment = ["RENDEZVOUS"]\nattempts = 1')
    (world.checkout / "smoke.sh").write_text(WAITING)
    world.publish("Wait")
    start(world.open())
    line = [sys.executable, "-m", "mlir_release", "integrate", "-C", str(world.checkout), "probe", world.affecting[0]]
    silent: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # Nobody who reads from the pipe gets to its end before this does.
    with (meeting / "go").open("r+b", buffering=0), subprocess.Popen(line, **silent) as killed:
        while not (meeting / "orphan").exists():
            assert killed.poll() is None
            time.sleep(0.05)
        killed.kill()
        killed.wait()
        orphan = Path((meeting / "orphan").read_text().strip())
        walk = Walk(world.open())
        assert walk.store.load() == {}
        record = walk.probe(walk.observer.look(), world.affecting[0])
        assert record.verdict is st.Verdict.GOOD
        assert Path((meeting / "other").read_text().strip()) != orphan
        assert (orphan / "smoke.sh").exists()  # nobody cleaned up there
    with locks.exclusive(orphan.parent / "lock"):  # waits for the orphan's end
        pass
    walk.probe(walk.observer.look(), world.affecting[1])
    assert Path((meeting / "other").read_text().strip()) == orphan
