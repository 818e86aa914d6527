"""The pages' links lead somewhere, and the commands and options that they show exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from mlir_release.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
#: Options that every command takes, given to the group.
GLOBAL = {option for parameter in app.params for option in parameter.opts}


def commands_shown(text: str) -> Iterator[list[str]]:
    """The words of each ``mlir-release …`` command in the code blocks and code spans of a page."""
    text = text.replace("\\\n", " ")
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```\w*\n.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL))
    for line in [line for block in blocks for line in block.splitlines()] + spans:
        found = re.search(r"(?:^|\s)mlir-release ([a-z].*)", line)
        if found is not None:
            yield shlex.split(found[1], comments=True)


def problem(words: list[str]) -> str | None:
    """What is wrong with a command as a page shows it; placeholders such as ``TAG`` and ``…`` are ignored."""
    command: click.Command = app
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        word = rest.pop(0)
        found = command.get_command(click.Context(command), word)
        if found is None:
            return f"no command {word}"
        command = found
    known = GLOBAL | {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word.partition("=")[0] for word in rest if re.match(r"\[?--[a-z]", word)]
    wrong = [option for option in unknown if option.strip("[]") not in known | {"--help", "--"}]
    return f"no option {', '.join(wrong)}" if wrong else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = {" ".join(words): found for words in commands_shown(text) if (found := problem(words)) is not None}
    assert wrong == {}


def test_the_pages_show_commands() -> None:
    shown = [words for page in PAGES for words in commands_shown(page.read_text(encoding="utf-8"))]
    assert len(shown) > 40


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("snapshot --policy head --dry-run", None),
        ("snapshot --no-such-thing", "no option --no-such-thing"),
        ("release no-such-thing TAG", "no command no-such-thing"),
    ],
)
def test_a_wrong_command_is_found(command: str, expected: str | None) -> None:
    assert problem(command.split()) == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path, _, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(#?)([^)]*)\)", text):
        target = page.parent / path if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in anchors(target), f"{path}#{anchor}"


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings of ``page``."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_modules_that_the_design_walks_through_exist() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    walks = text[text.index("## Three walks") : text.index("## Versions and tags")]
    named = re.findall(r"`([\w/]+\.py)\b", walks)
    modules = ["/" + path.relative_to(ROOT).as_posix() for path in (ROOT / "mlir_release").rglob("*.py")]
    assert len(named) > 50
    assert [name for name in named if not any(module.endswith(f"/{name}") for module in modules)] == []
