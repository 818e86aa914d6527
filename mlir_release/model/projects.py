"""The projects of llvm-project that wheels are released of: what each tells the trunk about itself.

A project is a package with an object :class:`Project`, which an entry point of the group ``mlir_release.projects``
names. Ours are ``mlir`` and ``clang``; any distribution can bring another (docs/projects.md). The trunk imports none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from mlir_release.errors import MachineError, UsageError
from mlir_release.model.decode import alternatives
from mlir_release.plugins import PROJECTS, load, plugins, unusable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: What a configuration belongs to, if ``targets.toml`` does not say.
DEFAULT_PROJECT = "mlir"

#: Files that a profile makes: a wheel for each CPython; one that is for every CPython; one that holds the SDK itself;
#: no wheel but the source distribution.
Makes = Literal["each-python", "any-python", "sdk", "source"]

#: The modules of a project, by the room of the trunk that asks for it.
Room = Literal["sdk", "wheels", "testing"]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A choice of what a distribution of a project contains."""

    distribution: str  #: its name, unless ``targets.toml`` gives it another
    makes: Makes
    summary: str  #: one line, as the description in the wheel's metadata
    #: Code generators that are linked in beside the machine's own, or "all" that the SDK has; None: none at all.
    code_generators: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project, as plain data: reading it imports nothing else."""

    name: str  #: ``mlir``
    title: str  #: for people: ``MLIR's Python bindings``
    package: str  #: the Python package with its modules: ``mlir_release.projects.mlir``
    folder: Path  #: its files: ``wheel/``, ``tests/smoke.py``, ``known_failures.toml``
    module: str  #: the Python package that its wheels install: ``mlir``
    profiles: Mapping[str, Profile] = field(hash=False)
    subprojects: tuple[str, ...]  #: those of LLVM's build (``LLVM_ENABLE_PROJECTS``) that its SDK needs
    needs: str  #: a file of llvm-project: a revision without it lacks the project
    paths: tuple[str, ...]  #: folders of llvm-project whose changes affect it
    pypi: tuple[str, ...] = ()  #: its distributions that go to PyPI, unless ``targets.toml`` says otherwise
    suites: tuple[str, ...]  #: those of :data:`mlir_release.model.suites.SUITES` that it has
    has_requirements: bool = False  #: whether its wheels require what the facts of a revision name
    has_stable_abi: bool = False  #: whether one wheel can serve several CPythons where the facts allow it

    @property
    def known_failures(self) -> Path:
        """Its list of upstream's tests that fail for a known reason."""
        return self.folder / "known_failures.toml"

    @property
    def smoke(self) -> Path:
        """Its smoke test: run in an environment that has the wheel installed."""
        return self.folder / "tests" / "smoke.py"

    @property
    def wheel_info(self) -> str:
        """Where its wheels say which release they belong to: ``mlir/_release.json``."""
        return f"{self.module}/_release.json"

    def profile(self, name: str) -> Profile:
        """The profile of that name. :raises UsageError: ``option-invalid``"""
        if name in self.profiles:
            return self.profiles[name]
        what = f"the project {self.name} has no profile {name!r}"
        raise UsageError("option-invalid", what, remedy=alternatives(name, self.profiles))

    def room(self, room: Room) -> Any:
        """Its module ``for_sdk``, ``for_wheels`` or ``for_testing``: what it does in that room of the trunk.

        :raises MachineError: ``plugin-unusable``: it can't be imported
        """
        try:
            return import_module(f"{self.package}.for_{room}")
        except Exception as error:  # whatever another's code does when it is imported
            (point, *_) = plugins(PROJECTS)[self.name]
            raise unusable(point, f"{type(error).__name__}: {error}") from error


@cache
def find_project(name: str) -> Project:
    """The project of that name.

    :raises UsageError: ``option-invalid``: no installed distribution brings it
    :raises MachineError: ``plugin-unusable``: two bring it, or it can't be used
    """
    named = plugins(PROJECTS)
    if name not in named:
        raise UsageError(
            "option-invalid",
            f"there is no project {name!r}",
            remedy=f"{alternatives(name, named)}, or install the distribution that brings it",
        )
    found = load(named[name])
    if not isinstance(found, Project) or found.name != name:
        problem = f"it is {type(found).__name__} {getattr(found, 'name', '')!r}, not the project {name!r}"
        raise unusable(named[name][0], problem)
    for path in (found.smoke, found.known_failures):
        if not path.is_file():
            raise unusable(named[name][0], f"the project has no {path.relative_to(found.folder)}")
    return found


def all_projects() -> list[Project]:
    """Every project that can be used, by name; one that can't be is left out: only who asks for it must know."""
    found = []
    for name in sorted(plugins(PROJECTS)):
        try:
            found.append(find_project(name))
        except MachineError:
            continue
    return found
