"""Every command of the trunk has a file here, and prints what its file says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from mlir_release.cli.app import app
from tests.commands.world import copy_world, enter, transcript

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = sorted(Path(__file__).parent.rglob("*.txt"))


def commands(command: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    yield names
    if isinstance(command, click.Group):
        context = click.Context(command)
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None, child
            yield from commands(found, *names, child)


def file_name(words: tuple[str, ...]) -> str:
    """The name of a command's file, ``release-waive``."""
    return "-".join(words) or "mlir-release"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_command_prints_what_its_file_says(
    file: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "world"
    copy_world(world, root)
    enter(root, monkeypatch)
    text = file.read_text(encoding="utf-8")
    assert transcript(text, root) == text


def test_every_command_has_a_file() -> None:
    assert {file_name(words) for words in commands(app)} == {file.stem for file in FILES}
