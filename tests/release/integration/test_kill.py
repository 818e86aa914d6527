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
    ("name", "prepare"),
    [
        ("create", scenarios.nothing),
        ("run_snapshot", scenarios.make_forge),
        ("run_forced", scenarios.make_forge),
        ("run_number", scenarios.make_forge),
        ("run_assets", scenarios.with_draft),
        ("run_build", scenarios.with_draft),
        ("run_release", scenarios.with_wheels),
        ("run_waive", scenarios.with_draft),
        ("run_abandon", scenarios.with_draft),
        ("run_yank", scenarios.with_release),
    ],
)
def test_killed_anywhere_it_ends_the_same(
    name: str,
    prepare: Callable[[Path], None],
    exhaustive: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    killing = kill_everywhere(
        f"{HERE}:{name}",
        prepare=prepare,
        observe=scenarios.observe,
        check=scenarios.check_readers,
        after=[f"{HERE}:run_next"],
        work=tmp_path,
        sample=None if exhaustive else SAMPLE,
    )
    with capsys.disabled():
        print(f"\n{killing}")
    assert killing.tried >= SAMPLE // 2


def test_a_sweep_that_is_killed_anywhere_is_completed_by_the_next(
    exhaustive: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killing = kill_everywhere(
        f"{HERE}:run_sweep",
        prepare=scenarios.with_pending,
        observe=scenarios.observe,
        check=scenarios.check_readers,
        after=[f"{HERE}:run_later_sweep"],
        work=tmp_path,
        sample=None if exhaustive else SAMPLE,
    )
    with capsys.disabled():
        print(f"\n{killing}")
    assert killing.tried >= SAMPLE // 2


def test_killed_while_its_git_goes_on_it_ends_the_same(
    exhaustive: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killing = kill_everywhere(
        f"{HERE}:run_snapshot",
        prepare=scenarios.make_forge,
        observe=scenarios.observe,
        after=[f"{HERE}:run_next"],
        work=tmp_path,
        leader_only=True,
        sample=None if exhaustive else SAMPLE,
    )
    with capsys.disabled():
        print(f"\nits git going on, {killing}")
    assert killing.tried >= SAMPLE // 2
