"""Write the files anew. Those of new commands begin with their help; add a typical run by hand."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from mlir_release.cli.app import app
from tests.commands.test_commands import commands, file_name
from tests.commands.world import copy_world, enter, make_world, transcript

HERE = Path(__file__).parent


def write(names: list[str]) -> None:
    """Write the files of commands, ``release waive``; all, if none is named."""
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder, "world")
        with pytest.MonkeyPatch.context() as patch:
            make_world(world, patch)
        for words in commands(app):
            command = " ".join(("mlir-release", *words))
            if names and " ".join(words) not in names:
                continue
            file = HERE / f"{file_name(words)}.txt"
            text = file.read_text(encoding="utf-8") if file.exists() else f"$ {command} --help\n"
            root = Path(folder, file_name(words), "world")
            copy_world(world, root)
            with pytest.MonkeyPatch.context() as patch:
                enter(root, patch)
                file.write_text(transcript(text, root), encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:])
