"""What the page *Getting started* shows: two programs, and the commands that install the newest release for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlir_release.builder.model.sdk_wheel_info import SDK
from mlir_release.ground.console import format_bytes
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT, Project, heading_of, known_project
from mlir_release.ground.python.cpython import python_order
from mlir_release.ground.storage.files import read_text
from mlir_release.release.instructions import install_snippets
from mlir_release.release.instructions.lockfiles import requirements_name
from mlir_release.release.instructions.notes import python_name, runs_on

if TYPE_CHECKING:
    from pathlib import Path

    from jinja2 import Environment, Template

    from mlir_release.release.index.site import Channel, Published
    from mlir_release.release.model.manifest import Manifest


def read_programs(project: Project) -> dict[str, dict[str, str]]:
    """A project's programs by their names, each with its file's name, its text and its output.

    A project without any is shown by what checks it.
    """

    def read(path: Path) -> str:
        return read_text(path).rstrip() if path.is_file() else ""

    found = {
        path.stem: {"file": path.name, "text": read(path), "output": read(path.with_suffix(".txt"))}
        for path in sorted(project.getting_started.glob("*.py"))
    }
    if not found and project.entry:
        text = "\n".join(filter(None, (f"import {project.entry}", project.check)))
        found["first"] = {"file": "first.py", "text": text, "output": ""}
    return found


def getting_started_values(channel: Channel, url: str, templates: Environment) -> dict[str, Any]:
    """What the template shows of a channel that has a release. ``url``: of the site, with a slash at the end"""
    assert channel.latest is not None
    manifest = channel.latest.manifest
    first, *others = channel.projects.items() or [(DEFAULT_PROJECT, channel.latest)]
    return {
        **_of_project(channel, url, *first, templates),
        "others": [_of_project(channel, url, *other, templates) for other in others],
        "folder": f"{channel.folder}/{manifest.tag}",
        "tag": manifest.tag,
        "version": manifest.version,
        "has_sources": bool(manifest.sources),
    }


def _of_project(channel: Channel, url: str, owner: str, release: Published, templates: Environment) -> dict[str, Any]:
    """What is shown of a project by its first distribution. ``release``: its newest"""
    assert channel.newest is not None
    manifest, project = release.manifest, known_project(owner)
    name = manifest.projects[owner][0] if owner in manifest.projects else manifest.main
    wheels = [wheel for wheel in manifest.wheels if wheel.distribution == name]
    named = requirements_name(channel.newest.manifest, name)
    install = install_snippets.newest(f"{url}{channel.folder}/latest/{named}")

    def pinned(distribution: str) -> str:
        file = requirements_name(manifest, distribution, tag=manifest.tag)
        return install_snippets.pinned(f"{url}{channel.folder}/{manifest.tag}/{file}").text

    def template(file: str) -> Template | None:
        path = project.getting_started / file if project is not None else None
        return templates.from_string(read_text(path)) if path is not None and path.is_file() else None

    return {
        "project": owner,
        "heading": heading_of(owner),
        "title": project.title if project is not None else owner,
        "lead": project.lead if project is not None else Project.lead,
        "tells": project.tells if project is not None else "",
        "distribution": name,
        "environment": f"{owner}-env",
        "programs": read_programs(project) if project is not None else {},
        "command": install_snippets.first_command(manifest, name),
        "page": template("page.html.j2") or templates.get_template("first_program.html.j2"),
        "build": template("build.html.j2"),
        "install": install.text,
        "by_uv": install.by_uv,
        "pin": pinned(name),
        "sdk": pinned(SDK) if SDK in manifest.distributions else "",
        "size": format_bytes(max((wheel.size for wheel in wheels), default=0)),
        "machines": machines(manifest, name),
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
            "pythons": ", ".join(map(python_name, sorted(pythons, key=python_order))) or "any",
        }
        for platform, pythons in sorted(found.items())
    ]
