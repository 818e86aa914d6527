"""SIGKILL at every file write of the release transaction, of the decisions, of the local forge and of the pointer."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.release.forge.local.forge import LocalForge
from mlir_release.release.judging.signed import AS_DECLARED
from mlir_release.release.latest.catalogue import read_index
from mlir_release.release.latest.latest import read_head
from mlir_release.release.latest.latest_branch import copy_pointer
from tests.attacks.latest_stage import NEW, OLD, WHO, LatestStage, latest_stage
from tests.kill import NEEDS_COMPILER, kill_everywhere
from tests.release.integration import scenarios

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = NEEDS_COMPILER

HERE = Path(scenarios.__file__)

#: How many of a scenario's kill points are tried, unless all are.
SAMPLE = 8


@pytest.mark.parametrize(
    ("name", "prepare", "after", "leader_only"),
    [
        pytest.param(name, prepare, after, leader_only, id=name + leader_only * "-whose-git-goes-on")
        for name, prepare, after, leader_only in (
            ("create", scenarios.nothing, "run_next", False),
            ("run_snapshot", scenarios.make_forge, "run_next", False),
            ("run_snapshot", scenarios.make_forge, "run_next", True),
            ("run_forced", scenarios.make_forge, "run_next", False),
            ("run_number", scenarios.make_forge, "run_next", False),
            ("run_assets", scenarios.with_draft, "run_next", False),
            ("run_build", scenarios.with_draft, "run_next", False),
            ("run_release", scenarios.with_wheels, "run_next", False),
            ("run_waive", scenarios.with_draft, "run_next", False),
            ("run_abandon", scenarios.with_draft, "run_next", False),
            ("run_yank", scenarios.with_release, "run_next", False),
            ("run_sweep", scenarios.with_pending, "run_later_sweep", False),
        )
    ],
)
def test_killed_anywhere_it_ends_the_same(
    name: str,
    prepare: Callable[[Path], None],
    after: str,
    leader_only: bool,
    exhaustive: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    killing = kill_everywhere(
        f"{HERE}:{name}",
        prepare=prepare,
        observe=scenarios.observe,
        check=lambda folder: None if leader_only else scenarios.check_readers(folder),
        after=[f"{HERE}:{after}"],
        work=tmp_path,
        leader_only=leader_only,
        sample=None if exhaustive else SAMPLE,
    )
    with capsys.disabled():
        print(f"\n{killing}")
    assert killing.tried >= SAMPLE // 2


# -- storing the signed pointer: it can be stored again, and no reader sees a half -------------------------------------


def run_store(folder: Path) -> None:
    """What `mirror` does last, and the job that stores what attest.yml signed."""
    source, forge = (LocalForge(folder / name, identity=WHO) for name in ("source", "forge"))
    copy_pointer(source, forge, AS_DECLARED, dry_run=False)


def observe(folder: Path) -> object:
    """The pointer and all files beside it. The repository is whole."""
    forge = LocalForge(folder / "forge", identity=WHO)
    head = read_head(forge).commit
    git = ["git", "--git-dir", str(forge.repository)]
    subprocess.run([*git, "fsck", "--strict"], check=True, capture_output=True)
    return subprocess.run([*git, "ls-tree", "-r", head], check=True, capture_output=True).stdout


def check_readers(folder: Path) -> None:
    """Right after the kill: a pointer, and the index that it names."""
    assert read_index(LocalForge(folder / "forge", identity=WHO)).index.tags


@pytest.mark.parametrize("sample", [8, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("is_first", [True, False])
def test_storing_the_pointer_can_be_killed_anywhere_and_run_again(
    sample: int, is_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepare(folder: Path) -> None:
        with latest_stage(tmp_path / "stage", monkeypatch) as stage:
            make(stage, folder)

    def make(stage: LatestStage, folder: Path) -> None:
        for name, tag in (("source", NEW), ("forge", OLD)):
            stage.copy()
            if name == "source" or not is_first:
                stage.point(tag, age=0 if name == "source" else 1)
            shutil.move(stage.mirror.root, folder / name)

    (tmp_path / "stage").mkdir()
    killing = kill_everywhere(
        f"{Path(__file__)}:run_store",
        prepare=prepare,
        observe=observe,
        check=lambda folder: None if is_first else check_readers(folder),
        work=tmp_path,
        sample=sample,
    )
    with capsys.disabled():
        print(f"\n{killing}")
    assert killing.tried > 6
