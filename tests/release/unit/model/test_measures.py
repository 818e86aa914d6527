"""Where a measure has moved beyond the noise, and how the status page shows it: pure functions of what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mlir_release.builder.model.test_report import TestEntry, TestReport
from mlir_release.ground.errors import VerificationError
from mlir_release.release.index.status_page import HEIGHT, MARGIN, WIDTH, measured_targets
from mlir_release.release.model.manifest import Manifest
from mlir_release.release.model.measures import LOOK_BACK, NOISE, SHOWN, Point, Series, change_of, make_series, moved
from tests.paper_forge import make_manifest, many

if TYPE_CHECKING:
    from collections.abc import Sequence

TARGET = "performance-mlir-linux-x86_64-cp314"


def measured(manifest: Manifest, **measures: int) -> Manifest:
    """The same, as if the suite had measured it."""
    test = TestEntry(name=TARGET, suite="performance", measures=measures)
    return structs.replace(manifest, tests=(*manifest.tests, test))


def history(values: Sequence[int | None]) -> list[Manifest]:
    """Snapshots, the oldest first, that measured how long parsing takes; None: without measures."""
    rows = many(len(values), platforms=("manylinux_2_28_x86_64",), pythons=("cp314",))
    return [row if value is None else measured(row, parse=value) for row, value in zip(rows, values, strict=True)]


def changes(values: Sequence[int]) -> list[float | None]:
    return [change_of(values[: end + 1]) for end in range(len(values))]


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ([100], []),
        ([1000, 1010, 995, 1005, 1019, 1000], []),  # noise
        ([1000, 1000, 1000, 1050, 1050, 1050, 1050, 1050, 1050], [3]),  # a step is told once
        ([1000] * 6 + [900] * 6, [6]),  # downward, too
        ([1000, 1000, 1200, 1000, 1000], [2]),  # one release alone
        ([1000, 1050, 1120, 1200], [1, 2, 3]),  # each a step of its own
        ([1000, 1050], [1]),  # one release before is enough
        ([5, 5, 5, 0, 0, 0], [3]),
        ([0, 0, 0, 5], []),  # of nothing there are no percents
        ([1000 * 101**n // 100**n for n in range(12)], [4]),  # creeping by 1 % each is one move
        ([1000] * 5 + [1050] * 4 + [1000] * 4, [5, 9]),  # there and back
    ],
)
def test_a_step_is_told_once_and_noise_is_not(values: list[int], places: list[int]) -> None:
    assert [place for place, change in enumerate(changes(values)) if change is not None] == places


def test_the_change_is_of_the_median_before() -> None:
    assert change_of([1000, 990, 1010, 1005, 995, 1100]) == pytest.approx(0.1)
    assert change_of([1000, 1000, 949], noise=0.05) == pytest.approx(-0.051)
    assert change_of([1000, 1000, 951], noise=0.05) is None


@given(st.lists(st.integers(0, 2**53), min_size=1, max_size=30))
def test_what_is_told_of_a_release_depends_on_those_just_before_it_only(values: list[int]) -> None:
    """So release notes, which read few manifests, and the status page, which reads many, tell the same."""
    assert change_of(values) == change_of(values[-LOOK_BACK - 1 :])


@given(st.lists(st.floats(-NOISE / 2.1, NOISE / 2.1), min_size=1, max_size=30))
def test_values_within_half_the_noise_of_one_another_never_move(offsets: list[float]) -> None:
    assert not any(changes([round(1_000_000 * (1 + offset)) for offset in offsets]))


def test_series_skip_releases_without_measures_and_end_after_the_newest() -> None:
    rows = history([None, 1000, None, 1000, 1100, None, 1100])
    (series,) = make_series(reversed(rows))
    assert [point.tag for point in series.points] == [rows[place].tag for place in (1, 3, 4, 6)]
    assert [point.change for point in series.points] == [None, None, pytest.approx(0.1), None]
    assert moved([series], rows[4].tag) == [f"parse +10.0% ({TARGET})"]
    assert moved([series], rows[6].tag) == moved([series], rows[0].tag) == []
    many_rows = history([1000] * (SHOWN + 20))
    assert len(make_series(many_rows)[0].points) == SHOWN
    assert make_series([]) == make_series(history([None])) == ()


def test_measures_have_an_order_and_those_of_another_toolkit_come_last() -> None:
    row = measured(make_manifest("snapshot-20261120.01"), **{"wheel-bytes": 1, "zoo": 2, "parse": 3, "import": 4})
    assert [series.measure for series in make_series([row])] == ["import", "parse", "wheel-bytes", "zoo"]


def test_a_manifest_keeps_its_measures() -> None:
    row = measured(make_manifest("snapshot-20261120.01"), parse=7)
    assert Manifest.from_text(row.to_text(), where="x") == row.sorted()


@pytest.mark.parametrize("value", ["-1", "9007199254740993", "1e300", "1.5", '"7"', "true"])
def test_numbers_that_nobody_counted_are_refused(value: str) -> None:
    manifest = measured(make_manifest("snapshot-20261120.01"), parse=7).to_text()
    manifest = manifest.replace('"parse": 7', f'"parse": {value}')
    report = f'{{"schema": 1, "target": "{TARGET}", "suite": "performance", "passed": true, "measures": MEASURES}}'
    report = report.replace("MEASURES", f'{{"parse": {value}}}')
    assert value in manifest
    with pytest.raises(VerificationError, match=r"measures"):
        Manifest.from_text(manifest, where="x")
    with pytest.raises(VerificationError, match=r"not a test report"):
        TestReport.from_text(report, name=f"{TARGET}.tests.json", where="x")


def test_a_report_hands_its_measures_to_the_manifest() -> None:
    text = f'{{"schema": 1, "target": "{TARGET}", "suite": "performance", "passed": true, "measures": {{"parse": 7}}}}'
    report = TestReport.from_text(text, name=f"{TARGET}.tests.json", where="x")
    assert report.entry().measures == {"parse": 7}
    assert TestReport.from_text(report.to_text(), name=report.filename, where="x") == report


def coordinates(line: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, _, y in (pair.partition(",") for pair in line.split())]


def test_a_line_has_a_point_for_each_release_and_a_dot_where_it_moved() -> None:
    (target,) = measured_targets(make_series(history([10_000_000] * 4 + [12_000_000] * 3)))
    (chart,) = target["charts"]
    (line,) = chart["lines"]
    points = coordinates(line)
    assert [x for x, _ in points] == sorted({x for x, _ in points})
    assert all(MARGIN <= x <= WIDTH - MARGIN and MARGIN <= y <= HEIGHT - MARGIN for x, y in points)
    assert points[0][1] > points[-1][1]  # more is higher up
    assert [(float(dot["x"]), float(dot["y"])) for dot in chart["dots"]] == [points[4]]
    assert (chart["dots"][0]["style"], chart["moved"]) == ("moved", "+20.0% in snapshot-20261119.02")
    assert chart["about"] == "7 releases, from 10.00 M to 12.00 M; moved +20.0% in snapshot-20261119.02"
    assert (target["name"], chart["title"], chart["newest"]) == (TARGET, "parse", "12.00 M")
    assert [row["tag"] for row in target["table"]][:2] == ["snapshot-20261120.02", "snapshot-20261120.01"]
    assert [row["cells"][0]["change"] for row in target["table"]] == ["", "", "+20.0%", "", "", "", ""]


def test_noise_looks_flat() -> None:
    (target,) = measured_targets(make_series(history([10_000_000, 10_010_000, 9_990_000])))
    heights = [y for _, y in coordinates(target["charts"][0]["lines"][0])]
    assert max(heights) - min(heights) < HEIGHT / 10
    assert target["charts"][0]["about"].endswith("within the noise")


def test_one_release_is_a_dot() -> None:
    (target,) = measured_targets(make_series(history([None, 5_000_000, None])))
    (chart,) = target["charts"]
    assert (chart["lines"], [dot["style"] for dot in chart["dots"]]) == ([], [""])


def test_a_gap_breaks_the_line() -> None:
    rows = history([1_000_000] * 5)
    rows = [measured(row, lower=2_000_000) if number != 2 else row for number, row in enumerate(rows)]
    (target,) = measured_targets(make_series([measured(row, parse=1) for row in rows]))
    lines = {chart["title"]: chart["lines"] for chart in target["charts"]}
    assert [len(coordinates(line)) for line in lines["lower to LLVM"]] == [2, 2]
    assert target["table"][2]["cells"] == [{"value": "0.00 M", "change": ""}, {"value": "", "change": ""}]


def test_the_largest_and_smallest_values_can_be_drawn() -> None:
    tags = ("snapshot-20261120.01", "snapshot-20261120.02")
    for values in ((0, 0), (0, 2**53), (2**53, 2**53)):
        points = tuple(Point(tag=tag, value=value) for tag, value in zip(tags, values, strict=True))
        (target,) = measured_targets([Series(target=TARGET, measure="wheel-bytes", points=points)])
        (line,) = target["charts"][0]["lines"]
        assert all(0 <= y <= HEIGHT for _, y in coordinates(line))
