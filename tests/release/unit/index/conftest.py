"""These tests are of pages that nobody serves yet."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no page is, the served ones are asked for: not from here, where each look-up may take seconds."""
    monkeypatch.setattr("mlir_release.release.index.generate.read_served", lambda base_url, scratch: None)
