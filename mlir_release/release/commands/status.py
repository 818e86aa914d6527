"""``mlir-release release status``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlir_release.cli.options import branch_option, forge_option, json_option
from mlir_release.ground.console import console

if TYPE_CHECKING:
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.judging.status import PlatformLine, ReleaseLine
    from mlir_release.release.model.release_tags import Kind

_TITLES: dict[Kind, tuple[str, str]] = {
    "snapshot": ("Snapshots", "Platforms, in snapshots"),
    "numbered": ("Numbered releases", "Platforms, in numbered releases"),
}
_STYLES = {
    **dict.fromkeys(("passed", "published"), "green"),
    **dict.fromkeys(("failed", "waived", "waiting"), "red"),
    **dict.fromkeys(("partial", "not started"), "yellow"),
    **dict.fromkeys(("abandoned", "missing", "unknown"), "dim"),
    "building": "cyan",
}


@click.command("status")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="How many releases of each kind.")
@forge_option
@branch_option
@json_option
def release_status(limit: int, forge: Forge, branch: str) -> None:
    """Show what is building, what passed, and what fails since which release, for each platform.

    A release that is "waiting for waiver" lacks something that is required, and nothing is building it. A platform is
    "partial" where only something experimental fails. Times are by the forge's clock.
    """
    from mlir_release.ground.documents.times import format_age
    from mlir_release.release.forge.files import matrix_of_branch
    from mlir_release.release.judging.status import make_status, short_tag
    from mlir_release.release.judging.status_facts import observe_status
    from mlir_release.release.model.measures import moved
    from mlir_release.release.transaction.ledger import Ledger

    status = make_status(observe_status(Ledger(forge), matrix_of_branch(forge, branch), limit=limit, branch=branch))
    for note in status.notes:
        console.warn(note)
    console.result("", status)
    from rich.text import Text

    for kind, (heading, platforms_heading) in _TITLES.items():
        releases, platforms = status.of_kind(kind)
        if not releases:
            continue
        rows: list[list[object]] = []
        for line in releases:
            age = format_age(status.now - line.since) if line.since else ""
            fails = line.red[0] + (f" +{len(line.red) - 1}" if len(line.red) > 1 else "") if line.red else ""
            wheels = f"{line.done}/{line.total}" if line.total else ""
            state = Text(line.shown_state, style=_STYLES[line.state])
            rows.append([line.tag, state, age, wheels, Text(fails, style=_STYLES["failed"])])
        console.table(["release", "state", ">age", ">wheels", "fails"], rows, title=heading)
        rows = []
        for each in platforms:
            issues = " ".join(link.text for link in each.issues[:2]) + (" …" if len(each.issues) > 2 else "")
            now = Text(each.verdict, style=_STYLES[each.verdict])
            red = Text(short_tag(each.red_since), style=_STYLES["failed"])
            rows.append([each.name, now, short_tag(each.building), short_tag(each.passed), red, issues])
        headings = ["platform", "now", "building", "passed in", "fails since", "issues"]
        console.table(headings, rows, title=platforms_heading)
        for text in _links(releases, platforms):
            console.show(text)
        for release in releases:  # measures beyond the noise
            for text in moved(status.measures[kind], release.tag):
                console.show(f"{release.tag}: {text}")
    if not status.releases:
        console.show("no release was begun yet")


def _links(releases: tuple[ReleaseLine, ...], platforms: tuple[PlatformLine, ...]) -> list[str]:
    """Where to look: runs of what is pending, jobs that failed, issues; and why something was abandoned."""
    lines = [f"{line.tag} was abandoned: {line.reason}" for line in releases if line.state == "abandoned"]
    pending = [line for line in releases if line.run and line.state in ("building", "waiting")]
    lines += [f"{line.tag}, {line.shown_state}: {line.run}" for line in pending]
    failed = dict.fromkeys(link for line in platforms for link in line.failed)
    issues = dict.fromkeys(link for line in platforms for link in line.issues)
    return lines + [f"{link.text}: {link.url}".removesuffix(": ") for link in (*failed, *issues)]
