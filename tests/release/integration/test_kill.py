"""SIGKILL at every file write of the release transaction, of the decisions, and of the local forge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
