"""A walk over two upstreams, and a step that drops a patch, end as if never killed, wherever they are killed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.git.repository import Git, Signature
from mlir_release.integrate.deliver.branch import carry, start
from mlir_release.integrate.state import ProbeStore
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature, pair
from tests.integrate.integration.killing import HERE, NEEDS_COMPILER
from tests.integrate.integration.miniature import NOON
from tests.kill import kill_everywhere

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kill import Killing

pytestmark = NEEDS_COMPILER


def end_state(folder: Path) -> dict[str, Any]:
    """What must be the same: the branches with all of their history, the verdicts, and the work tree."""
    world = pair.load(folder)
    os.environ.update(world.environment())
    state: dict[str, Any] = {}
    signature = Signature(name="x", email="x@example.com", when=NOON)
    for name in ("downstream", "origin.git", "fork.git"):
        state[name] = {ref.name: ref.commit for ref in Git(world.root / name).refs("refs/heads")}
    branch = world.git("branch", "--show-current")
    for name in ("downstream", "origin.git"):
        store = ProbeStore(Git(world.root / name), branch, lambda: signature)
        state[f"verdicts in {name}"] = {key: str(record.verdict) for key, record in store.load().items()}
    state["status"] = world.git("status", "--porcelain")
    state["submodules"] = world.git("submodule", "status")
    return state


def kill(
    folder: Path, scenario: str, remotes: str, prepare: Callable[[Path], None], *, commands: bool, sample: int | None
) -> Killing:
    return kill_everywhere(
        f"{HERE}:{scenario}",
        prepare=prepare,
        place=lambda folder: miniature.write_config(folder, remotes),
        observe=end_state,
        work=folder,
        commands=commands,
        sample=sample,
    )


def two(folder: Path) -> None:
    folder.rmdir()
    pair.build(folder, carrier="pin-file")


def waiting(folder: Path) -> None:
    """A branch with a revert that can be dropped once dialect, a plain submodule, has moved."""
    folder.rmdir()
    world = pair.build(folder, order=("llvm",))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.environment().items():
            patch.setenv(name, value)
        start(world.open(), publish=True)
        walk, broken = Walk(world.open(), publish=True), world.commits["break 1"]
        walk.next(to=broken)
        carry(walk, broken, revert=True, why="w", link="", drop_when="", until="third_party/dialect")


def test_a_walk_over_two_upstreams_killed_between_commands_ends_the_same(
    tmp_path: Path, remotes: str, exhaustive: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    killing = kill(tmp_path, "together", remotes, two, commands=True, sample=None if exhaustive else 6)
    with capsys.disabled():
        print(f"\n{killing}")
    assert killing.tried >= 3


def test_a_step_that_drops_a_patch_killed_between_commands_ends_the_same(
    tmp_path: Path, remotes: str, exhaustive: bool
) -> None:
    killing = kill(tmp_path, "diamond", remotes, waiting, commands=True, sample=None if exhaustive else 6)
    assert killing.tried >= 3


@pytest.mark.parametrize(("scenario", "prepare"), [("together", two), ("diamond", waiting)])
def test_walks_killed_inside_of_commands_end_the_same(
    tmp_path: Path, remotes: str, exhaustive: bool, scenario: str, prepare: Callable[[Path], None]
) -> None:
    # There are thousands of points: even the exhaustive variant tries some only, to end within a night.
    sample = 100 if exhaustive else 4
    killing = kill(tmp_path, scenario, remotes, prepare, commands=False, sample=sample)
    assert killing.tried >= sample // 2
