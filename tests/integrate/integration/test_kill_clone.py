"""A first command that is killed while it clones LLVM is made good by the next one."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.integrate.integration import miniature
from tests.integrate.integration.killing import HERE, NEEDS_COMPILER
from tests.kill import kill_everywhere

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = NEEDS_COMPILER


@pytest.mark.parametrize("carrier", ["submodule", "pin-file"])
@pytest.mark.parametrize("patched", [True, False], ids=["patched", "pristine"])
def test_a_first_command_that_is_killed_while_it_clones_is_repaired_by_the_next(
    tmp_path: Path, carrier: str, patched: bool, remotes: str, exhaustive: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepare(folder: Path) -> None:
        folder.rmdir()
        world = miniature.build(folder, carrier=carrier, patched=patched, small=True)
        shutil.rmtree(world.checkout)
        miniature.git(folder, "clone", "-q", str(folder / "origin.git"), "downstream")
        world.git("remote", "set-url", "origin", f"{miniature.URL}origin.git")

    def observe(folder: Path) -> dict[str, Any]:
        world = miniature.load(folder)
        state = {"status": world.git("status", "--porcelain", "--branch"), "refs": world.git("for-each-ref")}
        places = {"submodule": "third_party/llvm", "pin-file": ".git/mlir-release/upstream.git"}
        llvm = world.checkout / places[carrier]
        miniature.git(llvm, "fsck", "--connectivity-only")
        state["llvm"] = miniature.git(llvm, "for-each-ref", "refs/mlir-release")
        state["log"] = miniature.git(llvm, "log", "--format=%H", "refs/mlir-release/upstream/main")
        if carrier == "submodule":
            state["HEAD"] = miniature.git(llvm, "rev-parse", "HEAD")
            state["llvm status"] = miniature.git(llvm, "status", "--porcelain")
        return state

    killing = kill_everywhere(
        f"{HERE}:open_and_look",
        prepare=prepare,
        place=lambda folder: miniature.write_config(folder, remotes),
        observe=observe,
        work=tmp_path,
        sample=None if exhaustive else 8,
    )
    with capsys.disabled():
        print(f"\n{carrier}, {'patched' if patched else 'pristine'}: {killing}")
    assert killing.tried >= 4
