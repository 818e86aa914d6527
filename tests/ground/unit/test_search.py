"""Where good turns into bad: how many tests it takes, and that what can't be tested never makes the answer wrong."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mlir_release.ground.search import Edge, search, steps_left
from mlir_release.ground.strategy import Verdict


def run(last: int, first_bad: int, untestable: frozenset[int] = frozenset()) -> tuple[Edge, int]:
    """The answer on a line whose positions from ``first_bad`` on are bad, and how many tests it took."""
    asked: list[int] = []

    def test(position: int) -> Verdict:
        asked.append(position)
        if position in untestable:
            return Verdict.UNTESTABLE
        return Verdict.BAD if position >= first_bad else Verdict.GOOD

    edge = search(last, {0: Verdict.GOOD, last: Verdict.BAD}, test)
    assert len(asked) == len(set(asked)), "a position was asked about twice"
    return edge, len(asked)


@pytest.mark.parametrize("last", [1, 2, 3, 4, 7, 8, 9, 59, 100])
def test_the_first_bad_position_is_found_in_as_many_steps_as_halving_takes(last: int) -> None:
    for first_bad in range(1, last + 1):
        edge, steps = run(last, first_bad)
        assert edge == Edge(first_bad - 1, first_bad)
        assert steps <= math.ceil(math.log2(last))


@given(some.data())
def test_the_answer_holds_the_first_bad_position_whatever_can_t_be_tested(data: some.DataObject) -> None:
    last = data.draw(some.integers(1, 60))
    first_bad = data.draw(some.integers(1, last))
    untestable = data.draw(some.frozensets(some.integers(1, max(1, last - 1)))) - {0, last}
    edge, _ = run(last, first_bad, untestable)
    assert edge.good < first_bad <= edge.bad
    assert edge.good not in untestable
    assert edge.bad not in untestable


def test_a_test_may_tell_of_other_positions_too() -> None:
    """As where several commits have one tree: they are not asked about any more."""
    verdicts = {0: Verdict.GOOD, 100: Verdict.BAD}
    asked = []

    def test(position: int) -> Verdict:
        asked.append(position)
        verdicts.update({60: Verdict.GOOD, 61: Verdict.BAD})
        return Verdict.GOOD

    assert search(100, verdicts, test) == Edge(60, 61)
    assert asked == [50]


def test_the_number_of_steps_that_are_left_is_told_before_them() -> None:
    verdicts = {0: Verdict.GOOD, 100: Verdict.BAD}
    assert steps_left(100, verdicts) == 7
    assert steps_left(100, {**verdicts, 50: Verdict.BAD, 25: Verdict.GOOD}) == 5
    assert steps_left(100, {**verdicts, 50: Verdict.BAD, 49: Verdict.GOOD}) == 0
    assert steps_left(1, {0: Verdict.GOOD, 1: Verdict.BAD}) == 0
