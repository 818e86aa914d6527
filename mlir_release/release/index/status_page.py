"""The status page: the picture of :mod:`mlir_release.release.judging.status`, as its template sees it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mlir_release.builder.model.test_report import PEAK_MEMORY
from mlir_release.ground.documents.times import format_time
from mlir_release.release.index.charts import measured_targets
from mlir_release.release.index.drawing import as_link
from mlir_release.release.index.site import FOLDERS
from mlir_release.release.judging.status import short_tag
from mlir_release.release.model.measures import BASELINE, noise_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from mlir_release.release.judging.health import Cell, Link
    from mlir_release.release.judging.status import PlatformLine, ReleaseLine, Status
    from mlir_release.release.model.release_tags import Kind

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
        "short": short_tag(line.tag),
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
    return {
        "name": line.name,
        "verdict": line.verdict,
        "style": _STYLES[line.verdict],
        "building": _link(line.building, runs.get(line.building, "")),
        "passed": _link(line.passed, page(line.passed)),
        "red_since": _link(line.red_since, runs.get(line.red_since, "") or page(line.red_since)),
        "look_at": [vars(link) | {"url": as_link(link.url)} for link in (*line.issues, *map(_own_name, line.failed))],
    }


def _link(text: str, url: str) -> list[dict[str, str]]:
    """A tag, and where it leads."""
    return [{"text": short_tag(text), "url": url}] if text else []


def _own_name(link: Link) -> Link:
    """A failed job without the names of the jobs that called it."""
    return replace(link, text=link.text.rpartition(" / ")[2])
