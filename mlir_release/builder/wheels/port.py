"""What a project does in this room: its module ``for_wheels`` has one object ``WHEELS``.

The wheel project is the folder ``wheel/`` of the project (:attr:`~mlir_release.ground.llvm.projects.Project.folder`),
which scikit-build-core builds; its ``pyproject.toml`` is a template. :mod:`mlir_release.builder.wheels.stage` copies
the folder, adds upstream's sources, licences, ``<module>/_release.json`` and the bill of materials, and fills the
template in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mlir_release.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mlir_release.builder.sdk.info import Sdk
    from mlir_release.builder.tools.ninja import Course
    from mlir_release.builder.wheels.request import WheelRequest
    from mlir_release.ground.llvm.projects import Project


class Component(NamedTuple):
    """Something that is linked into a wheel, or copied, as its bill of materials names it."""

    name: str
    license: str  #: SPDX expression
    version: str = ""
    purl: str = ""  #: package URL; empty: a generic one of the name and version
    properties: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class ProjectWheels:
    """The wheels of a project. What is said here of a wheel holds for a source distribution, too."""

    #: The files and folders of llvm-project that the staged project has in ``upstream/``: ``clang/bindings/python``.
    #: Those are copied that are in the SDK's ``source/``.
    upstream: Callable[[WheelRequest], Sequence[str]]

    #: Completes the table of ``pyproject.toml``, in place, by what the trunk can't know.
    #:
    #: The trunk has set what it knows. In ``project``: name, version, description, ``requires-python``, the address of
    #: the revision. In ``build-system.requires``: the backend. In ``tool.scikit-build``: the definition of
    #: ``MLIR_RELEASE_SDK``; ``wheel.py-api`` of a wheel that is for several CPythons, or for all (``py3``). The project
    #: adds ``project.dependencies``, further requirements of the build, and definitions for its CMakeLists.txt.
    fill_in: Callable[[dict[str, Any], WheelRequest], None]

    #: Whether the wheel project can build what upstream's tests need beyond the wheel: an add-on, never published, that
    #: is laid over the wheel. Then :attr:`fill_in` makes such a table if ``request.test_addon``.
    has_addon: bool = False

    #: What is linked into a wheel besides LLVM and the third-party libraries that ``sdk.json`` names.
    components: Callable[[WheelRequest], Sequence[Component]] = lambda _: ()

    #: The course of a build that has one core for itself and no compiler cache, until one was measured on the machine.
    course: Course

    #: Bytes of disk that a build takes at most: objects, libraries, the wheel and its copies.
    disk: int

    #: Writes the wheels of profiles that make ``sdk``; None: the project has no such profile.
    of_sdk: SdkWheelWriter | None = None


class SdkWheelWriter(Protocol):
    """Writes wheels that hold the SDK itself, one for every CPython; the same SDK gives the same bytes."""

    def pack(self, requests: Sequence[WheelRequest], *, output: Path) -> list[Path]:
        """Write the wheels that targets ask for into the folder ``output``.

        :param requests: of one SDK and version; several are quicker together
        :raises UsageError: ``input-missing``
        :raises VerificationError: ``wheel-unsuitable``
        """

    def pack_all(self, sdk: Sdk, version: str, *, output: Path) -> Mapping[str, Path]:
        """Write all wheels of an SDK, which belong to no release, and return them by the names that people know.

        :raises UsageError: ``option-invalid``, ``input-missing``
        :raises VerificationError: ``wheel-unsuitable``
        """


def wheels_of(project: Project) -> ProjectWheels:
    """What the project does here. :raises MachineError: ``plugin-unusable``: its module can't be used"""
    return project.room("wheels", "WHEELS", ProjectWheels)


def sdk_wheels_of(project: Project) -> SdkWheelWriter:
    """What writes the project's wheels of an SDK. :raises UsageError: ``option-invalid``: it has none"""
    if writer := wheels_of(project).of_sdk:
        return writer
    raise UsageError(
        "option-invalid", f"the project {project.name} has no wheels of its SDK", remedy="build its other wheels"
    )
