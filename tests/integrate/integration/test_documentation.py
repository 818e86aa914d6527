"""docs/integrate.md names every command of integrates, and the page for those who come from megabump each script."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.ground.strategy import STRATEGIES
from mlir_release.integrate.commands.integrate import integrate as top
from tests.code_blocks import in_markdown
from tests.integrate.integration.in_process import integrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integrate.integration.miniature import World

DOCS = Path(__file__).parents[3] / "docs"
PAGE, MEGABUMP = ((DOCS / name).read_text(encoding="utf-8") for name in ("integrate.md", "from-megabump.md"))


def commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield prefix + name, command


def test_every_command_is_named() -> None:
    for name, _ in commands(top):
        last = name.split()[-1]
        assert re.search(rf"\b{name}\b|`patches [^`]*\b{last}\b", PAGE), name


def test_every_option_that_is_named_exists() -> None:
    known = {option for _, command in commands(top) for p in command.params for option in (*p.opts, *p.secondary_opts)}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"\bgit [^`\n]*", "", PAGE)))  # git has its own
    assert named
    assert named <= known


def test_every_strategy_is_explained() -> None:
    assert all(f"| `{name}` |" in PAGE for name in STRATEGIES)


# -- for those who come from megabump ----------------------------------------------------------------------------------

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


def test_every_script_and_entry_has_its_row() -> None:
    assert [name for name in SCRIPTS if name not in MEGABUMP] == []
    playbook = MEGABUMP.partition("## Playbook")[2].partition("\n## ")[0]
    assert len([row for row in playbook.splitlines() if row.startswith("| ")]) == ENTRIES + 1


def test_the_first_walk_is_run_as_it_stands(world: World) -> None:
    lines = in_markdown(MEGABUMP)[-1].text.splitlines()
    codes = {line: integrate(world, *shlex.split(line)[2:])["code"] for line in lines}
    first = [f"mlir-release integrate {name}" for name in ("start", "status", "next", "run")]
    assert codes == dict(zip(first, (0, 0, 0, 7), strict=True))  # 7: the culprit was found, and needs a person
