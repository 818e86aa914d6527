"""A row of snapshots, made once: most bisects only read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bisect_stage import Bench, make_forge
from tests.invented import believe_invented_revisions

if TYPE_CHECKING:
    from pathlib import Path

#: As many snapshots as most tests have. The fifth is for other machines only.
COUNT = 9


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of their forge."""
    believe_invented_revisions()
    root = tmp_path_factory.mktemp("bisect") / "forge"
    make_forge(root, COUNT)
    return root


@pytest.fixture
def bench(snapshots: Path, tmp_path: Path) -> Bench:
    """Where a test's bisects run, with a cache of their own."""
    folder = tmp_path / "work"
    folder.mkdir()
    return Bench(snapshots, folder, {"MLIR_RELEASE_CACHE": str(tmp_path / "cache")})
