"""Output for people: messages, steps with timings, tables, errors; and commands to GitHub Actions.

Results go to standard output, everything else to standard error, so that ``--json`` output can be piped. Colour and
live progress appear on a terminal only (rich decides); rich is imported when the first table is drawn, because the
import costs more than most commands do.

Whatever is printed here may quote others. So all of it goes through :mod:`mlir_release.ground.foreign`, and nothing
else in the toolkit prints.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from mlir_release.ground.foreign import code_block, inert, json_text, markdown, table, visible, without_commands

if TYPE_CHECKING:
    from mlir_release.ground.errors import ReleaseError


def format_bytes(count: int) -> str:
    """A size in bytes for people, in MB of 10^6 bytes as PyPI shows them."""
    if count < 1000:
        return f"{count} B"
    if count < 1_000_000:
        return f"{count / 1000:.1f} kB"
    return f"{count / 1_000_000:.1f} MB"


def counted(number: float, noun: str) -> str:
    """``1 test``, ``2 tests``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def format_seconds(seconds: float) -> str:
    """A duration for people: ``0.4 s``, ``12 s``, ``3 min 07 s``, ``1 h 04 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class Report(Protocol):
    """What a command found or did, for people, programs and pages. Only the text is needed; a report may also have:

    - ``to_json()``: the data of ``--json``; without it, its fields are
    - ``COLUMNS`` and ``cells()``: a table above the text, the names of its columns and its rows; ``heading``: above it
    - ``markdown()``: for the summary of a run; without it, the table is, or else the text
    """

    def text(self) -> str:
        """For people."""


def in_markdown(report: Report) -> str:
    """What the summary of a run shows of a report."""
    if own := getattr(report, "markdown", None):
        return str(own())
    rows = [[markdown(str(cell)) for cell in row] for row in _cells(report)]
    return table(report.COLUMNS, rows) if rows else code_block(report.text().splitlines())  # type: ignore[attr-defined]


def _cells(report: Report) -> list[Sequence[object]]:
    return list(getattr(report, "cells", tuple)())


def _plain(data: Any) -> Any:
    """Plain data, of a report and of reports in it."""
    from msgspec import to_builtins

    if own := getattr(data, "to_json", None):
        return _plain(own())
    if is_dataclass(data):
        data = {each.name: getattr(data, each.name) for each in fields(data)}
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple | set | frozenset):
        return [_plain(each) for each in data]
    return to_builtins(data, enc_hook=str)


class Console:
    """One per process: :data:`console`. ``json_mode`` is switched on by the CLI's ``--json``."""

    def __init__(self) -> None:
        self.json_mode = False
        self.quiet = False
        self.in_actions = os.environ.get("GITHUB_ACTIONS") == "true"

    def say(self, message: str) -> None:
        """One line of progress, to standard error."""
        if not self.quiet:
            _to_stderr(inert(message))

    def show(self, text: str) -> None:
        """A part of the result, for people, to standard output; nothing in ``--json`` mode, as of a table."""
        if not self.json_mode:
            _print(inert(text))

    def warn(self, message: str) -> None:
        """A warning: a person should see it, and the command continues. An annotation in Actions."""
        if self.in_actions:
            _to_stderr(_command("warning", message))
        else:
            _to_stderr(inert(f"warning: {message}"))

    @contextmanager
    def step(self, title: str, *, without: str = "") -> Iterator[None]:
        """Announce a step, and print how long it took; a log group in Actions.

        :param without: what happens instead if it can't be done, where that is no failure: then it is a note
        """
        start = time.monotonic()
        if self.in_actions:
            _to_stderr(_command("group", title))
        else:
            self.say(f"==> {title}")
        outcome = f"note: not possible here, so {without}; after" if without else "failed after"
        try:
            yield
            outcome = "done in"
        finally:
            if self.in_actions:
                _to_stderr("::endgroup::")
            self.say(f"    {outcome} {format_seconds(time.monotonic() - start)}: {title}")

    def fold(self, title: str, lines: Sequence[str]) -> None:
        """Long output in a log group of its own, in Actions; elsewhere nothing, since people can open the log."""
        if self.in_actions:
            _to_stderr("\n".join([_command("group", title), *(inert(f"  {line}") for line in lines), "::endgroup::"]))

    @contextmanager
    def waiting(self, title: str | Callable[[], str], *, every: float = 10.0) -> Iterator[None]:
        """Show that something long is still running: a spinner on a terminal, else a line every ``every`` seconds.

        :param title: what runs; a function is asked again for each line, and each second on a terminal
        """
        if self.quiet:
            yield
            return
        import threading

        start, done, spinner = time.monotonic(), threading.Event(), None
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":  # where rich would draw nothing
            from rich.console import Console as RichConsole

            spinner = RichConsole(stderr=True).status("")

        def show() -> None:
            text = title if isinstance(title, str) else title()
            if spinner is None:
                self.say(f"    … {text} ({format_seconds(time.monotonic() - start)})")
            else:
                from rich.text import Text

                spinner.update(Text(inert(text)))

        def repeat() -> None:
            while not done.wait(every if spinner is None else 1.0):
                show()

        thread = threading.Thread(target=repeat, daemon=True)
        with spinner or nullcontext():
            if spinner is not None:
                show()
            thread.start()
            try:
                yield
            finally:
                done.set()
                thread.join()

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
        """Print a table to standard output, as it fits (:mod:`mlir_release.ground.tables`).

        :param columns: names; one that begins with ``>`` is right-aligned. Labels of values have no names: ``["", ""]``
        :param rows: of cells, the row's name first; one may be a :class:`rich.text.Text`, styled on a terminal only
        """
        if self.json_mode:
            return
        import shutil

        from rich.console import Console as RichConsole
        from rich.text import Text

        from mlir_release.ground.tables import arranged

        def shown(cell: object) -> Text:
            if not isinstance(cell, Text):
                return Text(visible(str(cell)))
            plain = visible(cell.plain)
            return cell if plain == cell.plain else Text(plain, style=cell.style)

        cells = [[shown(cell) for cell in row] for row in rows]
        width = shutil.get_terminal_size((80 if sys.stdout.isatty() else 0, 25)).columns or None
        drawn, width = arranged([visible(column) for column in columns], cells, width)
        # With TERM=dumb, rich takes 80 columns unless it is given the height, too.
        rich = RichConsole(file=sys.stdout, width=width, height=25, highlight=False)
        with rich.capture() as captured:
            if title:
                rich.print(shown(title), style="italic", soft_wrap=True)
            rich.print(drawn, soft_wrap=True)
        _print(without_commands(captured.get()).removesuffix("\n"))  # its escape sequences are ours

    def result(self, text: str, data: object) -> None:
        """The command's result on standard output: ``data`` as JSON in ``--json`` mode, else ``text``.

        :param data: plain data, dataclasses, structs, or reports; what JSON lacks (a path, a version) becomes its text
        """
        if self.json_mode:
            _print(json_text(_plain(data)))
        elif text:
            self.show(text)

    def outcome(self, report: Report, *, title: str = "") -> None:
        """A command's result, as a table and text, or as JSON; with a title, also in the GitHub step summary.

        :param title: in Markdown
        """
        if rows := _cells(report):
            self.table(report.COLUMNS, rows, title=getattr(report, "heading", ""))  # type: ignore[attr-defined]
        self.result(report.text(), report)
        if title:
            self.summary(f"### {title}\n\n{in_markdown(report)}")

    def error(self, error: ReleaseError) -> None:
        """Show an error: JSON on standard output in ``--json`` mode; an annotation too in Actions."""
        if self.in_actions:
            _to_stderr(_command("error", str(error), title=error.id))
        _to_stderr(inert(f"error[{error.id}]: {error}"))
        if self.json_mode:  # last: standard output may be what failed
            _print(json_text(error.to_json()))

    def usage(self, text: str) -> None:
        """What is printed whatever ``--quiet`` says: click's complaint about arguments, a traceback. To stderr."""
        _to_stderr(inert(text.rstrip("\n")))

    def summary(self, markdown: str) -> None:
        """Append to the GitHub step summary, if there is one.

        :param markdown: ours; text of others in it went through :mod:`mlir_release.ground.foreign`
        """
        path = os.environ.get("GITHUB_STEP_SUMMARY")
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(markdown.rstrip("\n") + "\n\n")

    def output(self, name: str, value: Any) -> None:
        """Set a step output in Actions; nothing elsewhere.

        Source: GitHub's "Workflow commands", multi-line strings.
        """
        path = os.environ.get("GITHUB_OUTPUT")
        if path:
            import json

            text = value if isinstance(value, str) else json.dumps(value)
            delimiter = f"mlir-release-{os.urandom(8).hex()}"
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(f"{name}<<{delimiter}\n{text}\n{delimiter}\n")


def _print(text: str, *, to: TextIO | None = None) -> None:
    try:
        print(text, file=to or sys.stdout, flush=True)
    except BrokenPipeError:  # nobody reads it any more: 128 and SIGPIPE, as other programs end then
        raise SystemExit(141) from None


def _to_stderr(text: str) -> None:
    _print(text, to=sys.stderr)


def _command(name: str, message: str, *, title: str = "") -> str:
    """A command to Actions. Source: github.com/actions/toolkit, packages/core/src/command.ts, for what is escaped."""

    def escaped(text: str, *characters: str) -> str:
        for character in ("%", "\r", "\n", *characters):
            text = text.replace(character, f"%{ord(character):02X}")
        return text

    properties = f" title={escaped(inert(title), ':', ',')}" if title else ""
    return f"::{name}{properties}::{escaped(inert(message))}"


console = Console()
