from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.commands.world import make_world

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once; a test takes a copy."""
    root = tmp_path_factory.mktemp("commands") / "world"
    with pytest.MonkeyPatch.context() as patch:
        make_world(root, patch)
    return root
