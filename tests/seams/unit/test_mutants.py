"""Tests that `docs/security.md`, `make mutants` and `rest.toml` name exist, and each mutant applies to today's code."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache

import pytest

from tests.mutants.table import ROOT, Mutant, NotApplicable, mutants

PAGE = ROOT / "docs/security.md"
_ROW = re.compile(r"\| (?P<promise>.+) \| (?P<tests>[^|]+) \|")
_TEST = re.compile(r"`(?P<path>[a-z0-9_/]+)::(?P<name>test_\w+)`")

ALL = mutants()
REST = tomllib.loads((ROOT / "tests/rest.toml").read_text(encoding="utf-8"))["group"]


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests in a file below `tests/`, given without its ending; none if it does not exist."""
    file = ROOT / "tests" / f"{path}.py"
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module(body=[], type_ignores=[])
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def need(test: str) -> None:
    """Check that there is a test, or a file of tests."""
    path, _, name = test.partition("[")[0].partition("::")
    names = names_in(path.removeprefix("tests/").removesuffix(".py"))
    assert names, test
    assert name in ("", *names), test


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.id)
def test_it_applies_and_its_tests_exist(mutant: Mutant) -> None:
    mutant.applied((ROOT / mutant.path).read_text(encoding="utf-8"))
    for test in mutant.tests:
        need(test)


@pytest.mark.parametrize("group", REST, ids=lambda group: group["tests"][0])
def test_what_is_left_to_the_rest_exists_and_has_a_reason(group: dict[str, list[str]]) -> None:
    assert group["reason"]
    for test in group["tests"] + group.get("except", []):
        if not (ROOT / test).is_dir():
            need(test)
    assert all(test.startswith(tuple(group["tests"])) for test in group.get("except", []))


def test_each_has_an_id_of_its_own() -> None:
    assert len({mutant.id for mutant in ALL}) == len(ALL)


def test_each_promise_of_the_security_page_has_a_mutant_that_breaks_it() -> None:
    """By the tests: one at least that holds the promise has a mutant that it must notice."""
    tried = {test.partition("[")[0] for mutant in ALL for test in mutant.tests}
    rows = promises(PAGE.read_text(encoding="utf-8"))
    without = [
        promise
        for promise, tests in rows.items()
        if not any({f"tests/{path}.py", f"tests/{path}.py::{name}"} & tried for path, name in tests)
    ]
    assert without == []


CODE = 'A = 1\n\nclass C:\n    x: int = 1\n\n    def f(self):\n        return "1"  # é\n\ndef f():\n    return 2\n'


@pytest.mark.parametrize(
    ("at", "old", "new", "said"),
    [
        ("m:f", "1", "3", "0 times"),
        ("m:C", "1", "3", "2 times"),
        ("m:g", "1", "3", "there is no g"),
        ("m:C.f", "é", "e", "changes no code"),
        ("m:f", "2", "(", "no Python"),
    ],
)
def test_what_does_not_apply(at: str, old: str, new: str, said: str) -> None:
    with pytest.raises(NotApplicable, match=said):
        Mutant("", "", at, old, new, ()).applied(CODE)


# -- the security page: each row of its tables names a test -----------------------------------------------------------


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
