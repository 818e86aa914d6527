"""A repository on the loopback GitHub, which most of GitHub's tests use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.github_server import GitHubServer
from tests.github_stage import REPOSITORY, WORKFLOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository(REPOSITORY, {"README": b"wheels\n", WORKFLOW: b"on: workflow_dispatch\n"})
        yield server
