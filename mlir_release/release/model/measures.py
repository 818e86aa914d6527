"""What the suite ``performance`` measures of a wheel, over the releases of one kind, and where a measure has moved.

Names that end in ``-bytes`` are sizes; all others are instructions, counted while a fixed amount of work was done.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

from mlir_release.builder.model.test_report import PEAK_MEMORY, TITLES, title_of
from mlir_release.release.model.release_tags import parse_release_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.release.model.manifest import Manifest

#: A change beyond this part of the baseline is no noise. Counts of one wheel differ by 0.0005 % from run to run in one
#: folder, by 0.6 % between folders; peak memory by 0.2 %: LLVM 22.1.8, valgrind 3.19, CPython 3.11.
NOISE = 0.02
NOISE_OF_MEMORY = 0.05


#: The releases before, whose median is the baseline; and the releases before that a change depends on.
BASELINE = 5
LOOK_BACK = BASELINE + 1

#: The newest releases that are shown.
SHOWN = 60


class Point(Struct, frozen=True, kw_only=True):
    """A measure in one release. ``change``: as a part of the baseline, where it has moved; else None"""

    tag: str
    value: int
    change: float | None = None


class Series(Struct, frozen=True, kw_only=True):
    """One measure over releases of one kind, the oldest first; releases that were not measured are not in it."""

    target: str  #: the test target, ``performance-mlir-linux-x86_64-cp314``
    measure: str
    points: tuple[Point, ...]


def noise_of(measure: str) -> float:
    """The part of the baseline that a measure must move by."""
    return NOISE_OF_MEMORY if measure == PEAK_MEMORY else NOISE


def change_of(values: Sequence[int], *, noise: float = NOISE) -> float | None:
    """How far the last of some values has moved, as a part of the median before it; None if that is within the noise.

    A move is told in its first release: not where the value before had moved alike, and is within the noise of it.
    """
    change, before = _deviation(values), _deviation(values[:-1])
    if abs(change) <= noise:
        return None
    told = abs(before) > noise and (before > 0) == (change > 0) and abs(values[-1] - values[-2]) <= noise * values[-2]
    return None if told else change


def _deviation(values: Sequence[int]) -> float:
    """The last value against the median of at most :data:`BASELINE` values before it; 0 if there are none, or zeros."""
    before = median(values[-BASELINE - 1 : -1] or [0])
    return (values[-1] - before) / before if before else 0.0


def make_series(manifests: Iterable[Manifest]) -> tuple[Series, ...]:
    """The measures of the newest :data:`SHOWN` releases. ``manifests``: of one kind, in any order"""
    found: dict[tuple[str, str], dict[str, int]] = {}
    ordered = sorted(manifests, key=lambda manifest: parse_release_tag(manifest.tag))
    for manifest in ordered[-SHOWN:]:
        for test in manifest.tests:
            for measure, value in test.measures.items():
                found.setdefault((test.name, measure), {})[manifest.tag] = value
    names = list(TITLES)
    keys = sorted(found, key=lambda key: (key[0], names.index(key[1]) if key[1] in names else len(names), key[1]))
    made = []
    for target, measure in keys:
        rows = found[target, measure]
        numbers, noise = list(rows.values()), noise_of(measure)
        points = (
            Point(tag=tag, value=value, change=change_of(numbers[:end], noise=noise))
            for end, (tag, value) in enumerate(rows.items(), 1)
        )
        made.append(Series(target=target, measure=measure, points=tuple(points)))
    return tuple(made)


def moved(series: Iterable[Series], tag: str) -> list[str]:
    """What moved in one release, for people: ``parse +5.3 % (performance-mlir-linux-x86_64-cp314)``."""
    return [
        f"{title_of(row.measure)} {point.change:+.1%} ({row.target})"
        for row in series
        for point in row.points
        if point.tag == tag and point.change is not None
    ]
