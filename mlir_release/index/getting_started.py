"""What the page *Getting started* shows: two programs, and the commands that install the newest release for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlir_release.console import format_bytes
from mlir_release.model.cpython import python_order
from mlir_release.model.projects import DEFAULT_PROJECT, find_project
from mlir_release.model.sdk_wheel_info import SDK
from mlir_release.release import install_snippets
from mlir_release.release.lockfiles import requirements_name
from mlir_release.release.notes import python_name, runs_on

if TYPE_CHECKING:
    from mlir_release.index.site import Channel
    from mlir_release.model.manifest import Manifest


def read_programs() -> dict[str, dict[str, str]]:
    """The programs by their names, each with its file's name, its text and its output.

    They are in the project's folder ``getting_started``: ``first.py``, and ``first.txt``, which it prints, …
    """
    folder = find_project(DEFAULT_PROJECT).folder / "getting_started"
    return {
        path.stem: {
            "file": path.name,
            "text": path.read_text(encoding="utf-8").rstrip(),
            "output": path.with_suffix(".txt").read_text(encoding="utf-8").rstrip(),
        }
        for path in sorted(folder.glob("*.py"))
    }


def getting_started_values(channel: Channel, url: str) -> dict[str, Any]:
    """What the template shows of a channel that has a release. ``url``: of the site, with a slash at the end"""
    assert channel.latest is not None
    manifest = channel.latest.manifest
    name = manifest.distributions[0]
    install = install_snippets.newest(f"{url}{channel.folder}/latest/{requirements_name(manifest, name)}")

    def pinned(distribution: str) -> str:
        file = requirements_name(manifest, distribution, tag=manifest.tag)
        return install_snippets.pinned(f"{url}{channel.folder}/{manifest.tag}/{file}").text

    return {
        "programs": read_programs(),
        "folder": f"{channel.folder}/{manifest.tag}",
        "tag": manifest.tag,
        "version": manifest.version,
        "install": install.text,
        "by_uv": install.by_uv,
        "pin": pinned(name),
        "sdk": pinned(SDK) if SDK in manifest.distributions else "",
        "size": format_bytes(max(wheel.size for wheel in manifest.wheels if wheel.distribution == name)),
        "machines": machines(manifest, name),
        "has_sources": bool(manifest.sources),
    }


def machines(manifest: Manifest, distribution: str) -> list[dict[str, str]]:
    """The platforms that a distribution has wheels for, each with its CPythons."""
    found: dict[Any, set[str]] = {}
    for wheel in manifest.wheels:
        if wheel.distribution == distribution:
            found.setdefault(runs_on(wheel.platforms), set()).update(wheel.pythons)
    return [
        {
            "name": platform.name,
            "needs": platform.needs,
            "pythons": ", ".join(map(python_name, sorted(pythons, key=python_order))),
        }
        for platform, pythons in sorted(found.items())
    ]
