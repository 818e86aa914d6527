from __future__ import annotations

import io
import json
import os
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.text import Text

from mlir_release.ground.console import Console, format_bytes, format_seconds
from mlir_release.ground.errors import ForgeError


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
def test_tables_have_colour_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    rows = [[Text("problem", style="red"), "what"]]
    Console().table(["", ""], rows)
    assert "\x1b" not in capsys.readouterr().out
    with redirect_stdout(Terminal()) as terminal:
        Console().table(["", ""], rows)
    assert "\x1b[31mproblem\x1b[0m" in terminal.getvalue()


def test_waiting_prints_a_heartbeat_on_a_terminal_that_cannot_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "dumb")
    with redirect_stderr(Terminal()) as terminal, Console().waiting("building", every=0.01):
        time.sleep(0.1)
    assert "… building" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_waiting_prints_a_heartbeat_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    import time

    with Console().waiting("building", every=0.01):
        time.sleep(0.1)
    assert "… building" in capsys.readouterr().err


def test_no_text_of_a_step_output_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Source: GitHub's "Workflow commands": whoever knows the delimiter can set other outputs."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    Console().output("a", "1")
    known = (tmp_path / "output").read_text().splitlines()[-1]
    Console().output("b", f"x\n{known}\nevil=1")
    assert (tmp_path / "output").read_text().splitlines()[3].removeprefix("b<<") != known
