"""The projects of llvm-project that wheels are released of: what each tells the trunk about itself.

A project is a package with an object :class:`Project`, which an entry point of the group ``mlir_release.projects``
names. Ours are ``mlir`` and ``clang``; any distribution can bring another (docs/projects.md). The trunk imports none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from mlir_release.ground.documents.decode import alternatives
from mlir_release.ground.errors import MachineError, UsageError
from mlir_release.ground.plugins import PROJECTS, load, plugins, unusable, why_not

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

T = TypeVar("T")

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
    meaning: str = ""  #: what pages say of it beside its name; empty: the summary
    command: str = ""  #: a first command line once it is installed: ``mlir-opt --version``
    core_minutes: float = 4.0  #: processor time of one file's build and repair
    size: int = 0  #: bytes of one file, measured; 0: not known
    #: Distributions of others with files of the same names, which projects require that it serves.
    stands_for: tuple[str, ...] = ()

    def linked(self, native: str, available: tuple[str, ...]) -> tuple[str, ...]:
        """The code generators that are linked in, of an SDK that has these; ``native``: the machine's own."""
        if self.code_generators is None:
            return ()
        return available if self.code_generators == ("all",) else (native, *self.code_generators)


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project, as plain data: reading it imports nothing else."""

    name: str  #: ``mlir``
    title: str  #: for people: ``MLIR's Python bindings``
    package: str  #: the Python package with its modules: ``mlir_release.builder.projects.mlir``
    folder: Path  #: its files: ``wheel/``, ``tests/smoke.py``, ``known_failures.toml``
    module: str  #: the Python package that its wheels install: ``mlir``
    profiles: Mapping[str, Profile] = field(hash=False)
    subprojects: tuple[str, ...]  #: those of LLVM's build (``LLVM_ENABLE_PROJECTS``) that its SDK needs
    needs: str  #: a file of llvm-project: a revision without it lacks the project
    paths: tuple[str, ...]  #: folders of llvm-project whose changes affect it
    pypi: tuple[str, ...] = ()  #: its distributions that go to PyPI, unless ``targets.toml`` says otherwise
    suites: tuple[str, ...]  #: those of :data:`mlir_release.builder.model.suites.SUITES` that it has
    test_requirements: tuple[str, ...] = ()  #: of upstream's tests of the bindings, beyond those of the wheels
    has_requirements: bool = False  #: whether its wheels require what the facts of a revision name
    has_stable_abi: bool = False  #: whether one wheel can serve several CPythons where the facts allow it
    stable_abi_loss: str = ""  #: what such a wheel gives up, in a sentence for people
    short: str = ""  #: what headings call it: ``MLIR``; empty: its name
    homepage: str = ""  #: upstream's page about it
    lead: str = "From an empty folder to a program that runs."  #: of the page *Getting started*
    tells: str = ""  #: a command that prints which release is installed
    entry: str = ""  #: the module that programs begin with: ``mlir.ir``
    check: str = ""  #: a Python statement, after ``import <entry>``, that shows that it works; it fails if not
    conda_packages: tuple[str, ...] = ()  #: packages of conda-forge that install the same Python package
    sdk_core_minutes: float = 360.0  #: processor time of its SDK without a compiler cache
    #: Processor time of suites, where it is another than that of MLIR's.
    suite_core_minutes: Mapping[str, float] = field(default_factory=dict, hash=False)
    measured: str = ""  #: what its minutes rest on, and its profiles'; empty: they are assumed

    @property
    def heading(self) -> str:
        """What headings call it."""
        return self.short or self.name

    @property
    def known_failures(self) -> Path:
        """Its list of upstream's tests that fail for a known reason."""
        return self.folder / "known_failures.toml"

    @property
    def getting_started(self) -> Path:
        """What the page *Getting started* shows: programs ``*.py``, what they print (``*.txt``), and templates.

        All of it is optional: ``page.html.j2`` replaces the list of programs, ``build.html.j2`` is about builds.
        """
        return self.folder / "getting_started"

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

    @overload
    def room(self, room: Room) -> Any: ...

    @overload
    def room(self, room: Room, name: str, kind: type[T]) -> T: ...

    def room(self, room: Room, name: str = "", kind: type[Any] = object) -> Any:
        """Its module ``for_sdk``, ``for_wheels`` or ``for_testing``: what it does in that room of the trunk.

        :param name: of an object in the module, to get that
        :param kind: what the object must be
        :raises MachineError: ``plugin-unusable``: it can't be imported, or has no such object
        """
        (point, *_) = plugins(PROJECTS)[self.name]
        try:
            module = import_module(f"{self.package}.for_{room}")
        except Exception as error:  # whatever another's code does when it is imported
            raise unusable(point, why_not(error)) from error
        if not name:
            return module
        found = getattr(module, name, None)
        if not isinstance(found, kind):
            raise unusable(point, f"{module.__name__}.{name} is {type(found).__name__}, not {kind.__name__}")
        return found


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


def known_project(name: str) -> Project | None:
    """The project that a release names; None: it can't be used here, which keeps nobody from reading that release."""
    try:
        return find_project(name)
    except (UsageError, MachineError):
        return None


def known_profile(project: str, profile: str) -> Profile | None:
    """The profile that a release names; None: it is not known here."""
    found = known_project(project)
    return found.profiles.get(profile) if found is not None else None


def heading_of(name: str) -> str:
    """What headings call a project that a release names."""
    found = known_project(name)
    return found.heading if found is not None else name


def all_projects() -> list[Project]:
    """Every project that can be used, by name; one that can't be is left out: only who asks for it must know."""
    found = []
    for name in sorted(plugins(PROJECTS)):
        try:
            found.append(find_project(name))
        except MachineError:
            continue
    return found
