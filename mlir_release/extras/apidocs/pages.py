"""The API sections among the pages: the hook ``mlir_release.pages``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mlir_release.release.index.site import Channel, Shown

title = "API"

options = (
    click.option("--api", is_flag=True, help="Also document the API of the newest snapshot and the numbered releases."),
)


def provide(channels: Sequence[Channel], site: Path, base_url: str, given: Mapping[str, Any]) -> None:
    """Make the sections that are lacking, with ``--api``. :raises MachineError: ``tool-missing``"""
    if given.get("api"):
        from mlir_release.extras.apidocs.history import make_history
        from mlir_release.extras.apidocs.published import make_sections

        make_sections(channels, site, base_url, given)
        make_history(channels, site, base_url)


def in_rehearsal() -> Mapping[str, Any]:
    """Sections, if what makes them is installed: a release does not need it."""
    return {"api": find_spec("griffe") is not None}


def show(channels: Sequence[Channel], site: Path, base_url: str) -> Mapping[str, Shown]:
    """A link to each section that is there, and what changed since the release before."""
    from mlir_release.extras.apidocs.history import show_history
    from mlir_release.extras.apidocs.published import read_sections
    from mlir_release.release.index.drawing import end_of_links, make_templates
    from mlir_release.release.index.site import Shown

    folders = read_sections(site, channels)
    changes = show_history(channels, site, base_url)
    template = make_templates("mlir_release.extras.apidocs").get_template("api.html.j2")
    end = end_of_links(base_url)
    return {
        tag: Shown(
            link=folders.get(tag, ""),
            about="Operations, passes, classes and functions",
            html=(template.render(folder=folders[tag], end=end) if tag in folders else "") + changes.get(tag, ""),
        )
        for tag in {**folders, **changes}
    }
