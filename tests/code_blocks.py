"""The code blocks of a page, in Markdown or HTML, and a shell that runs them one after the other, as a reader does."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: The sentence before a program.
SAVE = re.compile(r"Save this as `?([\w.]+)`?:$")


@dataclass(frozen=True)
class Block:
    """A block: shell commands, the text of a file, or what the commands before it print."""

    text: str
    file: str = ""
    output: bool = False

    @property
    def is_shell(self) -> bool:
        return not self.file and not self.output


def in_markdown(text: str) -> list[Block]:
    """The fenced blocks: shell commands without a language, output as ``text``, and programs after :data:`SAVE`."""
    found, before = [], ""
    for token in MarkdownIt().parse(text):
        if token.type == "inline":
            before = token.content
        elif token.type == "fence":
            name = SAVE.search(before) if token.info else None
            assert token.info in ("", "text") or name, f"a block of {token.info} that nobody is told to save"
            found.append(Block(token.content.rstrip(), name[1] if name else "", output=token.info == "text"))
    return found


class _Blocks(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[Block] = []
        self.inside: dict[str, str | None] | None = None
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "pre":
            self.inside, self.text = dict(attrs), ""

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre" and self.inside is not None:
            file = self.inside.get("data-file") or ""
            self.found.append(Block(self.text.rstrip(), file, output="data-output" in self.inside))
            self.inside = None


def in_html(text: str) -> list[Block]:
    """The ``pre`` elements: shell commands, but for those that have ``data-file`` or ``data-output``."""
    return _Blocks(text).found


def run_blocks(blocks: Sequence[Block], folder: Path, *, programs: Sequence[Path]) -> list[str]:
    """Run the commands in one shell in ``folder``, and compare what they print with the blocks of output.

    :param programs: folders that come first in PATH
    :returns: what each block of commands printed
    :raises AssertionError: if one fails, or prints something else
    """
    script = ["set -eu"]
    for block in blocks:
        if block.file:
            (folder / block.file).write_text(f"{block.text}\n", encoding="utf-8")
        elif block.is_shell:
            script += [block.text, "printf '\\036'"]
    path = os.pathsep.join([*map(str, programs), "/usr/bin", "/bin"])
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        ["sh", "-c", "\n".join(script)],
        cwd=folder,
        env=environment | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    printed = done.stdout.split("\036")
    shown = iter(printed)
    last = ""
    for block in blocks:
        if block.output:
            assert last.strip() == block.text.strip()
        elif block.is_shell:
            last = next(shown)
    return printed[:-1]
