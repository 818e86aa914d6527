"""The mutants in ``table.toml``: where each changes the toolkit, and what it changes there."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from msgspec import Struct, convert

TABLE = Path(__file__).with_name("table.toml")

ROOT = TABLE.parents[2]


class NotApplicable(ValueError):
    """What a mutant changes is not there any more."""


class Mutant(Struct, frozen=True, forbid_unknown_fields=True):
    """A fault. What it replaces is there exactly once."""

    id: str
    promise: str  #: that the toolkit then breaks
    at: str  #: ``module:function``, ``module:Class.method``, ``module:CONSTANT``; or the path of another kind of file
    old: str
    new: str
    tests: tuple[str, ...]  #: files or tests of pytest; at least one test must fail

    @property
    def path(self) -> str:
        """The file that it changes, from the top of a checkout."""
        module, colon, _ = self.at.partition(":")
        return f"{module.replace('.', '/')}.py" if colon else self.at

    def applied(self, text: str) -> str:
        """The text of :attr:`path` with the fault in it. :raises NotApplicable:"""
        lines = text.split("\n")
        _, python, symbol = self.at.partition(":")
        start, end = _extent(text, symbol) if python else (0, len(lines))
        part = "\n".join(lines[start:end])
        if (count := part.count(self.old)) != 1:
            raise NotApplicable(f"{self.at} has {count} times {self.old!r}")
        made = "\n".join([*lines[:start], part.replace(self.old, self.new), *lines[end:]])
        try:
            same = made == text or (python and ast.dump(ast.parse(made)) == ast.dump(ast.parse(text)))
        except SyntaxError as error:
            raise NotApplicable(f"what is then in {self.path} is no Python: {error}") from None
        if same:
            raise NotApplicable(f"it changes no code of {self.at}")
        return made


def _extent(text: str, symbol: str) -> tuple[int, int]:
    """The lines of a function, class or constant, from 0, without the end. :raises NotApplicable: if there is none"""
    found: ast.AST = ast.parse(text)
    for name in symbol.split("."):
        inner = next((node for node in ast.iter_child_nodes(found) if name in _names(node)), None)
        if inner is None:
            raise NotApplicable(f"there is no {symbol}")
        found = inner
    assert isinstance(found, ast.stmt)
    return found.lineno - 1, found.end_lineno or 0


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def mutants() -> list[Mutant]:
    """All of them."""
    return convert(tomllib.loads(TABLE.read_text(encoding="utf-8"))["mutant"], list[Mutant])
