"""A command costs the same at the two hundredth release as at the tenth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.console import console
from mlir_release.release.transaction.ledger import RECENT
from tests.scale import Asked, Veteran

if TYPE_CHECKING:
    from pathlib import Path

#: More than a page of rows, or what follows the first page would never be asked for.
YOUNG, OLD = 10, 2 * RECENT


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    console.quiet = True
    for name in ("GITHUB_RUN_ID", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def day(folder: Path, count: int) -> dict[str, Asked]:
    """What each command asks of a repository with ``count`` releases."""
    veteran = Veteran(folder, count)
    with veteran.github:
        return {asked.name: asked for asked in veteran.a_day()}


def test_the_number_of_requests_does_not_grow_with_the_releases(tmp_path: Path) -> None:
    young, old = day(tmp_path / "young", YOUNG), day(tmp_path / "old", OLD)
    assert young.keys() == old.keys()
    for command, asked in young.items():
        both = asked.operations, old[command].operations
        assert both[1] == both[0], f"{command}: {both[1] - both[0]} more, {both[0] - both[1]} less"
    for asked in old.values():
        for record in asked.records:
            assert "per_page=100" not in record.query or not record.path.endswith("/releases"), record
            assert record.status != 504
    # Anonymous readers have sixty requests an hour.
    for command in ("install latest", "install TAG"):
        assert old[command].requests["rest"] <= 6
