"""A walk that is killed after any of its git commands, and run again, ends as if nothing had happened."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlir_release.git import Git, Signature
from mlir_release.integrate.state import ProbeStore
from tests.integration import miniature
from tests.integration.miniature import NOON, World

ROOT = Path(__file__).resolve().parents[2]

#: Set it to try every kill point; else this many, evenly spread.
EXHAUSTIVE = "MLIR_RELEASE_EXHAUSTIVE"
SAMPLE = 10

#: First on the PATH: counts git commands, and after the chosen one ends its whole process group.
SHIM = """#!/bin/sh
"{git}" "$@"
code=$?
count=$(($(cat "$KILL_COUNT") + 1))
echo $count >"$KILL_COUNT"
[ "$count" = "$KILL_AT" ] && kill -KILL 0
exit $code
"""


def run(world: World, until: str, *, strategy: str, kill_at: int = 0) -> tuple[int, int]:
    """Exit code and number of git commands of one process."""
    shim = world.root / "bin"
    shim.mkdir(exist_ok=True)
    (shim / "git").write_text(SHIM.format(git=shutil.which("git")))
    (shim / "git").chmod(0o755)
    count = world.root / "count"
    count.write_text("0\n")
    environment = {
        **os.environ,
        **world.environment(),
        "PATH": f"{shim}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "KILL_COUNT": str(count),
        "KILL_AT": str(kill_at),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.integrate_scenario", str(world.checkout), strategy, until],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    if kill_at == 0:
        assert done.returncode == 0, done.stderr.decode()
    return done.returncode, int(count.read_text())


def end_state(world: World) -> dict[str, Any]:
    """Everything that must be the same: refs with their whole history (ids), verdicts, the work tree, the patches."""
    state: dict[str, Any] = {}
    for name in ("downstream", "origin.git", "fork.git"):
        refs = Git(world.root / name).refs("refs/heads")
        state[name] = {ref.name: ref.commit for ref in refs}
    signature = Signature(name="x", email="x@example.com", when=NOON)
    for name in ("downstream", "origin.git"):
        store = ProbeStore(Git(world.root / name), "integrates/llvm-20261120", signature)
        state[f"verdicts in {name}"] = {key: (r.upstream, r.verdict) for key, r in store.load().items()}
    state["HEAD"] = world.git("symbolic-ref", "HEAD")
    state["status"] = world.git("status", "--porcelain")
    if (world.checkout / "third_party/llvm").exists():
        llvm = world.checkout / "third_party/llvm"
        state["llvm"] = miniature.git(llvm, "rev-parse", "HEAD")
        state["patches"] = miniature.git(llvm, "log", "--format=%s", "-n", "4")
    return state


@pytest.mark.parametrize(("carrier", "strategy"), [("submodule", "linear"), ("pin-file", "adaptive")])
def test_a_killed_walk_ends_the_same(tmp_path: Path, carrier: str, strategy: str) -> None:
    template = miniature.build(tmp_path / "template", carrier=carrier, patched=True, small=True)
    until = template.commits["rename scale"]
    straight = miniature.copy(template.root, tmp_path / "straight")
    _, points = run(straight, until, strategy=strategy)
    expected = end_state(straight)
    assert expected["verdicts in origin.git"]
    stride = 1 if os.environ.get(EXHAUSTIVE) else max(1, points // SAMPLE)
    tried = range(1, points + 1, stride)
    for kill_at in tried:
        world = miniature.copy(template.root, tmp_path / f"killed-{kill_at}")
        code, _ = run(world, until, strategy=strategy, kill_at=kill_at)
        assert code == -9, f"not killed at {kill_at}"
        run(world, until, strategy=strategy)
        assert end_state(world) == expected, f"killed after git command {kill_at}"
        shutil.rmtree(world.root)
    print(f"{carrier}, {strategy}: killed after {len(tried)} of {points} git commands")
