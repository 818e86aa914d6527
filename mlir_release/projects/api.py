"""What somebody else's project may import, and all that stays where it is: docs/projects.md.

Each name is imported when it is asked for: every command reads a project's own data, and few build it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlir_release.host.ninja import Course as Course
    from mlir_release.host.process import capture as capture
    from mlir_release.model.llvm_facts import LlvmFacts as LlvmFacts
    from mlir_release.model.platforms import PlatformTag as PlatformTag
    from mlir_release.model.platforms import System as System
    from mlir_release.model.projects import Profile as Profile
    from mlir_release.model.projects import Project as Project
    from mlir_release.sdk.importer import add_third_party as add_third_party
    from mlir_release.sdk.importer import link_tree as link_tree
    from mlir_release.sdk.parts import BUILD as BUILD
    from mlir_release.sdk.parts import TOOLS as TOOLS
    from mlir_release.sdk.port import Bindings as Bindings
    from mlir_release.sdk.port import LinkedLibrary as LinkedLibrary
    from mlir_release.sdk.port import Recipe as Recipe
    from mlir_release.sdk.prefix import Prefix as Prefix
    from mlir_release.sdk.programs import link_or_copy as link_or_copy
    from mlir_release.sdk.upstream import copy_sources as copy_sources
    from mlir_release.testing.port import TIMEOUT as TIMEOUT
    from mlir_release.testing.port import Suite as Suite
    from mlir_release.testing.port import SuiteSubject as SuiteSubject
    from mlir_release.testing.report import TestOutcome as TestOutcome
    from mlir_release.testing.report import TestResult as TestResult
    from mlir_release.wheels.port import Component as Component
    from mlir_release.wheels.port import ProjectWheels as ProjectWheels
    from mlir_release.wheels.request import WheelRequest as WheelRequest

_PLACES = {
    "mlir_release.host.ninja": "Course",
    "mlir_release.host.process": "capture",
    "mlir_release.model.llvm_facts": "LlvmFacts",
    "mlir_release.model.platforms": "PlatformTag System",
    "mlir_release.model.projects": "Profile Project",
    "mlir_release.sdk.importer": "add_third_party link_tree",
    "mlir_release.sdk.parts": "BUILD TOOLS",
    "mlir_release.sdk.port": "Bindings LinkedLibrary Recipe",
    "mlir_release.sdk.prefix": "Prefix",
    "mlir_release.sdk.programs": "link_or_copy",
    "mlir_release.sdk.upstream": "copy_sources",
    "mlir_release.testing.port": "TIMEOUT Suite SuiteSubject",
    "mlir_release.testing.report": "TestOutcome TestResult",
    "mlir_release.wheels.port": "Component ProjectWheels",
    "mlir_release.wheels.request": "WheelRequest",
}
_FROM = {name: place for place, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FROM[name]), name)


def __dir__() -> list[str]:
    return sorted(_FROM)
