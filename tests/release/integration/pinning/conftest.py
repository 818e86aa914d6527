"""An upstream on the loopback GitHub, which the environment leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.github_server import GitHubServer
from tests.revision_factory import LLVM_TREE, UPSTREAM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_waiting: None) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository(UPSTREAM, LLVM_TREE)
        for name, value in server.environment("llvm/mlir-wheels", server.token()).items():
            monkeypatch.setenv(name, value)
        yield server
