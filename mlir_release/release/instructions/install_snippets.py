"""What pages and release notes tell people to type, for every installer. What is documented is what the probe runs.

First come the forms that ask no index for MLIR: each wheel by its URL and digest. Those that name a page or an index
also ask PyPI, and the highest version wins, whoever published it. They name a version or a floor, because PyPI's
``mlir`` 0.0.1 belongs to someone else, and pip would fall back to it where no wheel fits: dates and LLVM versions are
above it, so that a floor turns that into an error.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from mlir_release.ground.llvm.projects import known_profile
from mlir_release.release.instructions.lockfiles import lock_entries, lock_files, requirements_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mlir_release.ground.python.platforms import Platform
    from mlir_release.release.forge.base import Forge
    from mlir_release.release.model.manifest import Manifest
    from mlir_release.release.model.release_tags import Kind

#: The lowest version of each kind that could be ours.
FLOORS: dict[Kind, str] = {"snapshot": ">=20200101", "numbered": ">=1"}


#: The oldest pip that reads ``pylock.toml``; the oldest uv is 0.6.15.
LOCK_READER = (26, 1)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A call of pip, or of uv in pip's place."""

    label: str
    arguments: tuple[str, ...]  #: after ``pip install``
    tool: str = "pip"  #: or ``uv``
    distribution: str = ""  #: that it installs; empty: the main one

    @property
    def text(self) -> str:
        """As a person types it."""
        return shlex.join([*(["uv"] if self.tool == "uv" else []), "pip", "install", *self.arguments])

    @property
    def by_uv(self) -> str:
        """The same with uv, which reads requirements files as pip does."""
        return replace(self, tool="uv").text


@dataclass(frozen=True, kw_only=True)
class ProjectForm:
    """Lines of a project's ``pyproject.toml`` by which an installer takes a distribution of one release from its page.

    The first line belongs into ``[project]``; then come tables. The page is asked for nothing else, and no other index
    for that distribution.
    """

    tool: str  #: the program, which knows a command ``lock``
    title: str  #: for people
    lines: str

    @property
    def label(self) -> str:
        """Its name among the forms."""
        return self.tool

    @property
    def text(self) -> str:
        """What is run."""
        return f"{self.tool} lock, with the lines for {self.title}"


#: The installers that take settings from ``pyproject.toml``: program, title, and what they need there.
_PROJECTS = {
    "uv": (
        "uv",
        """\
[[tool.uv.index]]
name = "{index}"
url = "{page}"
format = "flat"
explicit = true
[tool.uv.sources]
{distribution} = {{ index = "{index}" }}""",
    ),
    "pdm": (
        "PDM",
        """\
[[tool.pdm.source]]
name = "{index}"
type = "find_links"
url = "{page}"
include_packages = ["{distribution}"]
exclude_packages = ["*"]
[[tool.pdm.source]]
name = "pypi"
url = "https://pypi.org/simple"
exclude_packages = ["{distribution}"]""",
    ),
    "poetry": (
        "Poetry",
        """\
[[tool.poetry.source]]
name = "{index}"
url = "{page}index.html"
priority = "explicit"
[tool.poetry.dependencies]
{distribution} = {{ source = "{index}" }}""",
    ),
}


def index_name(project: str) -> str:
    """What installers call the place with a project's wheels, in settings that people paste."""
    return f"{project}-wheels"


def projects(page: str, distribution: str, version: str, project: str) -> tuple[ProjectForm, ...]:
    """The forms for projects of users.

    :param page: URL of the release's page, a folder's
    :param project: that the distribution is of
    """
    return tuple(
        ProjectForm(
            tool=tool,
            title=title,
            lines=f'dependencies = ["{distribution}=={version}"]\n'
            + tables.format(page=page, distribution=distribution, index=index_name(project)),
        )
        for tool, (title, tables) in _PROJECTS.items()
    )


def newest(requirements: str) -> Command:
    """The newest release, each file by its hash."""
    return Command(label="newest", arguments=("-r", requirements))


def exact(page: str, distribution: str, version: str) -> Command:
    """One release, from a page of links; PyPI is asked, too."""
    return Command(label="exact", arguments=("-f", page, f"{distribution}=={version}"))


def by_page(page: str, kind: Kind, distribution: str) -> Command:
    """The newest release on a page of links; PyPI is asked, too."""
    return Command(label="page", arguments=("-f", page, f"{distribution}{FLOORS[kind]}"))


def pinned(requirements: str) -> Command:
    """One release, each file by its hash."""
    return Command(label="pinned", arguments=("-r", requirements))


def locked(lock: str) -> tuple[Command, ...]:
    """One release and all that it depends on, each file by its hash; for pip and for uv.

    :param lock: address of its ``pylock.toml``
    """
    return tuple(Command(label="lock", arguments=("-r", lock), tool=tool) for tool in ("pip", "uv"))


def locked_forms(lock: str) -> tuple[tuple[str, str], ...]:
    """The commands of :func:`locked`, each with its title for people."""
    by_pip, by_uv = locked(lock)
    oldest = ".".join(map(str, LOCK_READER))
    return (
        (f"pip {oldest} or newer, with everything that it depends on by hash", by_pip.text),
        ("uv, with everything that it depends on by hash", by_uv.text),
    )


def own_commands(forge: Forge, manifest: Manifest) -> list[Command]:
    """What a release's own page tells people to type for each project's first distribution; it needs no other pages.

    A mirror has the same files for ``pip install -r``, but these lead to where the release was published first.
    """
    tag = manifest.tag
    url = partial(forge.file_url, tag)
    leads_here = manifest.locks and manifest.locks == lock_entries(lock_files(manifest, url))
    pages = dict.fromkeys((forge.page_url(tag), forge.files_page(tag)))
    return [
        replace(command, distribution=name)
        for name in manifest.heads
        for command in (
            *([pinned(url(requirements_name(manifest, name)))] if leads_here else []),
            *(exact(page, name, manifest.version) for page in pages),
        )
    ]


def first_command(manifest: Manifest, distribution: str) -> str:
    """A first command line once a distribution of a release is installed; empty: its project names none."""
    wheel = next((wheel for wheel in manifest.wheels if wheel.distribution == distribution), None)
    profile = known_profile(wheel.project, wheel.profile) if wheel is not None else None
    return profile.command if profile is not None else ""


def by_index(index: str, kind: Kind, distribution: str) -> Command:
    """The newest release on a simple index or on PyPI; MLIR's own dependencies come from there."""
    return Command(label="index", arguments=("--extra-index-url", index, f"{distribution}{FLOORS[kind]}"))


def required_environments(platforms: Iterable[Platform]) -> str:
    """Lines of a ``pyproject.toml``: uv then locks only a version with wheels for each of these platforms."""
    found = sorted({each.markers for each in platforms if each.markers is not None})
    lines = [f"    \"sys_platform == '{system}' and platform_machine == '{machine}'\"," for system, machine in found]
    return "\n".join(["[tool.uv]", "required-environments = [", *lines, "]"])


def explicit_index(index: str, distribution: str, project: str, platforms: Iterable[Platform]) -> str:
    """Lines of a ``pyproject.toml`` by which uv takes a distribution from one index, and nothing else from it.

    :param platforms: that the lock must serve: without them, uv takes the newest version that has a wheel for any
    """
    return (
        f"{required_environments(platforms)}\n\n"
        f'[[tool.uv.index]]\nname = "{index_name(project)}"\nurl = "{index}"\nexplicit = true\n\n'
        f'[tool.uv.sources]\n{distribution} = {{ index = "{index_name(project)}" }}'
    )
