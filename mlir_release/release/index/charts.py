"""Measures of releases as the status page's template sees them: a line for each measure, and a table of all values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlir_release.builder.model.test_report import title_of
from mlir_release.ground.console import format_bytes
from mlir_release.release.judging.status import short_tag
from mlir_release.release.model.measures import NOISE
from mlir_release.release.model.release_tags import parse_release_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mlir_release.release.model.measures import Point, Series

#: The picture, in its own units, and the room for the dots at its edges.
WIDTH, HEIGHT, MARGIN = 240, 60, 5


def measured_targets(series: Iterable[Series]) -> list[dict[str, Any]]:
    """Each test target that measures: its charts, and its table with the newest release first."""
    found: dict[str, list[Series]] = {}
    for row in series:
        found.setdefault(row.target, []).append(row)
    targets = []
    for target, rows in found.items():
        points = [{point.tag: point for point in row.points} for row in rows]
        tags = sorted({tag for row in points for tag in row}, key=parse_release_tag)
        targets.append(
            {
                "name": target,
                "width": WIDTH,
                "height": HEIGHT,
                "charts": [_chart(row, tags) for row in rows],
                "measures": [title_of(row.measure) for row in rows],
                "table": [
                    {
                        "tag": short_tag(tag),
                        "cells": [_cell(row.measure, mine.get(tag)) for row, mine in zip(rows, points, strict=True)],
                    }
                    for tag in reversed(tags)
                ],
            }
        )
    return targets


def _chart(series: Series, tags: Sequence[str]) -> dict[str, Any]:
    """The lines of a measure over the releases of its target, broken where one was not measured, and its dots.

    What is within the noise looks flat: the picture is never higher than twice that.
    """
    values = [point.value for point in series.points]
    middle, least = (max(values) + min(values)) / 2, max(values) * NOISE
    height = max(max(values) - min(values), 2 * least, 1)
    step = (WIDTH - 2 * MARGIN) / max(len(tags) - 1, 1)
    points = {point.tag: point for point in series.points}
    lines: list[list[str]] = [[]]
    dots = []
    for number, tag in enumerate(tags):
        point = points.get(tag)
        if point is None:
            lines.append([])
            continue
        x = MARGIN + number * step
        y = HEIGHT / 2 - (point.value - middle) / height * (HEIGHT - 2 * MARGIN)
        lines[-1].append(f"{x:.1f},{y:.1f}")
        if point.change is not None or len(series.points) == 1:
            dots.append({"x": f"{x:.1f}", "y": f"{y:.1f}", "style": "" if point.change is None else "moved"})
    last = series.points[-1]
    moved = [f"{point.change:+.1%} in {short_tag(point.tag)}" for point in series.points if point.change is not None]
    return {
        "title": title_of(series.measure),
        "newest": _format(series.measure, last.value),
        "moved": moved[-1] if moved else "",
        "about": f"{len(values)} releases, from {_format(series.measure, values[0])} "
        f"to {_format(series.measure, last.value)}; " + (f"moved {', '.join(moved)}" if moved else "within the noise"),
        "lines": [" ".join(line) for line in lines if len(line) > 1],
        "dots": dots,
    }


def _cell(measure: str, point: Point | None) -> dict[str, str]:
    if point is None:
        return {"value": "", "change": ""}
    change = f"{point.change:+.1%}" if point.change is not None else ""
    return {"value": _format(measure, point.value), "change": change}


def _format(measure: str, value: int) -> str:
    """``14.85 M``: instructions; ``28.1 MB``: bytes."""
    return format_bytes(value) if measure.endswith("-bytes") else f"{value / 1e6:,.2f} M"
