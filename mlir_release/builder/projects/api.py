"""What somebody else's project may import, and all that stays where it is: docs/projects.md.

Each name is imported when it is asked for: every command reads a project's own data, and few build it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.ground import plugins

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

__getattr__, __dir__ = plugins.door(__name__)
