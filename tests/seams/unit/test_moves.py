"""The list of moves leads from every old path to a file that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import moves

ROOT = Path(__file__).parents[3]


def test_every_file_is_where_it_says() -> None:
    table = {**moves.modules(), **moves.RENAMED}
    assert len(table) > 250
    found = {old: moves.find(f"mlir_release/{old}") for old in table}
    assert [f"{old} -> {new}" for old, new in found.items() if not (ROOT / new).exists()] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("release/tend.py", "mlir_release/release/transaction/tend.py"),
        ("mlir_release/index/templates/base.html.j2", "mlir_release/release/index/templates/base.html.j2"),
        ("mlir_release/projects/clang/wheel/README.md", "mlir_release/builder/projects/clang/wheel/README.md"),
        ("docs/design.md", "docs/design.md"),
    ],
)
def test_files_and_what_lies_in_a_folder(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    moves.main([old])
    assert capsys.readouterr().out == f"{new}\n"
    assert (ROOT / new).exists()
