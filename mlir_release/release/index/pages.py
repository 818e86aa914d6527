"""What people read: the landing page, a page a release, the lists and the feed, drawn with templates."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mlir_release.builder.model.sdk_wheel_info import SDK
from mlir_release.ground.console import format_bytes
from mlir_release.ground.documents.times import format_time
from mlir_release.ground.llvm.projects import DEFAULT_PROJECT, Project, heading_of, known_profile, known_project
from mlir_release.ground.python.cpython import ANY_PYTHON, python_order
from mlir_release.ground.storage.files import read_text
from mlir_release.release.index.drawing import as_link, end_of_links, make_templates, without_empty_lines
from mlir_release.release.index.simple import anchor
from mlir_release.release.index.site import FOLDERS, HEADINGS, SiteOptions, listed_channels
from mlir_release.release.index.status_page import status_values
from mlir_release.release.instructions import install_snippets
from mlir_release.release.instructions.lockfiles import locks_all, pylock_name, requirements_name
from mlir_release.release.instructions.notes import (
    RunsOn,
    format_total,
    github_page,
    imported_as,
    known_failures,
    python_name,
    runs_on,
    size_change,
    stable_abi_losses,
    title,
    total_change,
)
from mlir_release.release.model.release_index import ReleaseQuality

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jinja2 import Environment, Template

    from mlir_release.release.index.documents import Documents, MarkdownFile
    from mlir_release.release.index.site import Channel, Published, Shown, WheelLink
    from mlir_release.release.judging.status import Status
    from mlir_release.release.model.manifest import Manifest


#: Rows of older releases on the landing page, and entries of the feed.
LANDING_ROWS = 14
FEED_ENTRIES = 40


def main_of(channel: Channel) -> str:
    """The distribution that people get who name none; of a channel without releases, the usual one."""
    if channel.newest is None:
        return DEFAULT_PROJECT
    return next(iter(channel.newest.manifest.distributions), channel.newest.manifest.main)


@dataclass(frozen=True, kw_only=True)
class Pages:
    """Draws the pages of one site. ``base_url`` is where it is served."""

    base_url: str
    channels: tuple[Channel, ...] = ()  #: snapshots, and numbered releases
    project: str = DEFAULT_PROJECT  #: the main one
    options: SiteOptions = field(default_factory=SiteOptions)
    has_status: bool = False  #: whether there is a status page to link
    repository: str = ""  #: where the sources are, and bugs are reported: ``https://HOST/OWNER/NAME``; empty: nowhere
    #: What extras add: a section's name and title -> what it shows of a release, by tag.
    sections: Mapping[tuple[str, str], Mapping[str, Shown]] = field(default_factory=dict)
    quality: Mapping[str, ReleaseQuality] = field(default_factory=dict)  #: what was learnt of releases since, by tag
    good: str = ""  #: the tag of the channel latest-good; empty: no snapshot is

    @property
    def title(self) -> str:
        """What all pages are called."""
        return self.options.title or f"{heading_of(self.project)} wheels"

    @property
    def url(self) -> str:
        """The site's URL, with a slash at the end."""
        return self.base_url.rstrip("/") + "/"

    @property
    def links(self) -> Mapping[str, str]:
        """What every page links: the titles of sections, and the newest release's folder; empty if there is none."""
        return {
            title: next((shown.link for shown in section.values() if shown.link), "")
            for (_, title), section in self.sections.items()
            if title
        }

    def shown(self, tag: str) -> list[tuple[str, str, Shown]]:
        """What extras show of a release: each section's name, title and content."""
        return [(name, title, shown[tag]) for (name, title), shown in self.sections.items() if tag in shown]

    @property
    def end(self) -> str:
        """What a link to a folder ends in."""
        return end_of_links(self.url)

    @cached_property
    def _templates(self) -> Environment:
        return make_templates()

    def _draw(self, template: str, *, root: str, **values: Any) -> str:
        project = known_project(self.project)
        site = {
            "title": self.title,
            "heading": heading_of(self.project),
            "homepage": project.homepage if project is not None else "",
            "rest": project.title.removeprefix(project.heading) if project is not None else "",
            "url": self.url,
            "end": self.end,
            "has_status": self.has_status,
            "has_documents": self.options.documents is not None,
            "repository": as_link(self.repository),
            "notice": self.options.notice,
            "links": self.links,
            "channels": listed_channels(self.channels),
        }
        text = self._templates.get_template(template).render(site=site, root=root, **values)
        return without_empty_lines(text)

    def where(self, path: str) -> str:
        """The URL of a folder of the site, as a command names it."""
        return f"{self.url}{path}/{self.end}"

    # -- pages --------------------------------------------------------------------------------------------------

    def landing(self) -> str:
        """``index.html``."""
        snapshots, numbered = (self._channel(channel, LANDING_ROWS) for channel in self.channels)
        return self._draw("landing.html.j2", root="", snapshots=snapshots, numbered=numbered)

    def channel(self, channel: Channel) -> str:
        """The list of all releases of a kind."""
        return self._draw("channel.html.j2", root="../", channel=self._channel(channel, None))

    def latest(self, channel: Channel) -> str:
        """The page for ``pip -f``."""
        from markupsafe import Markup

        releases = [
            {
                "tag": release.tag,
                "yanked": release.yanked,
                "files": [
                    {"anchor": Markup(anchor(link, core_metadata=self.options.core_metadata))} for link in release.links
                ],
            }
            for release in channel.linked
        ]
        days = channel.linked_days
        heading = f"Snapshots of the last {days} days" if channel.kind == "snapshot" else "Numbered releases"
        return self._draw(
            "latest.html.j2",
            root="../../",
            heading=heading,
            install=self._by_page(channel),
            newest=channel.newest,
            releases=releases,
        )

    def release(self, release: Published, previous: Published | None) -> str:
        """A release's own page."""
        return self._draw("release.html.j2", root="../../", release=self._release(release, previous))

    def getting_started(self) -> str:
        """From an empty folder to a program that runs, with the newest release."""
        channel = next((channel for channel in self.channels if channel.latest), None)
        values = None
        if channel is not None and channel.latest is not None:
            manifest = channel.latest.manifest
            first, *others = channel.projects.items() or [(DEFAULT_PROJECT, channel.latest)]
            values = {
                **_of_project(channel, self.url, *first, self._templates),
                "others": [_of_project(channel, self.url, *other, self._templates) for other in others],
                "folder": f"{channel.folder}/{manifest.tag}",
                "tag": manifest.tag,
                "has_sources": bool(manifest.sources),
            }
        return self._draw("getting_started.html.j2", root="../", start=values)

    def feed(self) -> str:
        """``feed.xml`` (Atom, RFC 4287): the newest releases of all channels."""
        rows = [(release, channel) for channel in self.channels for release in channel.releases]
        rows.sort(key=lambda row: (row[0].published_at, row[0].tag), reverse=True)
        entries = [
            {**self._row(release), "path": f"{channel.folder}/{release.tag}/{self.end}"} for release, channel in rows
        ][:FEED_ENTRIES]
        updated = entries[0]["published_at"] if entries else "1970-01-01T00:00:00Z"
        return self._draw("feed.xml.j2", root="", releases=entries, updated=updated)

    def status(self, status: Status) -> str:
        """What is going on."""
        shown = {release.tag for channel in self.channels for release in channel.releases}
        values = status_values(status, shown=shown, end=self.end)
        return self._draw("status.html.j2", root="../", status=values)

    def document(self, documents: Documents, document: MarkdownFile) -> str:
        """A page of the toolkit's documentation."""
        return self._draw("document.html.j2", root="../", document=document, text=documents.html(document))

    def documents(self, documents: Documents) -> str:
        """The list of these."""
        return self._draw("documents.html.j2", root="../", documents=documents.listed)

    # -- what the templates see ---------------------------------------------------------------------------------

    def _by_page(self, channel: Channel) -> str:
        """The command that installs the newest release on a channel's page of links."""
        return install_snippets.by_page(self.where(f"{channel.folder}/latest"), channel.kind, main_of(channel)).text

    def _newest(self, channel: Channel, distribution: str) -> str:
        """The URL of the requirements that name the newest wheels of a distribution."""
        name = requirements_name(channel.newest.manifest, distribution) if channel.newest else "requirements.txt"
        return f"{self.url}{channel.folder}/latest/{name}"

    def _channel(self, channel: Channel, rows: int | None) -> dict[str, Any]:
        latest, index = channel.latest, f"{self.url}{channel.folder}/simple/"
        return {
            "kind": channel.kind,
            "heading": HEADINGS[channel.kind],
            "total": len(channel.releases),
            "linked_days": channel.linked_days,
            "latest": self._release(latest, channel.previous(latest)) if latest else None,
            "rows": [self._row(release) for release in channel.releases[:rows]],
            "more": rows is not None and len(channel.releases) > rows,
            "install": install_snippets.newest(self._newest(channel, main_of(channel))).text,
            "by_page": self._by_page(channel),
            "others": [
                {
                    "heading": heading_of(project),
                    "install": install_snippets.newest(
                        self._newest(channel, release.manifest.projects[project][0])
                    ).text,
                }
                for project, release in list(channel.projects.items())[1:]
            ],
            "by_index": install_snippets.by_index(index, channel.kind, main_of(channel)).text,
            "explicit_index": install_snippets.explicit_index(
                index, main_of(channel), self.project, channel.platforms(main_of(channel))
            ),
            "distributions": sorted(channel.files()),
        }

    def _row(self, release: Published) -> dict[str, Any]:
        """A release in a list."""
        manifest = release.manifest
        upstream = github_page(manifest.upstream)
        return {
            "tag": release.tag,
            "title": title(manifest),
            "version": manifest.version,
            "published": release.published_at.strftime("%Y-%m-%d %H:%M UTC"),
            "published_at": format_time(release.published_at),
            "revision": manifest.revision,
            "revision_url": f"{upstream}/commit/{manifest.revision}" if upstream else "",
            "count": len(manifest.wheels),
            "size": format_total(manifest.size),
            "yanked": release.yanked,
        }

    def _release(self, release: Published, previous: Published | None) -> dict[str, Any]:
        """A release with all that is known of it."""
        from markupsafe import Markup

        manifest = release.manifest
        upstream = github_page(manifest.upstream)
        pythons = sorted(manifest.pythons, key=python_order)
        here = f"{FOLDERS[manifest.kind]}/{release.tag}"
        profiles = {wheel.distribution: known_profile(wheel.project, wheel.profile) for wheel in manifest.wheels}
        modules = {name: project.module for name in manifest.projects if (project := known_project(name)) is not None}
        owners = {name: project for project, names in manifest.projects.items() for name in names}
        installs = [
            {
                "distribution": name,
                "forms": self._forms(here, release, name),
                "also": [extra for extra, _, shown in self.shown(release.tag) if name in shown.forms],
                "project": owners[name],
                "module": modules.get(owners[name], ""),
                "imported": (profile := profiles[name]) is None or profile.makes != "sdk",
                "contents": (profile.meaning if profile else "").partition(";")[0].rpartition(": ")[2],
                "constraint": f"{self.url}{here}/{requirements_name(manifest, name, tag=release.tag)}",
                "use": profile.command if profile else "",
                "by_version": install_snippets.exact(self.where(here), name, manifest.version).text,
                "pin": install_snippets.pinned(
                    f"{self.url}{here}/{requirements_name(manifest, name, tag=release.tag)}"
                ).text,
                "requirements": requirements_name(manifest, name, tag=release.tag),
                "pylock": pylock_name(manifest, name),
            }
            for name in manifest.distributions
        ]
        learnt = self.quality.get(release.tag, ReleaseQuality())
        base_commits = github_page(manifest.stack.upstream) if manifest.stack else ""
        compare = f"{upstream}/compare/{manifest.previous_revision}...{manifest.revision}" if upstream else ""
        return {
            **self._row(release),
            "sections": [
                {"title": title, "html": Markup(shown.html), "link": shown.link, "about": shown.about}
                for _, title, shown in self.shown(release.tag)
            ],
            "llvm_version": manifest.llvm_version,
            "previous": manifest.previous_tag,
            "previous_revision": manifest.previous_revision,
            "same_revision": manifest.previous_revision == manifest.revision,
            "compare_url": compare if manifest.previous_revision else "",
            "example_url": f"{upstream}/tree/{manifest.revision}/mlir/examples/standalone" if upstream else "",
            "growth": total_change(manifest, previous.manifest if previous else None),
            "passed": sum(test.counts.get("pass", 0) for test in manifest.tests),
            "tests": manifest.tests,
            "known_failures": [(row, as_link(row.link), where) for row, where in known_failures(manifest)],
            "waivers": manifest.waivers,
            "commits_url": f"{upstream}/commit/" if upstream else "",
            "reverted": sorted(learnt.reverted, key=lambda revert: not revert.affects),
            "canaries": [(each, as_link(each.url)) for each in learnt.canaries],
            "good": release.tag == self.good,
            "left_out": manifest.left_out,
            "stable_abi": stable_abi_losses(manifest),
            "heading": heading_of(next(iter(manifest.projects), DEFAULT_PROJECT)),
            "main": next(iter(manifest.distributions), manifest.main),
            "relaxed": manifest.relaxed,
            "stack": manifest.stack,
            "base_url": base_commits and f"{base_commits}/commit/",
            "imported_as": imported_as(manifest),
            "installs": installs,
            "pin": installs[0]["pin"] if installs else "",
            "requirements": installs[0]["requirements"] if installs else "",
            "page_url": as_link(release.page_url),
            "signed_by": manifest.repository,
            "signed_by_url": as_link(manifest.repository),
            "pythons": [python_name(python) for python in pythons],
            "groups": [self._group(release, previous, name, pythons) for name in manifest.distributions],
            "sources": manifest.sources,
            "files": [
                {
                    "anchor": Markup(anchor(link)),
                    "size": format_bytes(link.wheel.size),
                    "sha256": link.wheel.sha256,
                    "yanked": link.yanked,
                    "provenance": link.provenance,
                    "bundle": link.bundle,
                }
                for link in release.links
            ],
        }

    def _forms(self, here: str, release: Published, name: str) -> list[tuple[str, str]]:
        """Title and text of the other forms that pin one distribution of a release, each file by its hash."""
        manifest = release.manifest
        pinned = install_snippets.pinned(f"{self.url}{here}/{requirements_name(manifest, name, tag=release.tag)}")
        lock = f"{self.url}{here}/{pylock_name(manifest, name)}"
        # Pages in a folder have none: these take a page from a server only.
        every = (
            ()
            if self.end
            else install_snippets.projects(self.where(here), name, manifest.version, manifest.project_of(name))
        )
        return [
            ("uv, without a project", pinned.by_uv),
            *(install_snippets.locked_forms(lock) if locks_all(manifest, name) else ()),
            *((f"{form.title}: pyproject.toml, the first line in [project]", form.lines) for form in every),
            *(form for _, _, shown in self.shown(release.tag) for form in shown.forms.get(name, ())),
        ]

    def _group(self, release: Published, previous: Published | None, name: str, pythons: list[str]) -> dict[str, Any]:
        """The wheels of one distribution: a row for each platform, a cell for each CPython."""
        links = [link for link in release.links if link.wheel.distribution == name]
        platforms = sorted({runs_on(link.wheel.platforms) for link in links})
        wheel = links[0].wheel
        profile = known_profile(wheel.project, wheel.profile)
        return {
            "distribution": name,
            "meaning": profile.meaning or profile.summary if profile is not None else wheel.profile,
            "rows": [
                {"platform": row, "cells": self._cells(release, links, previous, row, pythons)} for row in platforms
            ],
        }

    def _cells(
        self, release: Published, links: list[WheelLink], previous: Published | None, row: RunsOn, pythons: list[str]
    ) -> list[dict[str, Any] | None]:
        """The cells of a platform, one for each CPython; a single one for a wheel that is for all."""
        here = [link for link in links if runs_on(link.wheel.platforms) == row]
        for link in here:
            if link.wheel.python == ANY_PYTHON:
                return [self._cell(release, link, previous) | {"span": max(len(pythons), 1)}]
        found = [next((link for link in here if python in link.wheel.pythons), None) for python in pythons]
        return [self._cell(release, link, previous) if link is not None else None for link in found]

    def _cell(self, release: Published, link: WheelLink, previous: Published | None) -> dict[str, Any]:
        from markupsafe import Markup

        return {
            "anchor": Markup(anchor(link, format_bytes(link.wheel.size))),
            "change": size_change(link.wheel, previous.manifest if previous else None),
            "yanked": link.yanked if release.yanked is None else None,  # else the page says it once
            "span": 1,
        }


# -- the page *Getting started*: two programs, and the commands that install the newest release for them ---------------


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
