"""Tables on narrow terminals: whatever a person copies stays whole."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlir_release.ground.console import Console
from tests.commands.world import Terminal, copy_world, enter, run

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Of commands that print a table, or labels with values.
FILES = sorted(
    file
    for file in Path(__file__).parent.glob("*.txt")
    if re.search("──|^ digest  ", file.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("width", [80, 60, 40])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_terminal_is_too_narrow_for_a_table(
    file: Path, width: int, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "world"
    copy_world(world, root)
    enter(root, monkeypatch)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    cells: list[str] = []
    table = Console.table

    def recorded(
        console: Console, columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = ""
    ) -> None:
        cells.extend([title, *(str(cell) for row in rows for cell in row)])
        table(console, columns, rows, title=title)

    monkeypatch.setattr(Console, "table", recorded)
    lines = re.findall(r"^\$ mlir-release (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    commands = [shlex.split(line, comments=True) for line in lines if "--help" not in line]
    printed = "".join(run(command, kind=Terminal)[0] for command in commands)
    words = {word for cell in cells for word in cell.split()}
    assert words
    assert [word for word in sorted(words) if word not in printed] == []
    too_long = [line for line in printed.splitlines() if len(line.rstrip()) > width and "──" in line]
    assert too_long == []
