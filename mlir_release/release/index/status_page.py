"""The status page: the picture of :mod:`mlir_release.release.judging.status`, as its template sees it.

Each measure of the releases has a line in a chart, and all have their values in a table.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mlir_release.builder.model.test_report import PEAK_MEMORY, title_of
from mlir_release.ground.console import format_bytes
from mlir_release.ground.documents.times import format_time
from mlir_release.release.index.drawing import as_link
from mlir_release.release.index.site import FOLDERS
from mlir_release.release.model.measures import BASELINE, NOISE, Point, Series, noise_of
from mlir_release.release.model.release_tags import Kind, parse_release_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import datetime

    from mlir_release.release.judging.status import Cell, PlatformLine, ReleaseLine, Status

_HEADINGS: dict[Kind, str] = {"snapshot": "Snapshots", "numbered": "Numbered releases"}

#: Classes of style.css.
_STYLES = {
    **dict.fromkeys(("passed", "published"), "good"),
    **dict.fromkeys(("failed", "waived", "waiting"), "bad"),
    **dict.fromkeys(("partial", "not started"), "warn"),
    **dict.fromkeys(("abandoned", "missing", "unknown"), "idle"),
    "building": "busy",
}


def status_values(status: Status, *, shown: Collection[str], end: str) -> dict[str, Any]:
    """What the template shows.

    :param shown: tags that have a page on the site
    :param end: of links to folders
    """

    def page_of(kind: Kind, tag: str) -> str:
        return f"../{FOLDERS[kind]}/{tag}/{end}" if tag in shown else ""

    kinds = []
    for kind, heading in _HEADINGS.items():
        page = partial(page_of, kind)
        releases, platforms = status.of_kind(kind)
        if releases:
            runs = {line.tag: as_link(line.run) for line in releases}
            kinds.append(
                {
                    "id": FOLDERS[kind],
                    "heading": heading,
                    "releases": [_release(line, page(line.tag)) for line in releases],
                    "platforms": [_platform(line, runs, page) for line in platforms],
                    "measured": measured_targets(status.measures[kind]),
                }
            )
    names = list(status.releases[0].platforms) if status.releases else []
    return {
        "now": _shown_time(status.now),
        "now_at": format_time(status.now),
        "source": status.source,
        "notes": status.notes,
        "names": names,
        "kinds": kinds,
        "noise": f"{noise_of(''):.0%}",
        "noise_of_memory": f"{noise_of(PEAK_MEMORY):.0%}",
        "baseline": BASELINE,
    }


def _shown_time(when: datetime) -> str:
    return when.strftime("%Y-%m-%d %H:%M UTC")


def _release(line: ReleaseLine, page: str) -> dict[str, Any]:
    return {
        "tag": line.tag,
        "state": line.shown_state,
        "style": _STYLES[line.state],
        "since": _shown_time(line.since).removesuffix(" UTC") if line.since else "",
        "since_at": format_time(line.since) if line.since else "",
        "page": page,
        "run": as_link(line.run),
        "reason": line.reason,
        "cells": [_cell(cell) for cell in line.platforms.values()],
    }


def _cell(cell: Cell) -> dict[str, Any] | None:
    if not cell.total:
        return None
    return {
        "verdict": cell.verdict,
        "style": _STYLES[cell.verdict],
        "count": f"{cell.done}/{cell.total}",
        "title": ", ".join([*cell.lacking, *(link.text for link in cell.failed)]),
    }


def _platform(line: PlatformLine, runs: dict[str, str], page: Callable[[str], str]) -> dict[str, Any]:
    # Failed jobs, without the names of the jobs that called them.
    failed = [replace(link, text=link.text.rpartition(" / ")[2]) for link in line.failed]
    return {
        "name": line.name,
        "verdict": line.verdict,
        "style": _STYLES[line.verdict],
        "building": _link(line.building, runs.get(line.building, "")),
        "passed": _link(line.passed, page(line.passed)),
        "red_since": _link(line.red_since, runs.get(line.red_since, "") or page(line.red_since)),
        "look_at": [vars(link) | {"url": as_link(link.url)} for link in (*line.issues, *failed)],
    }


def _link(text: str, url: str) -> list[dict[str, str]]:
    """A tag, and where it leads."""
    return [{"text": text, "url": url}] if text else []


# -- measures ----------------------------------------------------------------------------------------------------------

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
                        "tag": tag,
                        "cells": [_shown(row.measure, mine.get(tag)) for row, mine in zip(rows, points, strict=True)],
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
    moved = [f"{point.change:+.1%} in {point.tag}" for point in series.points if point.change is not None]
    return {
        "title": title_of(series.measure),
        "newest": _format(series.measure, last.value),
        "moved": moved[-1] if moved else "",
        "about": f"{len(values)} releases, from {_format(series.measure, values[0])} "
        f"to {_format(series.measure, last.value)}; " + (f"moved {', '.join(moved)}" if moved else "within the noise"),
        "lines": [" ".join(line) for line in lines if len(line) > 1],
        "dots": dots,
    }


def _shown(measure: str, point: Point | None) -> dict[str, str]:
    if point is None:
        return {"value": "", "change": ""}
    change = f"{point.change:+.1%}" if point.change is not None else ""
    return {"value": _format(measure, point.value), "change": change}


def _format(measure: str, value: int) -> str:
    """``14.85 M``: instructions; ``28.1 MB``: bytes."""
    return format_bytes(value) if measure.endswith("-bytes") else f"{value / 1e6:,.2f} M"
