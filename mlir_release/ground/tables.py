"""Tables for terminals of any width. Nothing in a cell is ever cut, and no word is broken: people copy from tables.

What is too wide gives up something in this order: first columns that the others imply, then long lines, which wrap
between words, and at last the form of a table: each row becomes a few lines of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


#: What logs and pipes get, which have no width: long lines wrap there, too, but every column stays.
UNBOUNDED = 200

#: A column of prose is not made narrower than this, if it has as much.
_PROSE = 20

#: Blanks of :data:`rich.box.SIMPLE_HEAD` around a table and between its columns.
_EDGES, _GAP = 2, 3


def arranged(columns: Sequence[str], rows: Sequence[Sequence[Text]], width: int | None) -> tuple[RenderableType, int]:
    """A table as it fits, and the width that it must be printed with.

    :param columns: names; one that begins with ``>`` is right-aligned, its cells never wrap
    :param width: of the terminal; None: logs and pipes
    """
    above: list[Text] = []  # stand for columns with the same value in all rows
    if width is not None and _total([need.maximum for need in _needs(columns, rows)]) > width:
        kept = [0]
        for index, column in enumerate(columns[1:], 1):
            values = {row[index].plain for row in rows}
            if column and all(_says(row[0].plain, row[index].plain) for row in rows):
                continue
            if column and len(rows) > 1 and len(values) == 1:
                above.append(Text(f"{column.removeprefix('>')}: {values.pop()}"))
            else:
                kept.append(index)
        columns = [columns[index] for index in kept]
        rows = [[row[index] for index in kept] for row in rows]
    needs = _needs(columns, rows)
    least = _total([need.minimum for need in needs])
    if width is not None and least > width:
        return Group(*above, Text(), *_records(columns, rows, width), Text()), width
    room = max(width or UNBOUNDED, least)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(columns))
    # Columns that want little more than the least get it; the others share what is left.
    widths = [need.minimum for need in needs]
    spare, order = room - _total(widths), sorted(range(len(needs)), key=lambda index: needs[index].span)
    for place, index in enumerate(order):
        more = min(needs[index].span, spare // (len(order) - place))
        widths[index] += more
        spare -= more
    for column, share in zip(columns, widths, strict=True):
        justify = "right" if column.startswith(">") else "left"
        table.add_column(Text(column.removeprefix(">")), justify=justify, width=share, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    return Group(*above, table), room


def _total(widths: Sequence[int]) -> int:
    """The width of a table with columns of these widths."""
    return sum(widths) + _EDGES + _GAP * (len(widths) - 1)


def _needs(columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> list[Measurement]:
    """For each column the least and the largest width that it can use."""
    console = Console(width=1_000_000, height=25)  # only measures
    found = []
    for index, column in enumerate(columns):
        cells = [Text(column.removeprefix(">")), *(row[index] for row in rows)]
        sizes = [Measurement.get(console, console.options, cell) for cell in cells]
        most = max(size.maximum for size in sizes)
        words = max(size.minimum for size in sizes)
        found.append(Measurement(most if column.startswith(">") else max(words, min(most, _PROSE)), most))
    return found


def _says(name: str, value: str) -> bool:
    """Whether a row's name has a value between hyphens: ``mlir-linux-x86_64-cp312`` has ``cp312``."""
    return value != name and (not value or f"-{value}-" in f"-{name}-")


def _records(columns: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> list[Text]:
    """Each row as lines: its name, and below it what its other columns say. Only the terminal breaks a long word.

    The name is the first cell whose column has a name, and what stands before it. Where no column has one, the first
    cell is the label of the second.
    """
    labels = [column.removeprefix(">") for column in columns]
    first = next((index for index, label in enumerate(labels) if label), None)
    lines: list[Text] = []
    for row in rows:
        cells = [Text(" ").join(cell.split()) for cell in row]
        if first is None:
            lines += _filled(_labelled(cells[0].plain, Text(" ").join(cells[1:])).split(" "), " ", width, after=2)
            continue
        lines.append(Text("  ").join(cells[: first + 1]))
        pairs = zip(labels[first + 1 :], cells[first + 1 :], strict=True)
        lines += _filled([_labelled(label, cell) for label, cell in pairs if cell], " · ", width, before=2, after=2)
    return lines


def _labelled(label: str, cell: Text) -> Text:
    return Text.assemble(f"{label}: ", cell) if label else cell


def _filled(parts: Iterable[Text], glue: str, width: int, *, before: int = 0, after: int = 0) -> list[Text]:
    """Parts on as few lines as take them; a part that needs more than a line is divided between its words.

    :param before: blanks that the first line begins with; ``after``: the others
    """
    lines: list[Text] = []
    line, indent = Text(), before

    def end() -> None:
        nonlocal line, indent
        if line:
            fits = indent + line.cell_len <= width
            lines.append(Text(" " * indent if fits else "") + line)
            line, indent = Text(), after

    for part in parts:
        joined = Text(glue).join([line, part]) if line else part
        if indent + joined.cell_len > width:
            end()
            joined = part
        if indent + joined.cell_len > width and glue != " ":
            lines += _filled(part.split(" "), " ", width, before=indent, after=after + 2)
            indent = after
        else:
            line = joined
    end()
    return lines
