"""The list of moves leads from every old path to a file that is there."""

from __future__ import annotations

from pathlib import Path

from tools import moves

ROOT = Path(__file__).parents[3]


def test_every_file_is_where_it_says() -> None:
    table = {**moves.modules(), **moves.RENAMED}
    assert len(table) > 250
    found = {old: moves.find(f"mlir_release/{old}") for old in table}
    assert [f"{old} -> {new}" for old, new in found.items() if not (ROOT / new).exists()] == []
