"""The wheels of MLIR's Python bindings: see :mod:`mlir_release.builder.wheels.port`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.version import Version

from mlir_release.builder.projects.mlir import sdk_wheels
from mlir_release.builder.sdk.regalloc_model import ADVISOR_SOURCES
from mlir_release.builder.tools.ninja import Course
from mlir_release.builder.wheels.port import Component, ProjectWheels
from mlir_release.ground.errors import UsageError
from mlir_release.ground.python.platforms import PlatformTag
from mlir_release.ground.python.requirements import of_names, wheel_requirements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlir_release.builder.wheels.request import WheelRequest

#: The staged part of upstream's tree, in an SDK's ``source/``. ``mlir/include`` holds the .td files of the dialects.
_UPSTREAM = ("mlir/include", "mlir/lib/Bindings", "mlir/lib/ExecutionEngine", "mlir/python")

#: The add-on of upstream's tests is made of these, besides.
_UPSTREAM_TESTS = ("mlir/test/python/lib", "mlir/test/python/python_test_ops.td", "mlir/test/python/CMakeLists.txt")

#: Licences of the binding libraries, as SPDX expressions. nanobind's shared library includes tsl::robin_map.
_BINDING_LIBRARIES = {
    "nanobind": [("nanobind", "BSD-3-Clause"), ("robin-map", "MIT")],
    "pybind11": [("pybind11", "BSD-3-Clause")],
}


def upstream(request: WheelRequest) -> tuple[str, ...]:
    """The bindings' sources; with the tests' extensions, for the add-on; with the advisor, for a model."""
    tests = _UPSTREAM_TESTS if request.test_addon else ()
    advisor = ADVISOR_SOURCES if request.regalloc is not None else ()
    return (*_UPSTREAM, *tests, *advisor)


def fill_in(pyproject: dict[str, Any], request: WheelRequest) -> None:
    """Add what upstream's requirements say, and the definitions of ``CMakeLists.txt``."""
    project, settings = pyproject["project"], pyproject["tool"]["scikit-build"]
    requirements = request.sdk.info.runtime_requirements
    project["dependencies"] = [] if request.test_addon else list(wheel_requirements(requirements, request.overrides))
    pyproject["build-system"]["requires"] += _build_requirements(request)
    defines = settings["cmake"]["define"]
    defines["MLIR_RELEASE_PROFILE"] = "host" if request.is_source else request.profile
    if glibc := PlatformTag.parse(request.floor).glibc:
        defines["MLIR_RELEASE_GLIBC"] = "{}.{}".format(*glibc)
    if request.regalloc_model is not None and not request.test_addon:
        defines["MLIR_RELEASE_REGALLOC_MODEL"] = request.regalloc_model.policy
    if request.plain:
        defines["MLIR_RELEASE_PLAIN"] = True
    if request.serves:
        defines["MLIR_ENABLE_PYTHON_STABLE_ABI"] = True
    if request.test_addon:
        del project["entry-points"]  # it has no CMake package
        defines["MLIR_RELEASE_TEST_ADDON"] = True
        settings["install"]["components"] = ["mlir_test_addon"]
        settings["build"] = {"targets": ["mlir_test_addon"]}


def _build_requirements(request: WheelRequest) -> Iterator[str]:
    info = request.sdk.info
    yield pin_binding_library(info.binding_requirements)
    yield from of_names(info.binding_requirements, "typing-extensions")
    if info.binding_library == "pybind11":
        # Upstream's CMake asks for NumPy's headers there, though the bindings do not compile against them.
        yield from of_names(info.runtime_requirements, "numpy")
    if info.platform.os == "linux" or request.is_source:
        # Checks that nothing is needed that the wheel does not carry.
        yield "pyelftools>=0.31" + ("; sys_platform == 'linux'" if request.is_source else "")


def pin_binding_library(requirements: tuple[str, ...]) -> str:
    """nanobind or pybind11 at the version that upstream tested.

    That is the inclusive upper bound where there is one (``<=2.10.3``), else the lowest minor version (``>=2.9`` gives
    2.9.x): later ones change messages and signatures that upstream's tests compare.
    """
    for line in requirements:
        requirement = Requirement(line)
        if requirement.name not in {"nanobind", "pybind11"}:
            continue
        bounds = {specifier.operator: specifier.version for specifier in requirement.specifier}
        if exact := bounds.get("==") or bounds.get("<="):
            return f"{requirement.name}=={exact}"
        if lowest := bounds.get(">=") or bounds.get("~="):
            release = Version(lowest).release
            return f"{requirement.name}~={'.'.join(str(part) for part in (*release, 0, 0)[:3])}"
        return line
    raise UsageError(
        "revision-unsuitable",
        "Upstream's requirements name neither nanobind nor pybind11",
        why="; ".join(requirements),
        remedy="this toolkit does not know how to build the bindings of this revision yet",
    )


def components(request: WheelRequest) -> list[Component]:
    """The library that the bindings are written with, and what is in it."""
    info = request.sdk.info
    requirement = {"requirement": pin_binding_library(info.binding_requirements)}
    return [
        Component(name, license, purl=f"pkg:pypi/{name}", properties=requirement)
        if name == info.binding_library
        else Component(name, license)
        for name, license in _BINDING_LIBRARIES[info.binding_library]
    ]


WHEELS = ProjectWheels(
    upstream=upstream,
    fill_in=fill_in,
    has_addon=True,
    components=components,
    # Measured with GCC 12 and LLVM 22.1.8. The compilers come early among the steps, and files that are copied last.
    course=Course(
        seconds=242, shares=(0.2, 0.21, 0.23, 0.27, 0.31, 1.0), reached=(20.0, 90.0, 120.0, 150.0, 180.0, 205.0)
    ),
    disk=1_500_000_000,
    of_sdk=sdk_wheels,
)
