"""Each mutant of `make mutants` applies to the code as it is now, and its tests exist; so do those of `rest.toml`."""

from __future__ import annotations

import tomllib

import pytest

from tests.mutants.table import ROOT, Mutant, NotApplicable, mutants
from tests.seams.unit.test_security_page import PAGE, names_in, promises

ALL = mutants()
REST = tomllib.loads((ROOT / "tests/rest.toml").read_text(encoding="utf-8"))["group"]


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
    tried = {test for mutant in ALL for test in mutant.tests}
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
        ("m:C.f", '"1"', '"2"', ""),
        ("m:C.x", "= 1", "= 2", ""),
        ("m:A", "1", "2", ""),
        ("m:f", "2", "3", ""),
        ("m:f", "1", "3", "0 times"),
        ("m:C", "1", "3", "2 times"),
        ("m:g", "1", "3", "there is no g"),
        ("m:C.f", "é", "e", "changes no code"),
        ("m:f", "2", "(", "no Python"),
        ("m.yml", "A = 1", "A = 2", ""),
    ],
)
def test_what_applies_and_what_does_not(at: str, old: str, new: str, said: str) -> None:
    mutant = Mutant("", "", at, old, new, ())
    if said:
        with pytest.raises(NotApplicable, match=said):
            mutant.applied(CODE)
    else:
        assert len(mutant.applied(CODE)) == len(CODE)
