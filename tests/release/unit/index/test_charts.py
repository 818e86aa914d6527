"""Lines and tables of measures, as the status page's template sees them."""

from __future__ import annotations

from mlir_release.release.index.status_page import HEIGHT, MARGIN, WIDTH, measured_targets
from mlir_release.release.model.measures import Point, Series, make_series
from tests.release.unit.model.test_measures import TARGET, history, measured


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
