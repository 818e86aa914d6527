"""Text that others wrote, made harmless before it leaves: in terminals and logs, in JSON, and in Markdown.

Others are upstream, forks, mirrors, files and the programs that are run. Their text may try to command the runner of
GitHub Actions, to control a terminal, or to become a link, a mention or a row of a document.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Characters of a line that are shown: our expressions take no longer than its length says.
LINE_LIMIT = 65_536

#: Colours of terminals: programs use them, and a log is easier to read without.
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")

#: What controls a terminal or reorders what is shown: control characters but for tab and newline, soft hyphens, marks
#: and overrides of the writing direction, separators of lines, invisible operators and tags, halves of surrogates.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)

#: What Actions takes for a command, in whatever a step prints. Source: github.com/actions/runner, ActionCommand.cs:
#: ``::`` begins a line, after white space; the older ``##[`` is anywhere in it.
_COMMAND = re.compile(r"(?:\A|[\r\n])[^\S\r\n]*:(?=:)|#(?=#\[)")


def visible(text: str) -> str:
    """Text in which each character that controls a terminal is shown as an escape: ``\\x1b``. Colours are dropped."""
    lines = _COLOUR.sub("", text.replace("\r\n", "\n")).split("\n")
    plain = "\n".join(line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]} …" for line in lines)
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), plain)


def without_commands(text: str) -> str:
    """Text in which nothing is a command to GitHub Actions: a space stands within each that would be one."""
    return _COMMAND.sub(lambda found: f"{found[0]} ", text)


def inert(text: str) -> str:
    """Text for a terminal or a log: it neither controls the terminal nor commands GitHub Actions."""
    return without_commands(visible(text))


def json_text(data: Any) -> str:
    """A JSON document for people and programs. It reads back unchanged, and no line commands GitHub Actions."""
    import json  # here and below, for a quick --help

    return json.dumps(data, indent=2, sort_keys=True).replace("##[", "#\\u0023[")


# -- Markdown ---------------------------------------------------------------------------------------------------------
#
# GitHub finds mentions and references in the rendered text, so that neither a backslash nor an entity stops them
# (github.com/github/cmark-gfm, issue 181). An invisible space within them does, and other renderers show the same.

_SPACE = "\u200b"

#: What a backslash must precede, lest it be markup. The first line: only where a block could begin. An underscore
#: within a word is none.
_MARKUP = re.compile(
    r"\A[-+=>#]|\A\[(?=[ xX]\])|\[(?=\^)"
    r"|\\(?=[!-/:-@\[-`{-~]|\Z)|\](?=[(:]|\Z)|[`*~$|]|(?<![^\W_])_|_(?![^\W_])"
)

#: What begins HTML or an entity.
_HTML = re.compile(r"<(?=[A-Za-z/!?@#])|&(?=#?\w+;)")

#: Where the invisible space is put. In turn: mentions and addresses, numbers of issues, emoji, URLs, items of a list.
#: Source: "Autolinked references and URLs" in GitHub's documentation; section 6.9 of GitHub Flavored Markdown.
_REFERENCE = re.compile(
    r"@(?=\S)|#(?=\d)|(?<![^\W_])[Gg][Hh]-(?=\d)|(?<!:):(?=(?:[a-z][a-z0-9_+-]*|[+-]1|100|1234):(?!:))"
    r"|:(?=//)|(?<![^\W_])[Ww]{3}(?=\.)|\A\d{1,9}(?=[.)](?:\s|\Z))"
)

#: What is shown as code: single backticks that belong together, and ids, which GitHub would link to its own commits.
_CODE = re.compile(r"(?<![`\\])`(?!`)(?P<quoted>\s*[^`\s][^`]*)`(?!`)|(?<!\w)(?P<id>(?=\d*[a-f])[0-9a-f]{7,40})(?!\w)")

#: What closes an issue or mentions someone from the message of a commit, where GitHub knows neither markup nor code.
_IN_COMMITS = re.compile(r"#(?=\d)|(?<![^\W_])[Gg][Hh]-(?=\d)|/(?:issues|pull)/(?=\d)|(?<!\w)@(?=\w)")


def markdown(text: str) -> str:
    """Text that Markdown shows as it is, on one line. What stands between two backticks, and a commit's id, is code.

    On GitHub it links nothing, mentions nobody, refers to no issue and closes none. It can stand in a cell of
    :func:`table`, in a paragraph or a list.
    """
    line, made, end = " ".join(visible(text).split()), "", 0
    for found in _CODE.finditer(line):
        # The text of a pull request may become a commit's message, too.
        made += _escaped(line[end : found.start()]) + code(in_commit(found["quoted"] or found["id"]))
        end = found.end()
    return made + _escaped(line[end:])


def _escaped(line: str) -> str:
    marked = _HTML.sub(lambda found: "&lt;" if found[0] == "<" else "&amp;", _MARKUP.sub(r"\\\g<0>", line))
    return _REFERENCE.sub(rf"\g<0>{_SPACE}", marked)


def in_commit(text: str) -> str:
    """Text for the message of a commit, on one line: there it mentions nobody and closes no issue."""
    return _IN_COMMITS.sub(rf"\g<0>{_SPACE}", " ".join(visible(text).split()))


def code(text: str) -> str:
    """Text as code within a line of Markdown."""
    line = " ".join(visible(text).split())
    fence = "`" * (_longest_fence(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}" if line else ""


def code_block(lines: Iterable[str], language: str = "text") -> str:
    """Lines as a block of code that nothing in them can end."""
    text = visible("\n".join(lines))
    fence = "`" * max(3, _longest_fence(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest_fence(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def html(text: str) -> str:
    """Text within an HTML tag of a Markdown document, on one line."""
    from html import escape

    return escape(" ".join(visible(text).split()))


def link(shown: str, url: str) -> str:
    """A link in Markdown, or only ``shown`` if the URL is no page or file.

    :param shown: in Markdown
    """
    if not re.match("(?:https?|file)://", url):
        return shown
    text = re.sub(
        r"(?<![\\`])(`+)(?!`).*?(?<!`)\1(?!`)|(?<!\\)[\[\]]",
        lambda found: found[0] if found[1] else f"\\{found[0]}",
        shown,
    )
    return f"[{text}]({re.sub(r'[^!#-&+-;=?-Z_a-z~]', lambda found: _quoted(found[0]), url)})"


def _quoted(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "replace"))


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown.

    :param columns: names; one that begins with ``>`` is right-aligned
    :param rows: of cells in Markdown: text of others went through :func:`markdown` or :func:`code`
    """
    head = [
        [name.removeprefix(">") for name in columns],
        ["--:" if name.startswith(">") else "---" for name in columns],
    ]
    return "\n".join(f"| {' | '.join(_cell(str(cell)) for cell in row)} |" for row in [*head, *rows])


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))
