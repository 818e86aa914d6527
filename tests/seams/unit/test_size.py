"""``make size`` counts each line once, each class and function by its kind, and the commands that there are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tools.size import measure

if TYPE_CHECKING:
    from pathlib import Path

ROOM = '''"""A module.

Of two lines of text."""

import os  # a comment behind code
from dataclasses import (
    dataclass,
)


# A comment.
@dataclass
class One:
    """A class."""

    text: str = """
no docstring
"""


class Two(Struct):
    def both(self) -> None:
        def inner(): ...


class Three(Two): ...


ERRORS = {"one": Meaning("", ""), "two": Meaning("", "")}
'''
CLI = """import click
@click.group()
def app(): ...
@app.command()
@click.option("--one")
@click.argument("two")
def first(one, two): ...
"""
EXTRA = """import click
@click.command()
@click.option("-x")
@click.option("-y")
def more(x, y): ...
"""
PROJECT = """[project]
scripts.mlir-release = "mlir_release.cli:main"
entry-points."mlir_release.commands".more = "mlir_release.extra:more"
"""


def tree(folder: Path, **files: str) -> Path:
    more = {"pyproject.toml": PROJECT, "mlir_release/cli.py": CLI, "mlir_release/extra.py": EXTRA}
    for name, text in {**more, **{name.replace("__", "/") + ".py": text for name, text in files.items()}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_every_line_is_of_one_kind_and_what_it_holds_is_counted(tmp_path: Path) -> None:
    rooms, whole = measure(tree(tmp_path, mlir_release__room__a=ROOM, tests__b="def test_one(): ...\ndef two(): ...\n"))
    room = rooms["room"]
    assert sum(room[kind] for kind in ("code", "docs", "imports", "blank")) == len(ROOM.splitlines())
    assert room == Counter(
        code=10, docs=5, imports=4, blank=10, modules=1, functions=2, dataclasses=1, structs=2, **{"function lines": 3}
    )
    assert rooms["(loose)"]["modules"] == 2
    assert whole == {"commands": 2, "options": 3, "error ids": 2, "tests": 1, "lines of tests": 2}
