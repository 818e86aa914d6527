"""Projects built on what a rehearsal released: the hook ``mlir_release.rehearsal``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlir_release.release.rehearsal.run import Rehearsal

options = (
    click.option(
        "--downstream",
        is_flag=True,
        help="Release the wheels of the SDK, too, and build upstream's standalone example and ours on what is "
        "released.",
    ),
)


def profiles(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Projects need ``mlir`` itself, and the wheels of its SDK."""
    return ("host", "sdk", "sdk-tools") if given.get("downstream") else ()


def run(rehearsal: Rehearsal, given: Mapping[str, Any]) -> None:
    """Build projects on the release, with nothing of it but its page."""
    if given.get("downstream"):
        from mlir_release.extras.downstream.projects import build_downstream

        build_downstream(
            rehearsal.report,
            rehearsal.workspace / "downstream",
            rehearsal.page,
            version=rehearsal.outcome.wheel_version,
            python=rehearsal.pythons[0],
            find_source=rehearsal.find_source,
        )
