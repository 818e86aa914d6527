"""`docs/security.md` promises only what a test holds: each row of its tables names one, and the names exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/security.md"

_ROW = re.compile(r"\| (?P<promise>.+) \| (?P<tests>[^|]+) \|")
_TEST = re.compile(r"`(?P<path>[a-z0-9_/]+)::(?P<name>test_\w+)`")


def promises(text: str) -> dict[str, list[tuple[str, str]]]:
    """The rows of the tables whose second column is *held by*, with the tests that each names."""
    found: dict[str, list[tuple[str, str]]] = {}
    in_table = False
    for line in text.splitlines():
        if not line.startswith("|"):
            in_table = False
        elif line.endswith("| held by |"):
            in_table = True
        elif in_table and not line.startswith("|---"):
            row = _ROW.fullmatch(line)
            assert row is not None, line
            found[row["promise"]] = _TEST.findall(row["tests"])
    return found


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests in a file below `tests/`, given without its ending; none if it does not exist."""
    file = ROOT / "tests" / f"{path}.py"
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module(body=[], type_ignores=[])
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_promise_names_a_test_that_exists() -> None:
    found = promises(PAGE.read_text(encoding="utf-8"))
    assert len(found) > 20
    assert [promise for promise, tests in found.items() if not tests] == []
    assert [f"{path}::{name}" for tests in found.values() for path, name in tests if name not in names_in(path)] == []


def test_every_attack_that_is_kept_is_promised() -> None:
    named = {path for tests in promises(PAGE.read_text(encoding="utf-8")).values() for path, _ in tests}
    kept = {f"attacks/{path.stem}" for path in (ROOT / "tests/attacks").glob("test_*.py")}
    assert kept - named == set()


@pytest.mark.parametrize(("cell", "tests"), [("`a/b::test_c`, `d::test_e`", 2), ("a test", 0)])
def test_what_a_row_names(cell: str, tests: int) -> None:
    (found,) = promises(f"| promise | held by |\n|---|---|\n| It is so. | {cell} |\n").values()
    assert len(found) == tests
