"""The wheels of clang's Python bindings: see :mod:`mlir_release.builder.wheels.port`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlir_release.builder.tools.ninja import Course
from mlir_release.builder.wheels.port import ProjectWheels
from mlir_release.ground.python.platforms import PlatformTag

if TYPE_CHECKING:
    from mlir_release.builder.wheels.request import WheelRequest


def _fill_in(pyproject: dict[str, Any], request: WheelRequest) -> None:
    """Add the definitions of ``CMakeLists.txt``; the bindings need nothing but the standard library."""
    if glibc := PlatformTag.parse(request.floor).glibc:
        defines = pyproject["tool"]["scikit-build"]["cmake"]["define"]
        defines["MLIR_RELEASE_GLIBC"] = "{}.{}".format(*glibc)


WHEELS = ProjectWheels(
    upstream=lambda _: ("clang/bindings/python/clang", "clang/tools/libclang"),
    fill_in=_fill_in,
    # Measured with GCC 12 and LLVM 22.1.8: 23 files, of which CIndex.cpp takes longest, and a link.
    course=Course(seconds=190, shares=(0.2, 0.4, 0.6, 0.8, 1.0), reached=(30.0, 70.0, 105.0, 145.0, 180.0)),
    disk=600_000_000,
)
