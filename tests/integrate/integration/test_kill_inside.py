"""A walk that is killed inside of its git commands, at any of their writes, and run again, ends as if never killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integrate.integration.killing import NEEDS_COMPILER, WALKS, kill_a_walk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = NEEDS_COMPILER


@pytest.mark.parametrize(("carrier", "strategy"), WALKS)
def test_a_walk_killed_inside_of_commands_ends_the_same(
    tmp_path: Path, carrier: str, strategy: str, remotes: str, exhaustive: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    # There are thousands of points: even the exhaustive variant tries some only, to end within a night.
    sample = 100 if exhaustive else 5
    killing = kill_a_walk(tmp_path, carrier, strategy, remotes, commands=False, sample=sample)
    with capsys.disabled():
        print(f"\n{carrier}: {killing}")
    assert killing.tried >= sample // 2
