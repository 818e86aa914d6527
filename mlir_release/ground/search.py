"""Where good turns into bad on a line of commits or releases whose two ends were tested: pure, but for the tests."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from mlir_release.ground.strategy import Adaptive, Culprit, Knowledge, Probe, Range, Verdict, bracket

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping

#: Every position is as likely as the next to be the first bad one: halving.
_EVEN = 1e-6


class Edge(msgspec.Struct, frozen=True):
    """``good`` tested good and ``bad`` bad; of the positions in between, those that were tried could not be tested."""

    good: int
    bad: int


def search(last: int, verdicts: MutableMapping[int, Verdict], test: Callable[[int], Verdict]) -> Edge:
    """Find the first bad position of 0..``last``.

    :param verdicts: what is known, at least 0 as good and ``last`` as bad; gets every answer. ``test`` may add to it
    """
    strategy = Adaptive(head_first=True)
    while isinstance(decision := strategy.decide(Knowledge(last, verdicts, [_EVEN] * (last + 1))), Probe):
        verdicts[decision.positions[0]] = test(decision.positions[0])
    assert isinstance(decision, Culprit | Range), "both ends were tested"
    if isinstance(decision, Culprit):
        return Edge(decision.position - 1, decision.position)
    return Edge(decision.good, decision.bad)


def steps_left(last: int, verdicts: Mapping[int, Verdict]) -> int:
    """How many more tests :func:`search` needs if all of them have an answer."""
    here = bracket(Knowledge(last, verdicts))
    high = last if here.high is None else here.high
    untested = sum(1 for position in range(here.low + 1, high) if position not in verdicts)
    return math.ceil(math.log2(untested + 1))


#: How wide a drawn line is.
_WIDTH = 100

_MARKS = {Verdict.UNTESTABLE: "?", Verdict.GOOD: "o", Verdict.BAD: "x"}
#: What the characters of a drawn line mean.
LEGEND = "o good   x bad   X a commit that broke it   ? can't be tested   . not tested"


def draw(last: int, tested: Collection[tuple[int, Verdict]], culprits: Iterable[int]) -> tuple[str, int]:
    """A line of commits or releases, 0 to ``last``, and how many of them a character is: of several, the worst verdict.

    :param tested: positions with their verdicts
    """
    size = max(1, -(-(last + 1) // _WIDTH))
    marks = ["."] * (last // size + 1)
    for wanted, mark in _MARKS.items():
        for position, verdict in tested:
            if verdict is wanted:
                marks[position // size] = mark
    for position in culprits:
        marks[position // size] = "X"
    return "".join(marks), size
