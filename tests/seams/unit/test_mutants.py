"""Each mutant of `make mutants` applies to the code as it is now, and its tests exist."""

from __future__ import annotations

import pytest

from tests.mutants.table import ROOT, Mutant, NotApplicable, mutants
from tests.seams.unit.test_security_page import PAGE, names_in, promises

ALL = mutants()


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.id)
def test_it_applies_and_its_tests_exist(mutant: Mutant) -> None:
    mutant.applied((ROOT / mutant.path).read_text(encoding="utf-8"))
    for test in mutant.tests:
        path, _, name = test.partition("::")
        names = names_in(path.removeprefix("tests/").removesuffix(".py"))
        assert names, test
        assert name in ("", *names), test


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
