"""The conda channels among the pages: the hook ``mlir_release.pages``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlir_release.release.index.site import Channel, Shown

title = ""  # no page of its own is linked

options = (
    click.option(
        "--conda",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        help="Also show the conda channels of a folder: the index, no packages.",
    ),
    click.option(
        "--conda-url",
        metavar="URL",
        help="Where these packages are served; {folder} in it stands for releases/linux-64 and the like.  "
        "[default: in the folder itself, as a file: URL]",
    ),
)


def provide(channels: Sequence[Channel], site: Path, base_url: str, given: Mapping[str, Any]) -> None:
    """Write the index of the channels in the folder that ``--conda`` names. :raises UsageError:"""
    if given.get("conda") is not None:
        from mlir_release.extras.conda.channel import serve_channels

        serve_channels(given["conda"], given.get("conda_url"), channels, site)


def in_rehearsal() -> Mapping[str, Any]:
    """Nothing: no channel was made."""
    return {}


def show(channels: Sequence[Channel], site: Path, base_url: str) -> Mapping[str, Shown]:
    """The commands that install the packages, and for each wheel the one that makes a recipe."""
    from mlir_release.extras.conda.channel import CHANNEL, offered_packages
    from mlir_release.extras.conda.package import PACKAGES
    from mlir_release.release.index.drawing import make_templates
    from mlir_release.release.index.site import Shown

    template = make_templates("mlir_release.extras.conda").get_template("conda.html.j2")
    offered = offered_packages(site, channels)
    found = {}
    for channel in channels:
        where = f"{base_url.rstrip('/')}/{channel.folder}/{CHANNEL}"
        for release in channel.releases:
            names = offered.get(release.tag, ())
            html = template.render(channel=where, names=names, version=release.manifest.version) if names else ""
            recipe = f"mlir-release conda recipe {release.tag} --distribution"
            forms = {name: [("conda: a recipe for rattler-build", f"{recipe} {name}")] for name in PACKAGES}
            found[release.tag] = Shown(html=html, forms=forms)
    return found
