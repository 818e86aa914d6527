"""An upstream on the loopback GitHub, which the environment leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mlir_release.release.forge.github import client as github_client
from tests.github_server import GitHubServer
from tests.revision_factory import LLVM_TREE, UPSTREAM

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    monkeypatch.setattr(github_client, "FIRST_WAIT", 0.0)
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository(UPSTREAM, LLVM_TREE)
        for name, value in server.environment("llvm/mlir-wheels", server.token()).items():
            monkeypatch.setenv(name, value)
        yield server
