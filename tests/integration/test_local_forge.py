"""The local forge: conformance, and what only a folder can do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from mlir_release.forge.local import LocalForge
from tests.integration.forge_conformance import ForgeConformance, Setting

NOW = datetime(2026, 11, 20, 12, 0, 0, 123, tzinfo=UTC)
WHO = "Ada Lovelace <ada@example.org>"


def fetch_file(url: str) -> bytes | None:
    path = Path(unquote(urlparse(url).path))
    return path.read_bytes() if path.exists() else None


class TestConformance(ForgeConformance):
    @pytest.fixture
    def setting(self, tmp_path: Path) -> Setting:
        root = tmp_path / "a forge"

        def client() -> LocalForge:
            return LocalForge(root, clock=lambda: NOW, identity=WHO)

        LocalForge.create(root, {"README.md": b"hello\n"}, clock=lambda: NOW, identity=WHO)
        return Setting(forge=client(), again=client, stranger=fetch_file)
