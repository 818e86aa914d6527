"""What pixi does with channels, by its own library, and what it reads. And stand-ins for other packages."""

from __future__ import annotations

import asyncio
import html
import re
import tomllib
from typing import TYPE_CHECKING, Any

import rattler
from rattler.index import index_fs
from rattler_build import assemble_package

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rattler import RepoDataRecord


def install(channels: Sequence[str], specs: Sequence[str], prefix: Path, cache: Path) -> dict[str, RepoDataRecord]:
    """Install what ``specs`` need into ``prefix``; returns the packages by their names.

    :param channels: addresses, the preferred one first
    :param cache: an empty folder, so that everything is downloaded
    """

    async def run() -> list[RepoDataRecord]:
        records = await rattler.solve(
            channels,
            specs,
            gateway=rattler.Gateway(cache_dir=cache / "repodata"),
            platforms=[rattler.Subdir.current(), "noarch"],
            virtual_packages=rattler.VirtualPackage.detect(),
        )
        await rattler.install(records, prefix, cache_dir=cache / "packages", show_progress=False)
        return records

    return {record.name.normalized: record for record in asyncio.run(run())}


def pixi_form(page: Path) -> dict[str, Any]:
    """What a release's page says of its first package for ``pixi.toml``."""
    blocks = re.findall("<pre><code>(.*?)</code></pre>", page.read_text(encoding="utf-8"), re.DOTALL)
    return tomllib.loads(next(html.unescape(block) for block in blocks if block.startswith("[workspace]")))


def make_stand_ins(folder: Path, packages: Sequence[tuple[str, str, str]]) -> str:
    """A channel of empty packages (name, version, build); returns its address."""
    for name, version, build in packages:
        (folder / "noarch").mkdir(parents=True, exist_ok=True)
        empty = folder.with_name("empty")
        empty.mkdir(exist_ok=True)
        assemble_package(name, version, "noarch", build, folder / "noarch", files_dir=empty, noarch="generic")
    asyncio.run(index_fs(folder))
    return folder.as_uri()
