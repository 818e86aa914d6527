"""No command, option or argument is lost: the command line's interface against a checked-in list.

To update the list after a deliberate change: ``python tests/unit/cli/test_commands.py > tests/unit/cli/commands.txt``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_release.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator

LIST = Path(__file__).with_name("commands.txt")


def interface(command: click.Command, name: str = "mlir-release") -> Iterator[str]:
    """A line for each command, argument and option, below ``command``."""
    yield name
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            yield f"{name} {parameter.human_readable_name}"
        else:
            yield f"{name} {' '.join((*parameter.opts, *parameter.secondary_opts))}"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None, child
            yield from interface(found, f"{name} {child}")


def test_every_command_option_and_argument_is_kept() -> None:
    assert sorted(interface(app)) == LIST.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    print("\n".join(sorted(interface(app))))
