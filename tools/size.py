#!/usr/bin/env python3
"""Show how large the package is, room by room, before and after: ``python tools/size.py [BASE]``, or ``make size``.

BASE is a commit, by default HEAD; "after" is the work tree. The base's commands are counted by importing them from a
copy of its files, with the packages of this environment. These are needles, no limits: nothing fails because it grew.
"""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    Size = tuple[dict[str, Counter[str]], Counter[str]]  # of rooms, of the whole

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, TESTS = "mlir_release", "tests"
KINDS = ("code", "docs", "imports", "blank", "modules", "functions", "dataclasses", "structs")

#: Prints the numbers of commands and of options. Extras are those of pyproject.toml: what is installed may differ.
_WALK = """
import click, importlib, json, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project.get("entry-points", {}).get("mlir_release.commands", {})
def load(point):
    module, _, name = point.partition(":")
    return getattr(importlib.import_module(module), name)
def walk(command):
    if not isinstance(command, click.Group):
        return 1, sum(isinstance(each, click.Option) for each in command.params)
    context = click.Context(command)
    inner = [command.get_command(context, name) for name in command.list_commands(context) if name not in extras]
    counts = [walk(each) for each in inner if each is not None]
    if command is app:
        counts += [walk(load(point)) for point in extras.values()]
    own = sum(isinstance(each, click.Option) for each in command.params)
    return sum(count for count, _ in counts), own + sum(count for _, count in counts)
app = load(project["scripts"]["mlir-release"].partition(":")[0] + ":app")
print(json.dumps(walk(app)))
"""


def measure(folder: Path) -> Size:
    """The counts of each room of a tree, and those of the whole."""
    paths = [path for name in (PACKAGE, TESTS) for path in sorted((folder / name).rglob("*.py"))]
    texts = {path.relative_to(folder): path.read_text(encoding="utf-8") for path in paths}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    package = [path for path in texts if path.parts[0] == PACKAGE]
    structs = _structs([trees[path] for path in package])
    rooms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    whole: Counter[str] = Counter()
    for path in package:
        room = rooms[path.parts[1] if len(path.parts) > 2 else "(loose)"]
        room += _lines(texts[path], trees[path])
        room["modules"] += 1
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                room["functions"] += 1
                room["function lines"] += (node.end_lineno or 0) - node.lineno + 1
            elif isinstance(node, ast.ClassDef):
                room["structs"] += node.name in structs
                room["dataclasses"] += "dataclass" in map(_name, node.decorator_list)
            elif isinstance(node, ast.Dict):
                whole["error ids"] += sum(_name(value) == "Meaning" for value in node.values)
    tests = [path for path in texts if path.parts[0] == TESTS]
    whole["lines of tests"] = sum(len(texts[path].splitlines()) for path in tests)
    nodes = (node for path in tests for node in ast.walk(trees[path]) if isinstance(node, ast.FunctionDef))
    whole["tests"] = sum(node.name.startswith("test_") for node in nodes)
    walked = subprocess.run([sys.executable, "-c", _WALK], cwd=folder, capture_output=True, text=True, check=False)
    if walked.returncode:
        print(f"the commands of {folder} can't be counted: {walked.stderr.strip()[-300:]}", file=sys.stderr)
    else:
        whole["commands"], whole["options"] = json.loads(walked.stdout)
    return dict(rooms), whole


def _name(node: ast.expr) -> str:
    """The last word of what is named or called."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _structs(trees: list[ast.Module]) -> set[str]:
    """The names of msgspec's classes, and of those that are made of them."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found, known = {"Struct"}, 0
    while known < len(found):
        known = len(found)
        found |= {node.name for node in classes if found & {*map(_name, node.bases)}}
    return found


def _lines(text: str, tree: ast.Module) -> Counter[str]:
    """How many lines are code, docs (docstrings, and comments that have a line), imports and blank."""
    kinds = ["blank" if not line.strip() else "code" for line in text.splitlines()]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            kinds[token.start[0] - 1] = "docs"
    for node in ast.walk(tree):
        kind = ""
        if isinstance(node, ast.Import | ast.ImportFrom):
            kind = "imports"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kind = "docs"
        if kind and isinstance(node, ast.stmt):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            kinds[first:last] = [kind] * (last - first)
    return Counter(kinds)


def tables(before: Size, after: Size) -> Iterator[Table]:
    """By room, the base's counts above today's where they differ; and the totals."""
    names = ("lines", "±", *KINDS[:6], "mean", *KINDS[6:])
    by_room = _table("lines of Python by room, their functions and classes", "room", *names)
    rooms = sorted({*before[0], *after[0]})
    for room in [*rooms, "all"]:
        both = [
            side[0].get(room) or sum(side[0].values() if room == "all" else (), Counter()) for side in (before, after)
        ]
        lines = [sum(side[kind] for kind in KINDS[:4]) for side in both]
        means = [f"{side['function lines'] / (side['functions'] or 1):.1f}" for side in both]
        cells = [_both(*(f"{side[kind]:,}" for side in both)) for kind in KINDS]
        cells.insert(6, _both(*means))
        by_room.add_row(room, _both(*map("{:,}".format, lines)), _difference(*lines), *cells)
    yield by_room
    totals = _table("totals", "", "before", "after", "±")
    for name in ("commands", "options", "error ids", "tests", "lines of tests"):
        counts = [side[1].get(name) for side in (before, after)]
        totals.add_row(name, *("?" if count is None else f"{count:,}" for count in counts), _difference(*counts))
    yield totals


def _table(title: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for number, name in enumerate(columns):
        made.add_column(name, justify="right" if number else "left", no_wrap=True)
    return made


def _both(before: str, after: str) -> str:
    return after if before == after else f"{before}\n{after}"


def _difference(before: int | None, after: int | None) -> str:
    return f"{after - before:+,}" if None not in (before, after) and after != before else ""  # type: ignore[operator]


def main() -> None:
    """See the module."""
    base = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    archived = subprocess.run(
        ["git", "archive", base, PACKAGE, TESTS, "pyproject.toml"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(folder, filter="data")
        before = measure(Path(folder))
    after = measure(ROOT)
    for table in tables(before, after):
        Console(width=100).print(table)


if __name__ == "__main__":
    main()
