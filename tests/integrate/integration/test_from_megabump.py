"""The page for those who come from megabump: its scripts are all there, and our commands are what they are called."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.app import app
from tests.code_blocks import in_markdown
from tests.integrate.integration.in_process import integrate

if TYPE_CHECKING:
    from tests.integrate.integration.miniature import World

PAGE = (Path(__file__).parents[3] / "docs" / "from-megabump.md").read_text(encoding="utf-8")

#: The programs of github.com/iree-org/megabump at 37cbfaf8, of its branch bot, and the entries of its playbook.
SCRIPTS = (
    *(
        "start_integrate",
        "llvm_revision status",
        "llvm_revision next",
        "--advance-to",
        "--no-export",
        "llvm_revision range",
        "build_and_validate.sh",
        "loop.sh",
    ),
    *("export_submodule_head", "gen_iree_llvm_error_report", "start_byobu", "auto_integrate.py", "integrate.py"),
    *("bot.py", "config.py", ".discord_webhook", "megabump_utils.py"),
)
ENTRIES = 9


def resolve(line: str) -> None:
    """Find a command of the page, and each option that it is given."""
    words = shlex.split(line)[1:]
    command: click.Command = app
    context = click.Context(app)
    while words and isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, line
        context, command = click.Context(found, parent=context), found
        words.pop(0)
    known = {option for parameter in command.params for option in parameter.opts}
    own = words[: words.index("--")] if "--" in words else words
    assert {word for word in own if word.startswith("-")} <= known, line


def test_every_script_and_entry_has_its_row() -> None:
    assert [name for name in SCRIPTS if f"{name}" not in PAGE] == []
    playbook = PAGE.partition("## Playbook")[2].partition("\n## ")[0]
    assert len([row for row in playbook.splitlines() if row.startswith("| ")]) == ENTRIES + 1


def test_every_command_of_the_page_is_there() -> None:
    commands = re.findall(r"`(mlir-release [^`]+)`", PAGE)
    commands += [line for block in in_markdown(PAGE) for line in block.text.splitlines()]
    assert len(commands) > 25
    for command in commands:
        resolve(command)


def test_the_first_walk_is_run_as_it_stands(world: World) -> None:
    lines = in_markdown(PAGE)[-1].text.splitlines()
    codes = {line: integrate(world, *shlex.split(line)[2:])["code"] for line in lines}
    first = [f"mlir-release integrate {name}" for name in ("start", "status", "next", "run")]
    assert codes == dict(zip(first, (0, 0, 0, 7), strict=True))  # 7: the culprit was found, and needs a person
