"""docs/integrate.md names every command of integrates, and no command or option that does not exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.ground.strategy import STRATEGIES
from mlir_release.integrate.commands.integrate import integrate

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "integrate.md").read_text(encoding="utf-8")


def commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield prefix + name, command


def test_every_command_is_named() -> None:
    for name, _ in commands(integrate):
        last = name.split()[-1]
        assert re.search(rf"\b{name}\b|`patches [^`]*\b{last}\b", PAGE), name


def test_every_option_that_is_named_exists() -> None:
    known = {
        option for _, command in commands(integrate) for p in command.params for option in (*p.opts, *p.secondary_opts)
    }
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"\bgit [^`\n]*", "", PAGE)))  # git has its own
    assert named
    assert named <= known


def test_every_strategy_is_explained() -> None:
    assert all(f"| `{name}` |" in PAGE for name in STRATEGIES)
