"""Both halves meet: a project walks LLVM forward with patches, exports them, and has a release of just that LLVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground.git.repository import Git
from tests.attacks.selected_stage import TREE
from tests.carried import BRANCH, CarryingProject, git
from tests.targets_factory import make_row, make_targets

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_patch_is_released_with_its_origin_and_reason_until_upstream_lands_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLIR_RELEASE_CACHE", str(tmp_path / "cache"))
    for path, content in TREE.items():
        (tmp_path / "sources" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sources" / path).write_bytes(content)
    acme = CarryingProject(tmp_path, tmp_path / "sources", make_targets(make_row(), pythons=["cp312"]))
    pin = acme.carry()
    acme.check_both(acme.snapshot()[1], pin)
    pin = acme.walk_past_the_pick()
    acme.check_revert(acme.snapshot()[1], pin)
    head = Git(acme.fork).resolve(f"refs/heads/{BRANCH}")
    assert len(git(acme.fork, "show", "--no-patch", "--format=%P", head or "").split()) == 2  # the older stack is kept
