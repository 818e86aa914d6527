"""``land``, killed anywhere and run again, ends as if never killed; no commit goes out of reach meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mlir_release.ground.git.repository import Git
from mlir_release.ground.git.trees import is_ancestor
from mlir_release.integrate.deliver.branch import start
from mlir_release.integrate.state import LANDED
from mlir_release.integrate.walk.walk import Walk
from tests.integrate.integration import miniature
from tests.integrate.integration.killing import BRANCH, HERE, NEEDS_COMPILER
from tests.kill import kill_everywhere

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = NEEDS_COMPILER


def advanced(folder: Path, carrier: str) -> None:
    """Four advances, at the remote, too; the second is to be landed."""
    folder.rmdir()
    world = miniature.build(folder, carrier=carrier, patched=True, small=True)
    start(world.open(), publish=True)
    walk = Walk(world.open(), publish=True)
    for _ in range(4):
        walk.next()
    (folder / "advance").write_text(world.git("rev-parse", "HEAD~2"))
    (folder / "head").write_text(world.git("rev-parse", "HEAD"))


def in_reach(folder: Path) -> None:
    """Right after a kill: the last advance is on the branch, or among what was landed, here and at the remote."""
    head = (folder / "head").read_text()
    for name in ("downstream", "origin.git"):
        git = Git(folder / name)
        assert any(is_ancestor(git, head, ref) for ref in (f"refs/heads/{BRANCH}", LANDED + BRANCH)), name


def landed(folder: Path) -> dict[str, Any]:
    world = miniature.load(folder)
    state: dict[str, Any] = {
        name: {ref.name: ref.commit for ref in Git(folder / name).refs("refs/heads", LANDED)}
        for name in ("downstream", "origin.git", "fork.git")
    }
    assert state["downstream"][LANDED + BRANCH] == state["origin.git"][LANDED + BRANCH]
    state["status"] = world.git("status", "--porcelain", "--branch")
    llvm = world.checkout / "third_party/llvm"
    state["pin"] = world.open().pin()
    assert not llvm.exists() or miniature.git(llvm, "rev-parse", "HEAD") == state["pin"]
    return state


@pytest.mark.parametrize("commands", [True, False], ids=["between-commands", "inside-commands"])
@pytest.mark.parametrize(("scenario", "carrier"), [("back_off", "submodule"), ("land_all", "pin-file")])
def test_it_ends_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scenario: str,
    carrier: str,
    commands: bool,
    remotes: str,
    exhaustive: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def prepare(folder: Path) -> None:
        with monkeypatch.context() as patch:
            for name, value in miniature.World(folder, {}, []).environment().items():
                patch.setenv(name, value)
            advanced(folder, carrier)

    killing = kill_everywhere(
        f"{HERE}:{scenario}",
        prepare=prepare,
        place=lambda folder: miniature.write_config(folder, remotes),
        observe=landed,
        check=in_reach,
        work=tmp_path,
        commands=commands,
        sample=(None if commands else 100) if exhaustive else 6,
    )
    with capsys.disabled():
        print(f"\n{carrier}: {killing}")
    assert killing.tried >= 3
