"""A walk that is killed after any of its git commands, and run again, ends as if never killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integrate.integration.killing import NEEDS_COMPILER, WALKS, kill_a_walk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = NEEDS_COMPILER


@pytest.mark.parametrize(("carrier", "strategy"), WALKS)
def test_a_walk_killed_between_commands_ends_the_same(
    tmp_path: Path, carrier: str, strategy: str, remotes: str, exhaustive: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    killing = kill_a_walk(tmp_path, carrier, strategy, remotes, commands=True, sample=None if exhaustive else 5)
    with capsys.disabled():
        print(f"\n{carrier}: {killing}")
    assert killing.tried >= 4
