"""What a project tells this room: of which files an SDK of it is made, and how.

A project's module ``for_sdk`` has one object ``RECIPE``. Everything that depends on the project is in it: the trunk
fetches sources and packages, builds, divides, describes and packs, and knows no project by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from mlir_release.ground.llvm.projects import DEFAULT_PROJECT, Project, find_project
from mlir_release.ground.plugins import PROJECTS, plugins, unusable

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from mlir_release.builder.sdk.prefix import Prefix
    from mlir_release.ground.llvm.llvm_facts import LlvmFacts
    from mlir_release.ground.python.platforms import System


class LinkedLibrary(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A third-party library whose code ends up in what is linked against the SDK."""

    name: str
    version: str  #: empty where it could not be found out
    license: str  #: SPDX expression


class Bindings(NamedTuple):
    """What building and running a project's Python modules needs, for ``sdk.json``."""

    minimum_python: str  #: oldest CPython: ``3.10``
    library: str = ""  #: ``nanobind`` or ``pybind11``; empty: no module is compiled
    building: tuple[str, ...] = ()  #: requirements
    running: tuple[str, ...] = ()  #: requirements


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """An SDK of one project. Paths of upstream are in llvm-project's layout, paths of a prefix as CMake installs."""

    project: Project

    #: Files and folders of upstream that an SDK carries in ``source/``; a version may lack some.
    kept_sources: tuple[str, ...]
    #: Those without which no SDK of the project can be made.
    needed_sources: tuple[str, ...]
    #: Those that building LLVM from source needs besides.
    needed_to_build: tuple[str, ...]

    #: Upstream's programs that are built, each with the folder of upstream that exists in versions that have it.
    tools: Mapping[str, str]
    #: Of ``LLVM_DISTRIBUTION_COMPONENTS``, all but :attr:`tools`: for a tree of upstream, on a system.
    components: Callable[[Path, System], list[str]]
    #: CMake's cache variables, beside those of every build (:mod:`mlir_release.builder.sdk.components`).
    settings: Mapping[str, str]
    #: ``LLVM_TARGETS_TO_BUILD``.
    code_generators: tuple[str, ...] = ("host",)

    #: Debian's packages of a prefix; ``{v}`` is the major version. The version of the first is the SDK's.
    packages: tuple[str, ...]
    #: What a prefix must have, each with Debian's package that has it. Paths are relative to the prefix:
    #: ``bin/not`` (a program; ``bin/a|b`` is either), ``include/mlir`` (headers, which are carried),
    #: ``lib/LLVMSupport`` (a static library by CMake's name), ``lib/cmake/mlir/MLIRConfig.cmake`` (another file).
    #: The linker, ``bin/ld.lld``, is asked for on Linux only.
    pieces: Mapping[str, str]
    #: Programs that are carried where the prefix has them, with the shared libraries that they need.
    programs: tuple[str, ...]
    #: Shared libraries that are carried, too, with those that they need; None: no others.
    loaded: re.Pattern[str] | None = None
    #: Completes an SDK that has headers, :attr:`programs` with their libraries, sources and LLVM's licence already, by
    #: static libraries, CMake packages and what else there is. :mod:`mlir_release.builder.sdk.importer` has the means.
    #: Called with the prefix, a tree of upstream, and the SDK's folder. Returns the third-party libraries whose code it
    #: added.
    fill: Callable[[Prefix, Path, Path], list[LinkedLibrary]]

    #: Names of programs and shared libraries that builds use, as shell patterns without ``.exe``. The shared
    #: libraries that these need are in the same part; all others are in the part of tools.
    for_builds: tuple[str, ...]
    #: Folders of :attr:`kept_sources` that only tests read.
    for_tests: tuple[str, ...] = ()

    #: What an SDK says of Python modules that are built with it.
    bindings: Callable[[LlvmFacts], Bindings]
    #: Modules, other files and folders of the project that decide what is in an SDK: a change makes cached ones stale.
    code: tuple[Path, ...] = field(repr=False)

    @property
    def headers(self) -> tuple[str, ...]:
        """Folders of ``include/`` that are carried."""
        return tuple(path.removeprefix("include/") for path in self.pieces if path.startswith("include/"))

    def cached(self, name: str) -> str:
        """The name of something in a cache that belongs to this project alone."""
        return name if self.project.name == DEFAULT_PROJECT else f"{self.project.name}-{name}"


def recipe_of(project: str) -> Recipe:
    """The recipe of a project.

    :raises UsageError: ``option-invalid``: there is no such project
    :raises MachineError: ``plugin-unusable``: it can't be used
    """
    found = find_project(project)
    recipe = getattr(found.room("sdk"), "RECIPE", None)
    if not isinstance(recipe, Recipe):
        raise unusable(plugins(PROJECTS)[project][0], f"{found.package}.for_sdk has no RECIPE")
    return recipe
