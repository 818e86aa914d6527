"""Tables on terminals of any width."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from mlir_release.ground.console import Console

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGEST = "8404345b857f794d334bf2f5516886bc342a7b93cfbef965c89033ce68cde92c"
WHEEL = "mlir-22.1.8-cp313-cp313-manylinux_2_28_x86_64.whl"
URL = "https://github.com/example/mlir-wheels/releases/download/snapshot-20261120.01/mlir-22.1.8.whl"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(
    width: int, columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "", kind: type = Terminal
) -> str:
    """What a terminal of a width gets, or a pipe where ``COLUMNS`` says the width."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(kind()) as terminal:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "dumb")
        Console().table(columns, rows, title=title)
    return "\n".join(line.rstrip() for line in terminal.getvalue().splitlines()).strip("\n")


MATRIX = ["name", "llvm", "runtime", "runner", "python", "required"]
TARGETS = [
    [f"{llvm}-linux-x86_64-{python}", llvm, "linux-x86_64", "ubuntu-24.04", python, "true"]
    for llvm in ("mlir", "mlir-core")
    for python in ("cp312", "cp313")
]


def test_a_table_that_fits_has_all_its_columns() -> None:
    assert all(name in drawn(120, MATRIX, TARGETS) for name in MATRIX)


def test_a_pipe_gets_the_width_that_was_asked_for() -> None:
    assert drawn(60, MATRIX, TARGETS, kind=io.StringIO) == drawn(60, MATRIX, TARGETS) != drawn(120, MATRIX, TARGETS)


def test_columns_that_the_others_imply_go_first() -> None:
    assert drawn(60, MATRIX, [*TARGETS[:3], [*TARGETS[3][:-1], "false"]]).splitlines() == [
        "runner: ubuntu-24.04",
        "",
        " name                           required",
        " ───────────────────────────────────────",
        " mlir-linux-x86_64-cp312        true",
        " mlir-linux-x86_64-cp313        true",
        " mlir-core-linux-x86_64-cp312   true",
        " mlir-core-linux-x86_64-cp313   false",
    ]


def test_a_value_that_a_name_only_resembles_stays() -> None:
    """``mlir`` is a part of ``mlir-core-…``, and ``cp31`` is none of ``…-cp312``."""
    rows = [["mlir-core-cp312", "x" * 30, "cp31"], ["mlir-core-cp313", "y" * 30, "cp32"]]
    assert "cp32" in drawn(50, ["name", "long", "python"], rows)


def test_prose_wraps_between_words() -> None:
    text = "requires a rule for main that asks for a review of the owners of the code"
    assert drawn(60, ["", "check", "what was found"], [["ok", "branch-rules", text]]).splitlines() == [
        "      check          what was found",
        f" {'─' * 58}",
        " ok   branch-rules   requires a rule for main that asks for",
        "                     a review of the owners of the code",
    ]


def test_a_row_that_does_not_fit_becomes_lines() -> None:
    rows = [[WHEEL, "28.1 MB", DIGEST], ["release.json", "1.2 kB", DIGEST[::-1]]]
    assert drawn(80, ["asset", ">size", "sha256"], rows).splitlines() == [
        WHEEL,
        "  size: 28.1 MB",
        f"  sha256: {DIGEST}",
        "release.json",
        "  size: 1.2 kB",
        f"  sha256: {DIGEST[::-1]}",
    ]
    assert drawn(40, ["asset", ">size", "sha256"], rows[1:]).splitlines() == [
        "release.json",
        "  size: 1.2 kB",
        "  sha256:",
        DIGEST[::-1],
    ]


def test_values_with_labels_become_lines() -> None:
    rows = [["size", "28.1 MB"], ["sha256", DIGEST], ["requires", "Python >=3.10, numpy<3,>=1.19.5, ml_dtypes<=0.6.0"]]
    assert drawn(40, ["", ""], rows, title=WHEEL).splitlines() == [
        WHEEL,
        "",
        "size: 28.1 MB",
        "sha256:",
        DIGEST,
        "requires: Python >=3.10,",
        "  numpy<3,>=1.19.5, ml_dtypes<=0.6.0",
    ]


def test_columns_without_names_stand_before_the_row_s_name() -> None:
    found = drawn(
        40, ["", "check", "what was found"], [["problem", "pages", URL], ["ok", "rules", "as they should be"]]
    )
    assert found.splitlines() == [
        "problem  pages",
        "  what was found:",
        URL,
        "ok  rules",
        "  what was found: as they should be",
    ]


def test_short_values_share_a_line() -> None:
    rows = [[WHEEL, 19, "702.1 kB", "1.6 MB"], [f"{WHEEL}.json", 3, "2.0 kB", "4.8 kB"]]
    assert drawn(60, ["file", ">files", ">compressed", ">installed"], rows).splitlines() == [
        WHEEL,
        "  files: 19 · compressed: 702.1 kB · installed: 1.6 MB",
        f"{WHEEL}.json",
        "  files: 3 · compressed: 2.0 kB · installed: 4.8 kB",
    ]


def test_styles_stay_in_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    rows = [[WHEEL, Text("failed", style="red")]]
    for no_color in ("", "1"):
        monkeypatch.setenv("NO_COLOR", no_color)
        with redirect_stdout(Terminal()) as terminal:
            Console().table(["wheel", "state"], rows)
        assert ("\x1b[31mfailed" in terminal.getvalue()) is not bool(no_color)


WORDS = st.text(st.characters(categories=["L", "N"]) | st.sampled_from("-._/:"), min_size=1, max_size=90)
CELLS = st.lists(WORDS, max_size=12).map(" ".join)


@given(
    st.sampled_from([20, 40, 60, 80]),
    st.integers(1, 6).flatmap(
        lambda count: st.tuples(
            st.lists(st.sampled_from(["name", ">size", "", "a sha256"]), min_size=count, max_size=count),
            st.lists(st.lists(CELLS, min_size=count, max_size=count), max_size=5),
        )
    ),
)
def test_no_word_is_cut_or_broken(width: int, table: tuple[list[str], list[list[str]]]) -> None:
    columns, rows = table
    found = drawn(width, columns, rows)
    for word in {word for row in rows for cell in row for word in cell.split()}:
        assert any(word in line for line in found.splitlines()), word
