from __future__ import annotations

import io
import json
import os
import re
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from mlir_release.ground.console import Console, format_bytes, format_seconds
from mlir_release.ground.errors import ForgeError

if TYPE_CHECKING:
    from collections.abc import Sequence

DIGEST = "8404345b857f794d334bf2f5516886bc342a7b93cfbef965c89033ce68cde92c"
WHEEL = "mlir-22.1.8-cp313-cp313-manylinux_2_28_x86_64.whl"
URL = "https://github.com/example/mlir-wheels/releases/download/snapshot-20261120.01/mlir-22.1.8.whl"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment says of a terminal that has colours."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (41_600_000, "41.6 MB"), (2_400_000_000, "2400.0 MB")],
)
def test_bytes(count: int, shown: str) -> None:
    assert format_bytes(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.44, "0.4 s"),
        (12.4, "12 s"),
        (59.7, "1 min 00 s"),
        (187, "3 min 07 s"),
        (3600, "1 h 00 min"),
        (3840, "1 h 04 min"),
    ],
)
def test_seconds(seconds: float, shown: str) -> None:
    assert format_seconds(seconds) == shown


def test_results_go_to_stdout_and_progress_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.say("working")
    console.result("done", {"done": True})
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("done\n", "working\n")
    console.json_mode = True
    console.result("done", {"done": True})
    assert json.loads(capsys.readouterr().out) == {"done": True}


@dataclass(frozen=True)
class Fetched:
    path: Path
    parts: tuple[str, ...]
    when: datetime

    def text(self) -> str:
        return f"fetched {self.path}"


@dataclass(frozen=True)
class Counted(Fetched):
    def to_json(self) -> object:
        return {"count": len(self.parts)}


def test_an_outcome_is_its_fields_unless_it_has_json_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    fields = (Path("/a"), ("b", "c"), datetime(2026, 11, 21, tzinfo=UTC))
    console.outcome(Fetched(*fields))
    assert capsys.readouterr().out == f"fetched {Path('/a')}\n"
    console.json_mode = True
    console.outcome(Fetched(*fields))
    assert json.loads(capsys.readouterr().out) == {
        "path": str(Path("/a")),
        "parts": ["b", "c"],
        "when": "2026-11-21T00:00:00Z",
    }
    console.outcome(Counted(*fields))
    assert json.loads(capsys.readouterr().out) == {"count": 2}


@pytest.mark.parametrize(
    "quoted", ["::set-output name=a::b", "x\n  ::stop-commands::t", "x\r::debug::y", "x ##[debug]y"]
)
def test_nothing_quoted_is_a_command_to_actions(capsys: pytest.CaptureFixture[str], quoted: str) -> None:
    """Names of tests, for example, are what foreign code wrote into a report."""
    console = Console()
    for console.in_actions in (False, True):
        console.say(quoted)
        console.result(quoted, {})
        out, err = capsys.readouterr()
        assert out == err != f"{quoted}\n"
        for line in (out + err).splitlines():
            assert not line.strip().startswith("::")
            assert "##[" not in line
    console.table(["a test"], [[quoted]])
    drawn = capsys.readouterr().out
    assert not [line for line in drawn.splitlines() if line.strip().startswith("::") or "##[" in line]
    console.error(ForgeError("some-id", "a failure", why=quoted))
    annotation, *lines = re.split(r"[\r\n]", capsys.readouterr().err)
    assert annotation.startswith("::error title=some-id::")
    assert not [line for line in lines if line.strip().startswith("::") or "##[" in line]


def test_a_name_with_colons_stays(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.in_actions = True
    console.say("mlir::Operation: a::b")
    assert capsys.readouterr().err == "mlir::Operation: a::b\n"


def test_quiet_keeps_warnings_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.quiet = True
    with console.step("a step"):
        console.say("chatter")
    console.warn("careful")
    console.error(ForgeError("forge-x", "No."))
    assert capsys.readouterr().err == "warning: careful\nerror[forge-x]: No.\n"


def test_a_failing_step_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    with pytest.raises(ValueError, match="x"), console.step("a step"):
        raise ValueError("x")
    assert "failed after" in capsys.readouterr().err
    with pytest.raises(ValueError, match="x"), console.step("from git", without="Debian is next"):
        raise ValueError("x")
    said = capsys.readouterr().err
    assert "note: not possible here, so Debian is next; after 0.0 s: from git" in said
    assert "failed" not in said


def test_actions_get_annotations_outputs_and_summaries(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    console = Console()
    console.error(ForgeError("forge-x", "50 % of\nit"))
    console.output("matrix", {"include": []})
    console.output("tag", "two\nlines")
    console.summary("# Title")
    assert "::error title=forge-x::50 %25 of%0A    it" in capsys.readouterr().err
    output = (tmp_path / "output").read_text()
    assert '{"include": []}' in output
    assert "two\nlines\n" in output
    assert (tmp_path / "summary").read_text() == "# Title\n\n"


def test_tables_are_not_folded_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Console().table(["name", ">size"], [["x" * 100, 5], ["[b]not markup[/b]", 10]])
    out = capsys.readouterr().out
    assert "x" * 100 in out
    assert "[b]not markup[/b]" in out


@pytest.mark.skipif(os.name == "nt", reason="NOT TRIED: how an old Windows console is told apart")
@pytest.mark.usefixtures("colours")
def test_tables_have_colour_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[Text("problem", style="red"), "what"]]
    Console().table(["", ""], rows)
    assert "\x1b" not in capsys.readouterr().out
    with redirect_stdout(Terminal()) as terminal:
        Console().table(["", ""], rows)
    assert "\x1b[31mproblem\x1b[0m" in terminal.getvalue()


@pytest.mark.parametrize(("kind", "term"), [(Terminal, "dumb"), (io.StringIO, "xterm-256color")])
def test_waiting_prints_a_heartbeat_where_nothing_can_be_drawn(
    kind: type[io.StringIO], term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    with redirect_stderr(kind()) as printed, Console().waiting("building", every=0.01):
        time.sleep(0.1)
    assert "… building" in printed.getvalue()
    assert "\x1b" not in printed.getvalue()


def test_no_text_of_a_step_output_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Source: GitHub's "Workflow commands": whoever knows the delimiter can set other outputs."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    Console().output("a", "1")
    known = (tmp_path / "output").read_text().splitlines()[-1]
    Console().output("b", f"x\n{known}\nevil=1")
    assert (tmp_path / "output").read_text().splitlines()[3].removeprefix("b<<") != known


# -- tables on terminals of any width ----------------------------------------------------------------------------------


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


def test_no_table_is_wider_than_its_terminal() -> None:
    for width in range(20, 120):
        rules = [line for line in drawn(width, MATRIX, TARGETS).splitlines() if "──" in line]
        assert all(len(rule) <= width for rule in rules)


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


@pytest.mark.usefixtures("colours")
def test_styles_stay_in_lines(monkeypatch: pytest.MonkeyPatch) -> None:
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
    lines = drawn(width, columns, rows, title=f"{DIGEST} {URL}").splitlines()
    for word in {DIGEST, URL, *(word for row in rows for cell in row for word in cell.split())}:
        assert any(word in line for line in lines), word
