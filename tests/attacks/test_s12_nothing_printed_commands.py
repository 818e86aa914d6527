"""S12: nothing that is printed commands the runner or the terminal, and no failure ends in a traceback."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
import unicodedata
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlir_release.cli.app import LazyGroup, app, main
from mlir_release.ground.console import Console, console
from mlir_release.ground.errors import ForgeError
from mlir_release.ground.foreign import inert, json_text

HOSTILE = (
    "a ##[set-output name=x]y",
    "a\n  ::set-output name=x::y",
    "a\r::stop-commands::t",
    "a\u2028::debug::y",
    "\x1b[31m::error::\x1b[0m",
    "#\x1b[1m#[debug]",
    "\x1b]0;title\x07 \x9b2J \x7f \x00",
    "\u202e\u2066\u200f\ufeff\U000e0041",
)

ROOT = Path(__file__).parents[2]


def commands_in(printed: str) -> list[str]:
    """The lines that the runner takes for commands, or that control a terminal."""
    lines = re.split(r"[\r\n]", printed)
    return [
        line
        for line in lines
        if line.lstrip().startswith("::")
        or "##[" in line
        or any(unicodedata.category(c) in ("Cc", "Cf") and c not in "\t\u200b\u200c\u200d" for c in line)
    ]


def test_no_text_of_others_passes_for_a_remedy() -> None:
    said = "it failed\n  to do: curl https://example.org | sh"
    lines = str(ForgeError("x", said, why=said, remedy="ask")).splitlines()
    assert [line for line in lines if line.startswith("  to do")] == ["  to do: ask"]


@pytest.mark.parametrize("in_actions", [False, True])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_way_of_printing_lets_foreign_text_command(
    capsys: pytest.CaptureFixture[str], hostile: str, in_actions: bool
) -> None:
    console = Console()
    console.in_actions = in_actions
    console.say(hostile)
    console.show(hostile)
    console.usage(hostile)
    console.result(hostile, {})
    console.table([hostile, ">b"], [[hostile, 1]], title=hostile)
    console.json_mode = True
    console.result("", {hostile: [hostile]})
    console.json_mode = False
    out, err = capsys.readouterr()
    assert commands_in(out + err) == []
    console.warn(hostile)
    console.error(ForgeError(f"an-id:{hostile}", hostile, where=hostile, why=hostile, remedy=hostile))
    with console.step(hostile):
        pass
    console.fold(hostile, [hostile])
    ours = re.compile(r"::(warning|error title=[^:,\n]*|group)::[^\n]*\n|::endgroup::\n")
    assert commands_in(ours.sub("", capsys.readouterr().err)) == []


@pytest.mark.parametrize("hostile", HOSTILE)
def test_json_commands_nothing_and_reads_back_unchanged(hostile: str) -> None:
    text = json_text({hostile: [hostile, {"a": hostile}]})
    assert commands_in(text) == []
    assert text.isascii()
    assert json.loads(text) == {hostile: [hostile, {"a": hostile}]}


@given(st.lists(st.sampled_from([":", "#", "[", "\x1b[1m", "\r", "\n", " ", "\u2028", "\x85", "x"]), max_size=12))
def test_no_mixture_of_marks_and_colours_becomes_a_command(parts: list[str]) -> None:
    assert commands_in(inert("".join(parts))) == []


def test_text_without_tricks_is_printed_as_it_is() -> None:
    plain = "mlir::Operation: a::b\n\t# [x] – 日本語 👩‍🔬 é #123"
    assert inert(plain) == plain


def test_an_argument_that_click_quotes_commands_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["##[error]x"], ["pin", "a\n::error::b\x1b[2J"], ["tag", "\u202e::x"]):
        with pytest.raises(SystemExit) as ended:
            main(partial(app, arguments))
        assert ended.value.code == 2
        out, err = capsys.readouterr()
        assert commands_in(out + err) == []


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


def fails_with(error: BaseException) -> Any:
    def app(*_: object, **__: object) -> None:
        raise error

    return app


UNEXPECTED = [
    (KeyError("::error::x ##[debug]\x1b[2J"), 1, "internal-error"),
    (AssertionError(), 1, "internal-error"),
    (OSError(errno.ENOSPC, "No space left on device", "/data/::x"), 3, "system-refused"),
    (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 300), 3, "system-refused"),
    (PermissionError(errno.EACCES, "Permission denied", "/data/file"), 3, "system-refused"),
    (ValueError("embedded null byte"), 3, "input-unusable"),
    (MemoryError(), 3, "input-unusable"),
    (RecursionError("maximum recursion depth exceeded"), 3, "input-unusable"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), 3, "input-unusable"),
]


@pytest.mark.parametrize(("error", "code", "identifier"), UNEXPECTED, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("as_json", [False, True])
def test_an_exception_that_nobody_expected_is_one_message_and_no_traceback(
    error: Exception,
    code: int,
    identifier: str,
    as_json: bool,
    capsys: pytest.CaptureFixture[str],
    kept: Path,
) -> None:
    console.json_mode = as_json
    with pytest.raises(SystemExit) as ended:
        main(fails_with(error))
    assert ended.value.code == code
    out, err = capsys.readouterr()
    assert f"error[{identifier}]: " in err
    assert "Traceback" not in out + err
    assert commands_in(out + err) == []
    files = list(kept.iterdir())
    if isinstance(error, OSError):
        assert str(error.filename) in err
        assert files == []
    else:
        (file,) = files
        assert str(file) in err
        assert "Traceback" in file.read_text()
    if as_json:
        shown = json.loads(out)
        assert (shown["error"], shown["exit_code"]) == (identifier, code)


def test_the_traceback_is_shown_on_request_and_is_inert(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kept: Path
) -> None:
    monkeypatch.setenv("MLIR_RELEASE_TRACEBACK", "1")
    with pytest.raises(SystemExit):
        main(fails_with(ValueError("\n::error::x ##[debug]\x1b[2J")))
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert commands_in(err) == []


def test_a_disk_on_which_no_traceback_can_be_kept_still_gives_the_message(
    capsys: pytest.CaptureFixture[str], kept: Path
) -> None:
    kept.rmdir()
    with pytest.raises(SystemExit) as ended:
        main(fails_with(ZeroDivisionError("x")))
    assert ended.value.code == 1
    assert "error[internal-error]: a bug of mlir-release: ZeroDivisionError: x" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="NOT TRIED: this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["pin", "show"], ["pin", "show", "--json"], ["matrix", "--json"]])
def test_a_full_disk_behind_the_output_is_a_machine_error(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "mlir_release", *arguments]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        3,
        "error[system-refused]: the system refused something: No space left on device",
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_broken_pipe_to_another_program_is_no_silent_end(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(LazyGroup):
        get_command = fails_with(BrokenPipeError(errno.EPIPE, "Broken pipe"))

    with pytest.raises(SystemExit) as ended:
        main(partial(Broken("app"), ["pin"]))
    assert ended.value.code == 3
    assert "error[system-refused]: the system refused something: Broken pipe" in capsys.readouterr().err


def test_only_the_console_prints() -> None:
    """Programs that the toolkit writes for other interpreters, and what is copied into wheels, print on their own."""
    elsewhere = {
        "ground/console.py",
        "extras/conda/index.py",
        "extras/mlgo/training/in_tensorflow.py",
    }
    package = ROOT / "mlir_release"
    printing = re.compile(r"^\s*(?:print|click\.s?echo|sys\.std(?:out|err)\.write)\(", re.MULTILINE)
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if printing.search(re.sub(r'"""[\s\S]*?"""', "", path.read_text(encoding="utf-8")))
    }
    assert {name for name in found if not name.startswith("builder/projects/")} <= elsewhere
