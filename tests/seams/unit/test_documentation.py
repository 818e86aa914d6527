"""Links, headings and commands in the documentation: each leads to something that exists."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from mlir_release.cli.app import app
from mlir_release.release.index.documents import render

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
LISTED = subprocess.run(["git", "ls-files", "-z", "--", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
PAGES = sorted(ROOT / name for name in LISTED.stdout.split("\0") if name and "/begun_before/" not in name)
#: What other files say of a page of ours: its path, and perhaps one of its headings.
MENTION = re.compile(r"(?<!fulcio, )(docs/[\w-]+\.md)(?:, ['\"]([^'\"]+)['\"]| \(\"([^\"]+)\"\))?")


@cache
def links_and_anchors(page: Path) -> tuple[list[str], set[str]]:
    """The targets of a page's links, and the anchors of its headings, as GitHub makes them."""
    html = render(page.read_text(encoding="utf-8"), lambda link: link)
    return re.findall(r'<a href="([^"]+)"', html), set(re.findall(r'<h\d id="([^"]+)"', html))


@cache
def headings(page: Path) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    wrong = []
    for link in links_and_anchors(page)[0]:
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in links_and_anchors(target)[1]):
            wrong.append(link)
    assert wrong == []


def test_every_page_that_code_mentions_exists_with_its_heading() -> None:
    folders = ["mlir_release", "tools", "actions", ".github", "benchmarks", "examples", "targets.toml", "Makefile"]
    found = subprocess.run(
        ["git", "grep", "-lI", "docs/[a-z-]*\\.md", "--", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    mentions = {
        (name, page, inside or bracketed)
        for name in found.stdout.split()
        for page, inside, bracketed in MENTION.findall(unwrapped((ROOT / name).read_text(encoding="utf-8")))
    }
    assert any(heading for _, _, heading in mentions)
    assert [each for each in sorted(mentions) if not_there(ROOT / each[1], each[2])] == []


def unwrapped(text: str) -> str:
    """Text whose comments and strings are on one line each."""
    return re.sub(r"\s*\n\s*(?:#:?|//|\*)?\s*", " ", text)


def not_there(page: Path, heading: str) -> bool:
    return not page.exists() or bool(heading and heading not in headings(page))


def spoken(page: Path) -> Iterator[list[str]]:
    """The words after ``mlir-release`` in code blocks and inline code."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in re.sub(r"\\\n\s*", " ", block).splitlines()]
    lines += [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", text)]
    for line in lines:
        found = re.search(r"(?:^|[\s/$;&])mlir-release ((?:(?!#).)*)", line)
        if found:
            command = re.split(r"\s*\\?[|;]|&&|\s#", found[1])[0]
            yield command.replace("'", " ").replace('"', " ").replace("[", " ").replace("]", " ").split()


def mistake(words: list[str]) -> str:
    """What is wrong with a command line, apart from its values."""
    command: click.Command = app
    context = click.Context(app, **app.context_settings)  # click remembers the names of --help
    for word in words:
        if word == "--":  # what follows is another program's
            break
        name = word.partition("=")[0].rstrip(",.;)")
        if name.startswith("--"):
            known = {option for p in command.get_params(context) for option in (*p.opts, *p.secondary_opts)}
            if name not in known:
                return f"{command.name} has no {name}"
        elif isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]+", name):
            found = command.get_command(context, name)
            if found is None:
                return f"{command.name} has no {name}"
            command = found
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_exists(page: Path) -> None:
    assert [(words, wrong) for words in spoken(page) if (wrong := mistake(words))] == []


def test_the_pages_show_commands() -> None:
    assert len([words for page in PAGES for words in spoken(page)]) > 40


def test_modules_that_the_design_walks_through_exist() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    walks = text[text.index("## Three walks") : text.index("## Versions and tags")]
    named = re.findall(r"`([\w/]+\.py)\b", walks)
    modules = ["/" + path.relative_to(ROOT).as_posix() for path in (ROOT / "mlir_release").rglob("*.py")]
    assert len(named) > 50
    assert [name for name in named if not any(module.endswith(f"/{name}") for module in modules)] == []


def test_the_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "reference.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_variable_that_the_code_names_is_documented_and_the_other_way_round() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "mlir_release").rglob("*.py")))
    code += "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / ".github").rglob("*.yml"))
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    named = set(re.findall(r'^[A-Z_]+ = "(MLIR_RELEASE_\w+)"', code, re.MULTILINE))
    assert len(named) > 8
    assert {name for name in named if name not in pages} == set()
    configuration = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert {name for name in re.findall(r"MLIR_RELEASE_\w+", configuration) if name not in code} == set()


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("snapshot --policy green --dry-run", ""),
        ("release waive TAG --only os=windows", ""),
        ("release wave TAG", "release has no wave"),
        ("snapshot --forced", "snapshot has no --forced"),
        ("bisect --good TAG -- python --version-of-it", ""),
    ],
)
def test_a_wrong_command_is_found(words: str, wrong: str) -> None:
    assert mistake(shlex.split(words)) == wrong
