"""What somebody else's project may import, and all that stays where it is: docs/projects.md.

Each name is imported when it is asked for: every command reads a project's own data, and few build it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlir_release.builder.sdk.importer import add_third_party as add_third_party
    from mlir_release.builder.sdk.importer import link_tree as link_tree
    from mlir_release.builder.sdk.parts import BUILD as BUILD
    from mlir_release.builder.sdk.parts import TOOLS as TOOLS
    from mlir_release.builder.sdk.port import Bindings as Bindings
    from mlir_release.builder.sdk.port import LinkedLibrary as LinkedLibrary
    from mlir_release.builder.sdk.port import Recipe as Recipe
    from mlir_release.builder.sdk.prefix import Prefix as Prefix
    from mlir_release.builder.sdk.programs import link_or_copy as link_or_copy
    from mlir_release.builder.sdk.sources.upstream import copy_sources as copy_sources
    from mlir_release.builder.testing.port import TIMEOUT as TIMEOUT
    from mlir_release.builder.testing.port import Suite as Suite
    from mlir_release.builder.testing.port import SuiteSubject as SuiteSubject
    from mlir_release.builder.testing.report import TestOutcome as TestOutcome
    from mlir_release.builder.testing.report import TestResult as TestResult
    from mlir_release.builder.tools.ninja import Course as Course
    from mlir_release.builder.wheels.port import Component as Component
    from mlir_release.builder.wheels.port import ProjectWheels as ProjectWheels
    from mlir_release.builder.wheels.request import WheelRequest as WheelRequest
    from mlir_release.ground.llvm.llvm_facts import LlvmFacts as LlvmFacts
    from mlir_release.ground.llvm.projects import Profile as Profile
    from mlir_release.ground.llvm.projects import Project as Project
    from mlir_release.ground.programs.process import capture as capture
    from mlir_release.ground.python.platforms import PlatformTag as PlatformTag
    from mlir_release.ground.python.platforms import System as System

_PLACES = {
    "mlir_release.builder.tools.ninja": "Course",
    "mlir_release.ground.programs.process": "capture",
    "mlir_release.ground.llvm.llvm_facts": "LlvmFacts",
    "mlir_release.ground.python.platforms": "PlatformTag System",
    "mlir_release.ground.llvm.projects": "Profile Project",
    "mlir_release.builder.sdk.importer": "add_third_party link_tree",
    "mlir_release.builder.sdk.parts": "BUILD TOOLS",
    "mlir_release.builder.sdk.port": "Bindings LinkedLibrary Recipe",
    "mlir_release.builder.sdk.prefix": "Prefix",
    "mlir_release.builder.sdk.programs": "link_or_copy",
    "mlir_release.builder.sdk.sources.upstream": "copy_sources",
    "mlir_release.builder.testing.port": "TIMEOUT Suite SuiteSubject",
    "mlir_release.builder.testing.report": "TestOutcome TestResult",
    "mlir_release.builder.wheels.port": "Component ProjectWheels",
    "mlir_release.builder.wheels.request": "WheelRequest",
}
_FROM = {name: place for place, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FROM[name]), name)


def __dir__() -> list[str]:
    return sorted(_FROM)
